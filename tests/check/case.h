/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Small programs for the checker (URXE_CHECK): bad ones, in which it finds one kind of misuse and
 * nothing else, and good ones, about which it is silent. Each is run as a process of its own by
 * tests/check/main.c, on its own address.
 */
#ifndef URXE_TESTS_CHECK_CASE_H
#define URXE_TESTS_CHECK_CASE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "net/cause/cause.h"
#include "tests/must.h"

struct check_case {
	const char *name;
	enum cause cause; /* what a bad one does, and a good one comes near to */
	bool bad;
	void (*run)(void);
	const char *options; /* of URXE_CHECK, besides those of all; or NULL */
	const char *said;    /* in what is reported of a bad one; or NULL */
	enum cause also;     /* one that a bad one can't do without; or CAUSE_NONE */
};

#define BAD(cause, run, ...)                                                                       \
	{                                                                                          \
#run, CAUSE_##cause, true, run, __VA_ARGS__                                        \
	}
#define GOOD(cause, run, ...)                                                                      \
	{                                                                                          \
#run, CAUSE_##cause, false, run, __VA_ARGS__                                       \
	}

/* A table of cases. All causes from @first to @last must have some, in any table. */
struct check_table {
	const struct check_case *cases;
	unsigned int count;
	uint32_t first, last;
};

#define CHECK_TABLE(cases, first, last)                                                            \
	{                                                                                          \
		cases, sizeof(cases) / sizeof((cases)[0]), first, last                             \
	}

extern const struct check_table object_cases, event_cases, exit_cases; /* 0x70xx */
extern const struct check_table work_cases, wait_cases;		       /* 0x71xx */
extern const struct check_table portability_cases;		       /* 0x72xx */

/* --- what cases need ------------------------------------------------------------------ */

#define CASE_BUFFER 4096
#define CASE_DEPTH 16

/* A device, and a QP that is connected to itself. */
struct rig {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;   /* of both queues, with the channel */
	struct ibv_qp *qp;   /* RC, not connected */
	unsigned int access; /* that it allows to the peer */
	int sq_sig_all;	     /* of it, when the rig is opened */
	uint8_t buffer[CASE_BUFFER];
};

struct ibv_context *open_device(void);
void rig_open(struct rig *rig);
void rig_close(struct rig *rig);
/* To RTS, connected to itself. */
void rig_connect(struct rig *rig);
/* The same, with another rnr_retry than 7. */
void rig_connect_retrying(struct rig *rig, uint8_t rnr_retry);
/* A receive completes, flushed; the QP is in RESET then. */
void rig_complete_one(struct rig *rig);

/* The address of this process's device. */
const char *case_address(void);

#endif
