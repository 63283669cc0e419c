/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the kernel says of a network device, by ioctl(2) of netdevice(7). Called by any thread; no
 * state: each question has a socket of its own.
 */
#ifndef URXE_NET_NETDEV_H
#define URXE_NET_NETDEV_H

#include <net/if.h>
#include <sys/ioctl.h>

/* ioctl(@request, @argument) of a socket. Returns 0 or an errno. */
int netdev_ioctl(unsigned long request, void *argument);

/* The answer to SIOCGIF... about the device @name: 0, or an errno as ENODEV. */
int netdev_ask(const char *name, unsigned long request, struct ifreq *answer);

/* Of the device @name. Returns 0, or an errno: ENODEV if there is none of this name. */
int netdev_index(const char *name, unsigned int *ifindex);

#endif
