/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The host channel adapter: limits, object tables, and the entry points by
 * which packets and time come in. Sans-IO: it is given a link and the time.
 *
 * Driven by hca_progress(), which any thread may call at any time; one thread at a
 * time receives (hca.receive_lock, a try-lock). Applications' calls (post, poll,
 * modify) go to the objects directly and take only those objects' locks.
 *
 * Locks, outermost first:
 *   hca.receive_lock -> mcast.members_lock -> qp.lock -> srq.lock -> cq.lock -> leaves
 *   mcast.lock -> mcast.members_lock
 *   hca.receive_lock -> cm.lock -> qp.lock
 *   qp.lock -> hca.mw_bind_lock -> table.lock
 *   leaves: table.lock, objects_lock, timer_heap.lock, event_queue.lock, ack_queue.lock,
 *           pacing.lock, placement.lock, hca.destinations_lock, hca.run_lock, hca.xrc_lock,
 *           former_keys.lock, destination.lock (but hca.run_lock is taken under it)
 *   hca.receive_lock, cq.lock, ack_queue.lock, hca.run_lock and destination.lock are spin locks
 *   (net/spin.h)
 *
 * A thread holds at most one QP lock.
 */
#ifndef URXE_EMU_HCA_H
#define URXE_EMU_HCA_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "emu/behaviour.h"
#include "emu/cm/cm.h"
#include "emu/deferred.h"
#include "emu/host.h"
#include "emu/inject/inject.h"
#include "emu/objects/event.h"
#include "emu/objects/former_keys.h"
#include "emu/objects/mcast.h"
#include "emu/objects/table.h"
#include "emu/transport/ack_queue.h"
#include "emu/transport/pacing.h"
#include "emu/transport/timer.h"
#include "emu/watch.h"
#include "net/link.h"
#include "net/observe/record.h"
#include "net/packet_pool.h"
#include "net/pool.h"
#include "net/tuning.h"
#include "net/wire/icrc.h"
#include "net/wire/port_gids.h"
#include "net/wire/wire.h"

struct pd;
struct dm;
struct qp;
struct destination;
struct observe;
struct placement;
struct xrc_domain;

/* What the device can do: ibv_query_device() shows it, and every create and post enforces it. */
struct hca_limits {
	struct ibv_device_attr device;
	uint64_t cap_flags_ex; /* device_cap_flags_ex beyond those of device */
	uint32_t qp_types;     /* enum qp_type_set */
	uint64_t completion_timestamp_mask;
	uint32_t max_inline_data;
	uint32_t max_cq_period; /* us */
	uint16_t max_cq_count;	/* completions that an event waits for */
	bool no_odp;		/* regions on demand */
	uint32_t max_message;	/* bytes */
	uint64_t max_dm_size;	/* bytes of device memory in all */
};

/* SGEs of a work request: what an outbox has iovecs for (emu/transport/outbox.h). */
#define HCA_SGES_MAX 32

/* Everything that the core can do (emu/capacity.c). */
extern const struct hca_limits hca_limits_core;

struct hca_options {
	struct link *link;		 /* stays the caller's */
	struct port_gids gids;		 /* of each port; the tables stay the caller's, likewise */
	const struct hca_host *host;	 /* likewise */
	const struct hca_limits *limits; /* of a card; NULL: the core's */
	const struct hca_behaviour *behaviour; /* likewise */
	struct observe *observe;	/* likewise; NULL: no other process sees what there is */
	struct injector *injector;	/* likewise, of faults; NULL: there are none */
	bool measures;			/* latencies: struct observe_latency */
	const struct work_watch *watch; /* likewise; NULL: there is no checker */
	struct event_sink sink;
	/*
	 * There is something to do at @time (0: now), which may be earlier than hca_deadline() has
	 * said; may be NULL. Called with locks held: it may only wake a thread.
	 */
	void (*deadline)(void *context, uint64_t time);
	void *deadline_context;
	struct cm_sink cm_sink; /* connections (emu/cm/cm.h); without it there is no listening */
	uint64_t node_guid;
	uint64_t seed; /* of key bytes, QP numbers and communication ids */
};

struct hca {
	struct hca_limits limits;
	struct hca_behaviour behaviour;
	uint64_t node_guid;
	struct link *link;
	struct port_gids gids;
	const struct hca_host *host;
	const struct work_watch *watch; /* or NULL */

