/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/shm_nodes.h"

#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "gid_of.h"
#include "net/clock.h"
#include "net/udp/udp.h"

char directory[64];
struct node a, b;
struct capture *capture;

struct node node_open(const char *address, bool shared_memory, bool icrc)
{
	const struct udp_options udp_options = {.segmentation = true, .capture = capture};
	const struct shm_options options = {.icrc = icrc, .directory = directory};
	struct node node = {.gid = gid_of(address)};
	struct link *udp;

	ck_assert_int_eq(udp_link_create(&udp_options, &udp), 0);
	node.link = udp;
	udp->ops->receive_grh(udp);
	if (shared_memory)
		ck_assert_int_eq(shm_link_create(udp, &options, &node.link), 0);
	ck_assert_int_eq(node.link->ops->add_address(node.link, &node.gid, 0), 0);
	ck_assert_int_eq(node.link->share->ops->lease_qpns(node.link->share, &node.lease), 0);
	return node;
}

void node_close(struct node *node)
{
	node->link->ops->close(node->link);
	node->link = NULL;
}

struct shm_link *shm_of(const struct node *node)
{
	return (struct shm_link *)node->link;
}

unsigned int count_files(void)
{
	DIR *files = opendir(directory);
	struct dirent *entry;
	unsigned int count = 0;

	while ((entry = readdir(files)))
		count += entry->d_name[0] != '.';
	closedir(files);
	return count;
}

void set_up(void)
{
	snprintf(directory, sizeof(directory), "/dev/shm/urxe-test-shm-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(directory));
	a = node_open(ADDRESS_A, true, false);
	b = node_open(ADDRESS_B, true, false);
}

void tear_down(void)
{
	if (a.link)
		node_close(&a);
	if (b.link)
		node_close(&b);
	ck_assert_uint_eq(count_files(), 0);
	ck_assert_int_eq(rmdir(directory), 0);
}

static uint8_t payload[PAYLOAD];

struct path path_to(const struct node *from, const struct node *to)
{
	return (struct path){.source = from->gid, .destination = to->gid};
}

void make(struct sent *sent, const struct node *from, const struct node *to, uint32_t psn)
{
	struct bth bth = {.opcode = WIRE_RC | WIRE_SEND_ONLY,
			  .pkey = htobe16(PKEY_DEFAULT),
			  .dest_qp = htobe32(to->lease.start),
			  .psn = htobe32(psn)};

	memset(payload, psn, sizeof(payload));
	*sent = (struct sent){
		.path = {.source = from->gid, .destination = to->gid, .hop_limit = 64},
		.vector = {payload, sizeof(payload)},
		.packet = {.payload_length = sizeof(payload),
			   .payload_count = 1,
			   .headers_length = sizeof(bth),
			   .trailer_length = ICRC_LENGTH},
	};
	sent->packet.path = &sent->path;
	sent->packet.payload = &sent->vector;
	memcpy(sent->packet.headers, &bth, sizeof(bth));
}

unsigned int send_one(const struct node *from, const struct node *to, uint32_t psn)
{
	struct sent sent;

	make(&sent, from, to, psn);
	return from->link->ops->send(from->link, &sent.packet, 1, clock_now());
}

unsigned int receive(const struct node *node, struct link_frame *frames, unsigned int max)
{
	return node->link->ops->receive(node->link, frames, max, clock_now());
}

void wait_for_frame(const struct node *node, struct link_frame *frame)
{
	uint64_t end = clock_now() + DEADLINE;

	while (receive(node, frame, 1) == 0)
		ck_assert_uint_lt(clock_now(), end);
}

uint32_t psn_of(const struct link_frame *frame)
{
	return be32toh(((const struct bth *)frame->data)->psn);
}

void check_frame(const struct link_frame *frame, const struct node *from, const struct node *to,
		 uint32_t psn)
{
	static uint8_t expected[PAYLOAD];

	memset(expected, psn, sizeof(expected));
	if (frame->length != sizeof(struct bth) + PAYLOAD + ICRC_LENGTH || psn_of(frame) != psn ||
	    memcmp(frame->data + sizeof(struct bth), expected, PAYLOAD) != 0 ||
	    memcmp(&frame->source, &from->gid, sizeof(from->gid)) != 0 ||
	    memcmp(&frame->destination, &to->gid, sizeof(to->gid)) != 0 || frame->hop_limit != 64)
		ck_abort_msg("frame %u isn't what was sent", psn);
}
