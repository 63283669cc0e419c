/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An application whose calls the input chooses, on two devices of this process, and what is known
 * of them: which objects there are, what uses them, and which work requests are outstanding. The
 * library is the real one, so are its packets and its time: what depends on these isn't predicted.
 *
 *   calls.c          picking objects, the memory, the end
 *   calls_objects.c  what is made and destroyed, but for regions and queue pairs
 *   calls_regions.c  regions of memory, and the addresses that they have
 *   calls_dm.c       device memory
 *   calls_imports.c  other names of regions
 *   calls_qp.c       queue pairs and groups
 *   calls_handles.c  targets of XRC that are opened once more
 *   calls_work.c     which work requests are outstanding
 *   calls_send.c     posting sends, binding windows
 *   calls_receive.c  posting receives
 *   calls_poll.c     completions
 *   calls_events.c   events
 *   calls_keys.c     which keys name nothing any more
 *   calls_atomics.c  what atomics have made of their words
 */
#ifndef URXE_TESTS_FUZZ_CALLS_H
#define URXE_TESTS_FUZZ_CALLS_H

#include <infiniband/verbs.h>
#include <stdbool.h>

#include "input.h"

#define CALLS_QKEY 0x1ee7
#define WORKS_MAX 384 /* of one input */
#define SLOT_SIZE 8192
#define SOURCE_SIZE 65536
#define PLACE_SIZE 128
/* Its words are multiples of a number, and these of that its inverse: each tells where it is. */
#define SOURCE_FACTOR 2654435761u
#define SOURCE_INVERSE 244002641u
#define EVENTS_MAX 8
#define DEAD_KEYS 32
#define WAIT_SECONDS 10 /* for what must come */

enum { DEVICES = 2, PDS = 3, MRS = 4, MWS = 3, CQS = 4, SRQS = 3, QPS = 4, AHS = 3 };
enum { CHANNELS = 2, XRCDS = 2, GROUPS = 2, ATOMICS = 8, HANDLES = 2, DMS = 2, TDS = 2 };
enum { IMPORTS = 2 };

enum { END_DRAINED = 1, END_CLOSED_FIRST = 2, END_DEVICES = 4 };

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* Events of one kind, of one object: how many have come, and how many there are to be. */
struct due {
	unsigned int came, least, most;
};

/* Each is unused while @ibv is NULL. */
struct fuzz_pd {
	struct ibv_pd *ibv;
	struct ibv_pd *parent; /* of a parent domain: what it is made of */
	struct ibv_td *td;
};

struct fuzz_td {
	struct ibv_td *ibv;
};

struct fuzz_dm {
	struct ibv_dm *ibv;
	size_t length;
};

/*
 * What an address of the arena is to a key: keys whose region has its addresses from elsewhere have
 * a shift, which is added. Devices give out their keys independently: so no two shifts make one
 * address of two places, but for those of device memory, which is laid out as the arena begins.
 */
struct naming {
	uint64_t shift;
	bool is_dm;
};

struct fuzz_mr {
	struct ibv_mr *ibv;
	struct ibv_pd *pd;
	struct ibv_dm *dm; /* or NULL */
	struct naming naming;
};

struct fuzz_import {
	struct ibv_mr *ibv;
};

struct fuzz_mw {
	struct ibv_mw *ibv;
	struct ibv_pd *pd;
	unsigned int bound; /* perhaps: bits 1 << index of regions */
	struct naming naming;
};

struct fuzz_ah {
	struct ibv_ah *ibv;
	struct ibv_pd *pd;
};

struct fuzz_xrcd {
	struct ibv_xrcd *ibv;
};

struct fuzz_channel {
	struct ibv_comp_channel *ibv;
};

struct fuzz_cq {
	struct ibv_cq *ibv;
	struct ibv_comp_channel *channel;
	struct ibv_cq_ex *ex; /* or NULL */
	uint64_t last_time;   /* of its completions */
	bool overruns;	      /* perhaps: completions may be lost */
	unsigned int arms, events, unacknowledged;
	/* Armed for the next; and it was empty since; events that must have come, at least. */
	bool armed, was_empty;
	unsigned int due;
};

