/* SPDX-License-Identifier: BSD-2-Clause */
#include "share_nodes.h"

#include <check.h>
#include <unistd.h>

#include "gid_of.h"
#include "net/share/roster.h"
#include "net/udp/udp_link.h"
#include "net/wire/icrc.h"

struct share *node_share(const struct node *node)
{
	return node->link->share;
}

struct roster *node_roster(const struct node *node)
{
	return ((struct udp_link *)node->link)->share.roster;
}

bool node_forward(const struct node *node, const struct link_frame *frame)
{
	return node_share(node)->ops->forward(node_share(node), frame);
}

int node_claim(const struct node *node, const union ibv_gid *gid, uint64_t service_id)
{
	return node_share(node)->ops->claim(node_share(node), gid, service_id);
}

struct capture *capture;

struct node node_open(const char *address)
{
	const struct udp_options options = {
		.segmentation = true, .receive_buffer = 100000, .capture = capture};
	struct node node = {.gid = gid_of(address)};
	struct lease lease;

	ck_assert_int_eq(udp_link_create(&options, &node.link), 0);
	ck_assert_int_eq(node.link->ops->add_address(node.link, &node.gid, 0), 0);
	ck_assert_int_eq(node_share(&node)->ops->lease_qpns(node_share(&node), &lease), 0);
	ck_assert_uint_eq(lease.count, SLOT_QPNS);
	node.qpn = lease.start;
	return node;
}

void node_close(struct node *node)
{
	node->link->ops->close(node->link);
	node->link = NULL;
}

void make_packet(struct link_packet *packet, const struct path *path, uint32_t qpn, uint32_t psn)
{
	static const uint8_t bytes[64] = {1, 2, 3};
	static const struct iovec vector = {(void *)bytes, sizeof(bytes)};

	*packet = (struct link_packet){.path = path,
				       .payload = &vector,
				       .payload_length = sizeof(bytes),
				       .payload_count = 1,
				       .headers_length = sizeof(struct bth),
				       .trailer_length = ICRC_LENGTH};
	memcpy(packet->headers,
	       &(struct bth){.opcode = WIRE_RC | WIRE_SEND_ONLY,
			     .pkey = htobe16(PKEY_DEFAULT),
			     .dest_qp = htobe32(qpn),
			     .psn = htobe32(psn)},
	       sizeof(struct bth));
}

void node_send(struct node *from, const struct node *to, uint32_t qpn, uint32_t psn)
{
	struct path path = {.source = from->gid, .destination = to->gid, .traffic_class = 8};
	struct link_packet packet;

	make_packet(&packet, &path, qpn, psn);
	from->link->ops->send(from->link, &packet, 1, 0);
}

static uint32_t psn_of(const struct link_frame *frame)
{
	return be32toh(((const struct bth *)frame->data)->psn) & PSN_MASK;
}

int node_receive(struct node *node, struct link_frame *frame)
{
	if (node->link->ops->receive(node->link, frame, 1, 0) == 0)
		return -1;
	ck_assert_uint_eq(frame->length, sizeof(struct bth) + 64 + ICRC_LENGTH);
	ck_assert(icrc_check(frame));
	return psn_of(frame);
}

void nodes_drain(struct node *nodes, unsigned int count)
{
	struct link_frame frame;

	for (int polls = 0; polls < 40; polls++) {
		for (unsigned int i = 0; i < count; i++)
			ck_assert_int_eq(node_receive(&nodes[i], &frame), -1);
	}
}

/*
 * All poll until the frame has come to its owner, and some more for what else there
 * may be. Returns how often it was handed on.
 */
static unsigned int expect(struct node *nodes, unsigned int count, unsigned int owner, uint32_t psn)
{
	unsigned int forwards = 0;
	bool arrived = false;

	for (int polls = 0, rest = 40; polls < PATIENCE && rest; polls++, rest -= arrived) {
		for (unsigned int i = 0; i < count; i++) {
			struct link_frame frame;
			int got = nodes[i].link ? node_receive(&nodes[i], &frame) : -1;

			if (got < 0)
				continue;
			ck_assert_uint_eq(i, owner);
			ck_assert_uint_eq(got, psn);
			ck_assert(!arrived);
			arrived = true;
			forwards = frame.forwards;
		}
	}
	ck_assert_msg(arrived, "nothing came to %u", owner);
	return forwards;
}

unsigned int nodes_check_each(struct node *from, struct node *nodes, unsigned int count)
{
	static uint32_t psn;
	unsigned int forwards = 0;

	for (unsigned int i = 0; i < count; i++) {
		if (!nodes[i].link)
			continue;
		node_send(from, &nodes[i], nodes[i].qpn, ++psn);
		forwards += expect(nodes, count, i, psn);
	}
	return forwards;
}

void nodes_expect_repair(struct node *from, struct node *nodes, unsigned int count)
{
	int tries = PATIENCE;

	while (nodes_check_each(from, nodes, count) && --tries)
		usleep(1000); /* trouble isn't looked at more often */
	ck_assert_msg(tries, "frames are still handed on");
}

void inherited_close(const struct inherited *inherited)
{
	for (unsigned int i = 0; i < inherited->count; i++)
		inherited->nodes[i].link->ops->after_fork_child(inherited->nodes[i].link);
}

struct sockaddr_in on_loopback(uint16_t port)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
}
