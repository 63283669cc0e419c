/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Automatic path migration (IBA 17.2.8): the alternate path of a connected queue pair, and when
 * it takes the place of the path. A path is a pair of addresses; the two may be on any of the
 * device's ports and network devices.
 *
 * A consumer loads an alternate path and asks for REARM. When the peer, too, says in its packets
 * that it is ready (MigReq of the BTH is 0), the state is ARMED. Then this side migrates when its
 * consumer says so, when the retries of the path are used up, or when its port fails; it says so
 * with MigReq, and the peer follows when such a packet comes on its alternate path. Both have
 * PATH_MIG then, and are MIGRATED. The two paths change places: what was left is the alternate
 * one until another is loaded, and its late packets are still taken.
 *
 * A queue pair that never had an alternate path sends MigReq 0, though IBA's would be 1: so does
 * Linux rxe always, which ignores it, too.
 *
 * Called by qp_modify, receive and recovery, under qp.lock, and by the verbs layer without it.
 */
#ifndef URXE_EMU_MIGRATION_H
#define URXE_EMU_MIGRATION_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "emu/transport/source_port.h"
#include "net/link.h"
#include "net/wire/gid.h"

struct destination;
struct hca;
struct packet;
struct qp;

/* A path with what leads to its end. */
struct qp_path {
	struct path path;
	struct destination *destination; /* RC: holds a reference; else NULL */
};

struct migration {
	enum ibv_mig_state state;
	bool loaded;	   /* since RESET: there is an alternate path */
	bool left;	   /* it is the one that was left */
	bool unconfirmed;  /* this side migrated, and nothing of the peer came on that path yet */
	bool error_raised; /* PATH_MIG_ERR, for the alternate path as it is */
	uint8_t bth_flags; /* of what is sent: BTH_MIGREQ or 0 */
	struct qp_path alternate;	/* with the attributes of qp.attr that begin with alt_ */
	struct source_port source_port; /* of the peer's packets on it */
};

/* --- called by qp_modify and qp ----------------------------------------------- */

/* Whether @attr's path_mig_state may be asked for: 0 or EINVAL. */
int migration_check_state(const struct qp *qp, const struct ibv_qp_attr *attr, int mask);

/* The attributes have been copied; @alternate belongs to the QP from now on. */
void migration_load(struct qp *qp, const struct qp_path *alternate);
void qp_path_release(struct qp_path *path);
/* As a consumer asks, after migration_check_state(). */
void migration_set_state(struct qp *qp, enum ibv_mig_state state, uint64_t now);
void migration_reset(struct qp *qp);

/* --- called by receive ---------------------------------------------------------- */

/* Whether @frame came from the other end of @path. */
static inline bool frame_came_on(const struct link_frame *frame, const struct path *path)
{
	return gid_equal(&frame->source, &path->destination) &&
	       gid_equal(&frame->destination, &path->source);
}

/* Whether a packet is taken that didn't come on the path. Tells what the peer tries in vain. */
bool migration_accepts(struct qp *qp, const struct packet *packet, const struct link_frame *frame);
/* A packet was taken, on either path, while there is an alternate one. */
void migration_on_packet(struct qp *qp, const struct packet *packet, const struct link_frame *frame,
			 uint64_t now);

/* --- called by the verbs layer -------------------------------------------------------- */

/*
 * The port @port_num has failed: what is armed there migrates to the other port if its alternate
 * path is there. Takes QP locks one after the other; the events are the caller's to deliver.
 */
void migration_on_port_error(struct hca *hca, unsigned int port_num, uint64_t now);

/* --- called by recovery --------------------------------------------------------- */

/* Retries are used up. Whether there are more now, on what was the alternate path. */
bool migration_fail_over(struct qp *qp);

#endif
