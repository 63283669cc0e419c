/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Registered memory that goes away, in each way in which it can go, and the requests that use it,
 * for test_guard.c and test_guard_handlers.c.
 */
#ifndef URXE_TESTS_VERBS_GONE_H
#define URXE_TESTS_VERBS_GONE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/verbs/fixture.h"

#define ACCESS                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

struct gone {
	uint8_t *address;
	int file;
	struct ibv_mr *mr;
	bool on_demand;
};

extern struct pair pair;
extern struct gone gone; /* a page that one of by_...() takes away */
extern size_t page;

void by_munmap(void);
void by_mprotect(void);
void by_mprotect_readable(void);
void by_ftruncate(void);

/* With @pair open. */
void gone_open(void);
void gone_close(void);
struct ibv_sge gone_sge(uint32_t length);
/* From @pair's sender. @remote: NULL of a SEND. */
void post(enum ibv_wr_opcode opcode, struct ibv_sge sge, const struct ibv_mr *remote);

/* Where the access is. */
enum side { SOURCE, SINK, REMOTE, RECEIVE };

struct use {
	enum ibv_wr_opcode opcode;
	enum side side;
	bool reads; /* the memory that is gone */
};

#define USES 8
extern const struct use uses[USES];

void expect_event(enum ibv_event_type type);
/* Open @pair, use what goes by @go(), and expect the errors that this has. */
void try_use(const struct use *use, void (*go)(void), uint32_t length);
/* By two of the ways, to read from it and to write to it. */
void use_gone_memory(void);

/* The process's own file that others read (net/observe). */
void truncate_ours(void);

#endif
