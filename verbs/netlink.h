/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kernel's news about network devices and addresses (rtnetlink(7)): an open device
 * hears of its port (verbs/device_watch.c), rdma_cm of the network devices that its ids
 * are bound to (verbs/rdma/rdma_watch.c) and of neighbours (verbs/rdma/rdma_neighbour.c).
 * Each has a socket of its own, which the progress thread reads. And questions, which
 * any thread may ask. No locks.
 */
#ifndef URXE_VERBS_NETLINK_H
#define URXE_VERBS_NETLINK_H

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/descriptor.h"

struct netlink_socket {
	int fd; /* -1: closed, by us or by the application */
	struct descriptor_identity identity;
};

/* A socket that receives the messages of @groups (RTMGRP_...). Returns 0 or an errno. */
int netlink_open(struct netlink_socket *socket, uint32_t groups);
void netlink_close(struct netlink_socket *socket);
/* Whether it still is ours (net/descriptor.h); before it is received from. */
bool netlink_verify(struct netlink_socket *socket);

/*
 * Hand each message that has come to @handle; NULL: messages were lost, because there
 * were more than the socket holds. Never waits. Returns whether there were any.
 */
bool netlink_receive(const struct netlink_socket *socket,
		     void (*handle)(void *context, const struct nlmsghdr *message), void *context);

/* What an RTM_NEWLINK or RTM_DELLINK is about, or NULL if @message is no such. */
const struct ifinfomsg *netlink_link(const struct nlmsghdr *message);

/* A question, and then its answer. */
struct netlink_message {
	struct nlmsghdr header;
	uint8_t body[1024];
};

/* Begin @message: @type is RTM_..., @body what such a message begins with. */
void netlink_begin(struct netlink_message *message, uint16_t type, const void *body, size_t length);
/* Append an attribute. */
void netlink_put(struct netlink_message *message, uint16_t type, const void *data, size_t length);
/* The attribute of @type, behind a body of @body bytes, with at least @length bytes; or NULL. */
const void *netlink_get(const struct netlink_message *message, size_t body, uint16_t type,
			size_t length);

/* Ask the kernel @message, which becomes the answer. Returns 0 or an errno. */
int netlink_ask(struct netlink_message *message);

#endif