	/*
	 * The device is gone, and IBV_EVENT_DEVICE_FATAL was raised: nothing new can be made, and
	 * what there is can only be queried and destroyed.
	 */
	_Atomic bool failed;

	struct table qps;
	struct table srqs;	      /* those of XRC; their numbers are reserved in qps */
	struct table cqs;	      /* those that have a timer */
	struct table keys;	      /* of memory regions and windows, by key_number() */
	pthread_mutex_t mw_bind_lock; /* emu/objects/mw.h */
	struct former_keys former_keys;
	_Atomic uint32_t pd_count, cq_count, srq_count, ah_count, qp_count, mr_count, mw_count;
	_Atomic uint32_t handle;
	_Atomic uint32_t key_byte;
	_Atomic uint64_t dm_size; /* emu/objects/dm.h: of all together */

	pthread_mutex_t objects_lock; /* of what is found by its handle: */
	struct pd *pds;		      /* utlist */
	struct dm *dms;		      /* likewise */

	struct event_queue events;
	struct timer_heap timers;
	void (*deadline)(void *context, uint64_t time);
	void *deadline_context;

	pthread_mutex_t xrc_lock;
	struct xrc_domain *xrc_domains; /* emu/objects/xrcd.h */

	pthread_spinlock_t receive_lock;
	/* Of the receiving thread, on whose stack they may not have space. */
	struct link_frame frames[RECEIVE_BATCH];
	struct packet parsed[RECEIVE_BURST]; /* some of them */
	bool urgent; /* a peer waits for what is to be sent to it; under receive_lock */
	_Atomic uint64_t all_read_at; /* what had arrived by then has been received */
	/* The last round left packets in the link, where no descriptor may show them any more. */
	_Atomic bool unread;
	struct icrc_flows icrc_flows;
	struct deferred deferred;
	struct xrc_delegate *xrc_delegates; /* emu/transport/xrc_remote.h */

	/* QPs that have something to do: window opened, acknowledgements pending. */
	pthread_spinlock_t run_lock;
	struct qp *run_head;		/* utlist */
	_Atomic unsigned int run_count; /* spares hca_run() the lock when there is nothing */

	struct ack_queue acks;
	/*
	 * A QP has nothing to do until its peer sends: completer_receive_end(). Cleared by the
	 * thread that polls, and by what the peer sends.
	 */
	_Atomic bool peer_awaited;
	_Atomic bool acks_wanted; /* hca_request_acks() was called, and they have yet to be sent */
	_Atomic unsigned int acknowledging; /* threads in hca_send_acks() */
	_Atomic pthread_t acknowledger;	    /* the last of them to begin, if it still is; or 0 */
	_Atomic pthread_t receiver;	    /* the thread that had receive_lock last, in a round */
	_Atomic uint64_t polled_at;   /* about when an application's poll last found nothing */
	_Atomic unsigned int senders; /* threads that send more than one outbox takes */
	struct pool outboxes;
	struct packet_pool packets;

	struct pacing pacing;
	struct placement *placement; /* NULL, unless payload is placed late */

	pthread_mutex_t destinations_lock;
	struct destination *destinations;

	struct mcast mcast;
	struct cm *cm;
	_Atomic uint32_t gsi_psn; /* of what QP 1 sends next */

	struct observe *observe;
	struct observe_device *observed; /* the device, as other processes see it */
	struct counters *counters;	 /* there */
	bool measures;
	struct inject inject;
	struct port_counters port_counters[PORTS_MAX]; /* zeros when there is one port */
};

/* Returns 0 or an errno, ENOMEM or one of the link's; *@hca is hca_destroy()'s. */
int hca_create(const struct hca_options *options, struct hca **hca);
/* Every object must be gone. */
void hca_destroy(struct hca *hca);

/*
 * Receive what has arrived, run what is due and what can run, deliver events.
 * Never waits. Returns whether anything was done; false too when another thread
 * is receiving.
 */
bool hca_progress(struct hca *hca, uint64_t now);
/* Receive all that had arrived by @now, in a call of the application's. No lock may be held. */
void hca_catch_up(struct hca *hca, uint64_t now);
/* Whether a thread is in hca_progress() at this moment, or in another call that sends much. */
bool hca_is_busy(struct hca *hca);