struct fuzz_srq {
	struct ibv_srq *ibv;
	struct ibv_pd *pd;
	struct ibv_xrcd *xrcd; /* with @cq, or both NULL */
	struct ibv_cq *cq;
	uint32_t number; /* of XRC */
	uint32_t max_wr, max_sge;
	unsigned int limit;   /* armed, or 0: its event has come perhaps */
	uint32_t limit_since; /* which work requests were there when it was */
	struct due limit_reached;
};

struct fuzz_qp {
	struct ibv_qp *ibv;
	struct ibv_qp_ex *ex; /* or NULL */
	enum ibv_qp_type type;
	struct ibv_pd *pd;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_srq *srq;
	struct ibv_xrcd *xrcd;
	struct ibv_qp_cap cap;
	bool signal_all;
	enum ibv_qp_state state; /* as the application set it */
	bool recovered;		 /* it may have been in SQE before */
	bool drains;		 /* its event of SQD isn't due yet */
	struct due drained, last_wqe;
	unsigned int groups; /* bits 1 << index */
};

struct fuzz_handle {
	struct ibv_qp *ibv;
	struct ibv_xrcd *xrcd;
};

enum work_state {
	WORK_NONE, /* never accepted */
	WORK_OUT,
	WORK_DONE,
	WORK_GONE,  /* with its queue: it must not complete */
	WORK_ORPHAN /* with its XRC SRQ, whose completions stay in their CQ */
};

/* A work request; its wr_id is its index in world.works. */
struct work {
	enum work_state state;
	const struct fuzz_qp *qp; /* or NULL: of @srq */
	const struct fuzz_srq *srq;
	struct ibv_cq *cq; /* ORPHAN: where it may complete */
	bool is_send, signaled, delivered;
	enum ibv_wr_opcode opcode;
	uint32_t source; /* sends: where in the source memory its data begins */
	uint32_t length; /* bytes */
	uint32_t qpn;	 /* sends: of @qp, and of which device it is */
	unsigned int device;
	uint32_t rkey;	/* that it asks for access with, or invalidates */
	bool must_fail; /* as that names nothing any more */
	bool has_original;
	uint64_t original; /* atomics that succeeded: what they have found */
};

struct world {
	struct input input;
	uint8_t end; /* END_* */
	struct ibv_context *contexts[DEVICES];
	union ibv_gid gids[DEVICES];
	struct fuzz_pd pds[PDS];
	struct fuzz_mr mrs[MRS];
	struct fuzz_mw mws[MWS];
	struct fuzz_dm dms[DMS];
	struct fuzz_td tds[TDS];
	struct fuzz_import imports[IMPORTS];
	struct fuzz_ah ahs[AHS];
	struct fuzz_xrcd xrcds[XRCDS];
	struct fuzz_channel channels[CHANNELS];
	struct fuzz_cq cqs[CQS];
	struct fuzz_srq srqs[SRQS];
	struct fuzz_qp qps[QPS];
	struct fuzz_handle handles[HANDLES];
	struct ibv_async_event events[EVENTS_MAX]; /* that weren't acknowledged */
	unsigned int event_count;
	struct work works[WORKS_MAX];
	uint32_t work_count;
	uint32_t resets; /* of queue pairs */
	bool has_null;	 /* a null region, of which zeros come: with any number of what is sent */
	uint32_t dead_keys[DEAD_KEYS];
	unsigned int dead_count;
};

/*
 * The memory: first the data that is sent, which nothing writes, then what atomics change, then a
 * slot for each work request, where it receives, reads to or writes. Device memory has the source,
 * too, and a smaller place for each work request.
 */
