/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kernel's news about network devices and addresses (rtnetlink(7)): an open device
 * hears of its port (verbs/device_watch.c), rdma_cm of the network devices that its ids
 * are bound to (verbs/rdma/rdma_watch.c). Each has a socket of its own, which the
 * progress thread reads; no locks.
 */
#ifndef URXE_VERBS_NETLINK_H
#define URXE_VERBS_NETLINK_H

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdbool.h>
#include <stdint.h>

/* A socket that receives the messages of @groups (RTMGRP_...), or -1 with errno. */
int netlink_open(uint32_t groups);

/*
 * Hand each message that has come to @handle; NULL: messages were lost, because there
 * were more than the socket holds. Never waits. Returns whether there were any.
 */
bool netlink_receive(int fd, void (*handle)(void *context, const struct nlmsghdr *message),
		     void *context);

/* What an RTM_NEWLINK or RTM_DELLINK is about, or NULL if @message is no such. */
const struct ifinfomsg *netlink_link(const struct nlmsghdr *message);

#endif
