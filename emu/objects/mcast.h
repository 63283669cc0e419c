/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast groups of an HCA (IBA 10.5): which of its UD QPs get a copy of what
 * is sent to a group. The HCA receives for a group (link join) as long as a QP is
 * attached or an rdma_cm id has joined it.
 *
 * Called by the verbs layer (ibv_attach_mcast, rdma_join_multicast) and by
 * hca_progress() for packets to QPN_MULTICAST.
 *
 * mcast.lock serializes attaching, detaching, joining and leaving; it is held
 * across the link's join, which may take its time, and never with a QP lock.
 * mcast.members_lock, taken under it, protects groups and members; it is held
 * while a packet is delivered, so QP locks are taken under it.
 */
#ifndef URXE_EMU_MCAST_H
#define URXE_EMU_MCAST_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdint.h>

#include "net/link.h"

struct hca;
struct qp;
struct mcast_group;

struct mcast {
	pthread_mutex_t lock;
	pthread_mutex_t members_lock;
	struct mcast_group *groups; /* uthash, by GID */
	uint32_t attached;	    /* QPs, summed over the groups */
};

void mcast_init(struct mcast *mcast);
/* No QP may be attached; groups that are still joined are left. */
void mcast_destroy(struct hca *hca);

/*
 * Attach @qp to @gid, once however often it is called. EINVAL: not a UD QP, not
 * a multicast GID; ENOMEM: limits, of the device or of the machine. Without a
 * join before, messages are received from everywhere the link has an address.
 */
int mcast_attach(struct qp *qp, const union ibv_gid *gid);
/* EINVAL: it isn't attached. */
int mcast_detach(struct qp *qp, const union ibv_gid *gid);

/*
 * Join @gid where @source is, whether QPs attach or not; each join has its
 * leave. ENOMEM as above, or the link's errno.
 */
int mcast_join(struct hca *hca, const union ibv_gid *gid, const union ibv_gid *source);
void mcast_leave(struct hca *hca, const union ibv_gid *gid);

/* A packet to QPN_MULTICAST or to a multicast GID; its ICRC was good. */
void mcast_receive(struct hca *hca, const struct packet *packet, const struct link_frame *frame,
		   uint64_t now);

#endif