struct arena {
	uint8_t source[SOURCE_SIZE];
	uint8_t places[WORKS_MAX][PLACE_SIZE];
	uint64_t atomics[ATOMICS];
	uint8_t slots[WORKS_MAX][SLOT_SIZE];
};

extern struct arena arena;

#define DM_SIZE offsetof(struct arena, atomics)

/* Whether @data is part of the source memory; @from: where it begins. True below four bytes. */
bool arena_find(const uint8_t *data, uint32_t length, uint32_t *from);

bool is_zero(const uint8_t *data, size_t length);

/* One of those of the input's choice that are there, or NULL. */
#define PICK(world, array)                                                                         \
	pick_used(&(world)->input, (world)->array, sizeof((world)->array[0]),                      \
		  COUNT_OF((world)->array))
/* One that isn't there, or NULL. */
#define UNUSED(world, array)                                                                       \
	find_unused((world)->array, sizeof((world)->array[0]), COUNT_OF((world)->array))
void *pick_used(struct input *input, void *objects, size_t size, size_t count);
void *find_unused(void *objects, size_t size, size_t count);

/* A call that destroys: 0, or EBUSY if @busy. */
void must_destroy(int result, bool busy, const char *call);

double seconds(void);

/* The end: all completes, and can be destroyed. */
void world_end(struct world *world);

/* --- calls_objects.c */
void call_alloc_pd(struct world *world);
void call_alloc_parent_domain(struct world *world);
void call_alloc_td(struct world *world);
void call_alloc_threads_domain(struct world *world);
void call_dealloc_td(struct world *world);
void call_dealloc_pd(struct world *world);
void call_alloc_mw(struct world *world);
void call_dealloc_mw(struct world *world);
void call_create_ah(struct world *world);
void call_destroy_ah(struct world *world);
void call_open_xrcd(struct world *world);
void call_close_xrcd(struct world *world);
void call_create_channel(struct world *world);
void call_destroy_channel(struct world *world);
void call_create_cq(struct world *world);
void call_resize_cq(struct world *world);
void call_modify_cq(struct world *world);
void call_destroy_cq(struct world *world);
void call_create_srq(struct world *world);
void call_modify_srq(struct world *world);
void call_destroy_srq(struct world *world);
/* Whatever there is once, in an order that is often the wrong one; whether anything is left. */
bool objects_destroy(struct world *world);
/* Of each that the rest needs one, of CQs two. */
void objects_make(struct world *world);

struct ibv_context *pick_context(struct world *world);

/* --- calls_regions.c */
void call_reg_mr(struct world *world);
void call_reg_mr_iova(struct world *world);
void call_reg_dm_mr(struct world *world);
void call_alloc_null_mr(struct world *world);
void call_reg_dmabuf_mr(struct world *world);
void call_rereg_mr(struct world *world);
void call_dereg_mr(struct world *world);
void call_advise_mr(struct world *world);
void dereg_mr(struct world *world, struct fuzz_mr *mr);
/* By the same keys: what of the arena is there, or in device memory instead. */
uint64_t address_of(const void *address, struct naming naming);

/* --- calls_dm.c */
void call_alloc_dm(struct world *world);
void call_copy_dm(struct world *world);
void call_free_dm(struct world *world);
void free_dm(struct world *world, struct fuzz_dm *dm);
/* What has come for the work request, in the arena or in any device memory. */
const uint8_t *arrived_data(struct world *world, uint32_t index, uint32_t length);

/* --- calls_imports.c */
void call_import_mr(struct world *world);
void call_unimport_mr(struct world *world);
void unimport_mr(struct world *world, struct fuzz_import *import);

/* --- calls_qp.c */
void call_create_qp(struct world *world);
void call_modify_qp(struct world *world);
void call_connect_qp(struct world *world);
void call_drain(struct world *world);
void call_query_qp(struct world *world);
void call_ece(struct world *world);
void call_destroy_qp(struct world *world);
void call_attach_mcast(struct world *world);
void call_detach_mcast(struct world *world);
/* In SQD with nothing under way it has told that. */
void note_drained(struct fuzz_qp *qp);
/* By @handle: the queue pair's own, or one that was opened. */
int modify(struct world *world, struct fuzz_qp *qp, struct ibv_qp *handle, struct ibv_qp_attr *attr,
	   int mask);