/* Send the acknowledgements that wait for @age or longer, as ack_queue_is_due() says there are. */
bool hca_send_acks(struct hca *hca, uint64_t now, uint64_t age);

/*
 * A polling thread found that nothing arrives, and its application has seen all that
 * did: send the acknowledgements that were to go with its answers.
 */
static inline void hca_acknowledge(struct hca *hca, uint64_t now)
{
	if (now - atomic_load_explicit(&hca->polled_at, memory_order_relaxed) > ACK_POLLED_GRAIN)
		atomic_store_explicit(&hca->polled_at, now, memory_order_relaxed);
	if (ack_queue_is_due(&hca->acks, now, ACK_DELAY_POLLED))
		hca_send_acks(hca, now, ACK_DELAY_POLLED);
}

/*
 * The process ends: have the thread that makes progress next send the delayed ACKs, and return
 * whether any have yet to leave, those included that another thread is about to add in its round,
 * or is sending. Waits for no lock: the calling thread may have been interrupted with any. Safe in
 * signal handlers.
 */
bool hca_request_acks(struct hca *hca);

/*
 * The process ends: send what acknowledgements wait, as far as no lock is in the
 * way (their holders may be threads that are gone), and receive nothing more. Only
 * for the connection manager's it waits a while (hca_host.lock_at_exit).
 */
void hca_flush_on_exit(struct hca *hca, uint64_t now);

/*
 * When the next round is due although nothing arrives, or TIME_NEVER. For the progress thread,
 * right before it sleeps: this tells the link so (link_ops.prepare_sleep).
 */
uint64_t hca_deadline(struct hca *hca);

/* Queue @qp to be run by this or the next round. A QP lock may be held. */
void hca_schedule(struct hca *hca, struct qp *qp);
/* Take @qp off the queue (it is being destroyed). */
void hca_unschedule(struct hca *hca, struct qp *qp);
/* The slow part of hca_run(). */
bool hca_run_due(struct hca *hca, uint64_t now);

/*
 * Run the queued QPs; no QP lock may be held. Returns whether there were any. A polling thread
 * looks several times a microsecond, mostly in vain.
 */
static inline bool hca_run(struct hca *hca, uint64_t now)
{
	return (atomic_load_explicit(&hca->timers.next, memory_order_relaxed) <= now ||
		atomic_load_explicit(&hca->run_count, memory_order_relaxed) != 0) &&
	       hca_run_due(hca, now);
}

/*
 * QPs were queued, or one unlocked, or packets sent, outside of hca_progress(): have a thread call
 * it soon if there is something to do.
 */
void hca_kick(struct hca *hca);

/*
 * A number for a new QP, or another @object that has one of theirs, as table_reserve() gives one;
 * leased from the link where its addresses are shared. 0 or ENOMEM: why is reported.
 */
int hca_reserve_qpn(struct hca *hca, const char *object, uint32_t *number);

/* Whether faults are injected into the core: on the data path they cost this look, no more. */
static inline bool injects(const struct hca *hca)
{
	return __builtin_expect(atomic_load_explicit(&hca->inject.active, memory_order_relaxed), 0);
}

/* The handle of a new object, which tells it from all others of the HCA (ibv_pd.handle, ...). */
uint32_t hca_next_handle(struct hca *hca);

/* Annex A17.3.1; Linux leaves this much of a network device's MTU for headers (iboe_get_mtu()). */
#define NETDEV_MTU_HEADERS 80

/* The greatest path MTU that a network device with @netdev_mtu carries, and that of a port. */
enum ibv_mtu hca_mtu(uint32_t netdev_mtu);
enum ibv_mtu hca_active_mtu(struct hca *hca, unsigned int port_num);

/*
 * The counters of the port that has @gid, or NULL: there is but one port, whose counters are the
 * HCA's, or the address is of none.
 */
struct port_counters *hca_port_counters(struct hca *hca, const union ibv_gid *gid);

/* Have hca_progress() called at @time (0: now), or before: hca_options.deadline. */
static inline void hca_wake_at(const struct hca *hca, uint64_t time)
{
	if (hca->deadline)
		hca->deadline(hca->deadline_context, time);
}

/* Arm @timer for @time; wakes the progress thread if it would sleep too long. */
void hca_arm(struct hca *hca, struct timer *timer, uint64_t time);

#endif
