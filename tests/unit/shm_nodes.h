/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Links of shared memory, all in this process, for test_shm.c and test_shm_damage.c: their rings
 * and inboxes are files of a directory that set_up() makes and tear_down() finds empty.
 */
#ifndef URXE_TESTS_UNIT_SHM_NODES_H
#define URXE_TESTS_UNIT_SHM_NODES_H

#include <stdbool.h>
#include <stdint.h>

#include "net/link.h"
#include "net/share/share.h"
#include "net/shm/shm_link.h"
#include "net/wire/icrc.h"

/* NET is a network of the program's own, for the programs run at the same time: meson.build. */
#define ADDRESS_A NET "1"
#define ADDRESS_B NET "2"
#define ADDRESS_C NET "3"
#define DEADLINE UINT64_C(20000000000) /* ns */
#define PAYLOAD 1024
/* Packets that a ring has no space for. */
#define MANY 5000 /* several rings' worth */

struct node {
	struct link *link;
	union ibv_gid gid;
	struct lease lease;
};

extern char directory[64];
extern struct node a, b;
extern struct capture *capture; /* of the nodes that are opened from now on, or NULL */

struct node node_open(const char *address, bool shared_memory, bool icrc);
void node_close(struct node *node);
struct shm_link *shm_of(const struct node *node);
unsigned int count_files(void);
void set_up(void);
void tear_down(void);

/* A packet whose payload is its PSN again and again. */
struct sent {
	struct path path;
	struct iovec vector;
	struct link_packet packet;
};

struct path path_to(const struct node *from, const struct node *to);
void make(struct sent *sent, const struct node *from, const struct node *to, uint32_t psn);
unsigned int send_one(const struct node *from, const struct node *to, uint32_t psn);

unsigned int receive(const struct node *node, struct link_frame *frames, unsigned int max);
/* Fails where none comes. */
void wait_for_frame(const struct node *node, struct link_frame *frame);
uint32_t psn_of(const struct link_frame *frame);
/* Fails unless @frame is what send_one() sent. */
void check_frame(const struct link_frame *frame, const struct node *from, const struct node *to,
		 uint32_t psn);

#endif
