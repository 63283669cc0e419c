/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Links that share an address, all in this process, for test_share.c and test_share_forward.c. On
 * loopback send() delivers before it returns, and forwarding does too: nothing here waits for time.
 */
#ifndef URXE_TESTS_UNIT_SHARE_NODES_H
#define URXE_TESTS_UNIT_SHARE_NODES_H

#include <arpa/inet.h>
#include <check.h>
#include <stdbool.h>
#include <stdint.h>

#include "net/link.h"
#include "net/share/share.h"

#define PATIENCE 1000 /* polls of all links */

struct roster;

struct node {
	struct link *link;
	union ibv_gid gid;
	uint32_t qpn; /* one of those leased */
};

/* Open nodes that a forked process has inherited. */
struct inherited {
	const struct node *nodes;
	unsigned int count;
};

extern struct capture *capture; /* of the nodes that are opened from now on, or NULL */
struct node node_open(const char *address);
void node_close(struct node *node);
/* In the child. */
void inherited_close(const struct inherited *inherited);

struct share *node_share(const struct node *node);
struct roster *node_roster(const struct node *node);
bool node_forward(const struct node *node, const struct link_frame *frame);
int node_claim(const struct node *node, const union ibv_gid *gid, uint64_t service_id);
struct sockaddr_in on_loopback(uint16_t port);

void make_packet(struct link_packet *packet, const struct path *path, uint32_t qpn, uint32_t psn);
void node_send(struct node *from, const struct node *to, uint32_t qpn, uint32_t psn);
/* What comes to @node next: its PSN, or -1 for nothing. It must be whole. */
int node_receive(struct node *node, struct link_frame *frame);

/* Members that come send each other signals; these are out of the way then. */
void nodes_drain(struct node *nodes, unsigned int count);
/*
 * From @from to each of @nodes: it comes there, once, and to no other one. Returns how many packets
 * were handed on.
 */
unsigned int nodes_check_each(struct node *from, struct node *nodes, unsigned int count);
/* Nothing is lost, and in the end nothing is handed on any more. */
void nodes_expect_repair(struct node *from, struct node *nodes, unsigned int count);

#endif