/* True if it is in ERR then. */
bool qp_enter_error(struct world *world, struct fuzz_qp *qp);
bool qps_destroy(struct world *world);
struct fuzz_qp *qp_of_number(struct world *world, uint32_t number);

/* --- calls_handles.c */
void call_open_qp(struct world *world);
void call_modify_handle(struct world *world);
void call_close_handle(struct world *world);
struct fuzz_handle *find_handle(struct world *world, const struct ibv_qp *ibv);
void handles_close(struct world *world);

/* --- calls_send.c */
void call_post_send(struct world *world);
void call_wr(struct world *world);
void call_bind_mw(struct world *world);

/* --- calls_receive.c */
void call_post_recv(struct world *world);
void call_post_srq_recv(struct world *world);

/* --- calls_work.c */
#define LIST_MAX 4
#define SGES_MAX 9
#define LENGTHS 10

/* One for a request that is about to be posted, of @qp or @srq, if there is space for a list. */
bool has_space(const struct world *world);
struct work *new_work(struct world *world, const struct fuzz_qp *qp, const struct fuzz_srq *srq);
unsigned int count_out(const struct world *world, const struct fuzz_qp *qp, bool sends);
/* Its sends that have a completion whatever comes of them. */
unsigned int count_signaled(const struct world *world, const struct fuzz_qp *qp);
unsigned int count_out_srq(const struct world *world, const struct fuzz_srq *srq);
/* Those of a queue that is reset or destroyed. */
void forget_works(struct world *world, const struct fuzz_qp *qp, const struct fuzz_srq *srq);
/* The queues of @qp, which are empty, take as many as they have room for. It is in ERR. */
void refill(struct world *world, struct fuzz_qp *qp);

extern const uint32_t lengths[LENGTHS];
uint32_t pick_lkey(struct world *world, struct naming *naming);
/* Where the work request at @index has its data come to by a key; @length becomes what fits. */
uint64_t place_of(uint32_t index, struct naming naming, uint32_t *length);
/* One range in @count pieces, one behind the other. */
void cut(struct ibv_sge *sges, unsigned int count, uint64_t addr, uint32_t length, uint32_t lkey);

/* --- calls_poll.c */
void call_poll_cq(struct world *world);
void call_poll_all(struct world *world);
/* How many completions there were. */
unsigned int poll_all(struct world *world);
/* Find the CQs that may have overrun: more may complete than they have entries. */
void note_overruns(struct world *world);

/* --- calls_events.c */
void call_req_notify(struct world *world);
void call_get_cq_event(struct world *world);
void call_ack_cq_events(struct world *world);
void call_get_async_event(struct world *world);
void call_ack_async_events(struct world *world);
/* Those that are due come. */
void await_cq_events(struct world *world);
void await_async_events(struct world *world);
void acknowledge_cq(struct fuzz_cq *cq);
struct fuzz_cq *find_cq(struct world *world, const struct ibv_cq *ibv);

/* --- calls_keys.c */
/* It names an object from now on, or, on the device of @context, doesn't any more. */
void key_begins(struct world *world, uint32_t rkey);
void key_ends(struct world *world, uint32_t rkey, const struct ibv_context *context);
/* One that names nothing, or 0. */
uint32_t pick_dead_key(const struct world *world, uint8_t choice);
bool key_is_dead(const struct world *world, uint32_t rkey);

/* --- calls_atomics.c */
/* Of a work request that is one: to which word it is, and what it does there. */
void atomic_stage(struct ibv_send_wr *wr, uint32_t source);
void atomic_check(struct world *world, uint32_t index);
/* Nothing is under way any more. */
void atomics_end(const struct world *world);

#endif
