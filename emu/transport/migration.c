/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/transport/migration.h"

#include <errno.h>

#include "emu/explain/event.h"
#include "emu/objects/qp_show.h"
#include "emu/objects/qp_state.h"
#include "emu/transport/destination.h"

#define SWAP(a, b)                                                                                 \
	do {                                                                                       \
		__typeof__(a) swapped = (a);                                                       \
		(a) = (b);                                                                         \
		(b) = swapped;                                                                     \
	} while (0)

/* --- states ------------------------------------------------------------------------- */

/*
 * MigReq (IBA 9.2, 17.2.8.1) says that this side is MIGRATED. It goes on to say so until the peer
 * has followed, though the consumer may have asked for REARM meanwhile: else the peer would wait
 * on a path where nothing comes any more.
 */
static void enter_state(struct qp *qp, enum ibv_mig_state state)
{
	struct migration *migration = &qp->migration;
	bool migrated = state == IBV_MIG_MIGRATED || migration->unconfirmed;

	migration->state = state;
	migration->bth_flags = migration->loaded && migrated ? BTH_MIGREQ : 0;
}

static void swap_attributes(struct ibv_qp_attr *attr)
{
	SWAP(attr->ah_attr, attr->alt_ah_attr);
	SWAP(attr->pkey_index, attr->alt_pkey_index);
	SWAP(attr->port_num, attr->alt_port_num);
	SWAP(attr->timeout, attr->alt_timeout);
}

/* Exchange the two paths, for @why; from ARMED. No packet in an outbox may point to the path. */
static void migrate(struct qp *qp, const char *why)
{
	struct migration *migration = &qp->migration;
	struct qp_path *alternate = &migration->alternate;

	swap_attributes(&qp->attr);
	SWAP(qp->path, alternate->path);
	SWAP(qp->source_port, migration->source_port);
	if (qp->type->reliable)
		alternate->destination = recovery_migrate(qp, alternate->destination);
	migration->left = true;
	migration->error_raised = false;
	enter_state(qp, IBV_MIG_MIGRATED);
	qp_show_attributes(qp);
	explain_qp_event(qp, CAUSE_PATH_MIGRATED, why);
	event_raise(&qp->hca->events, IBV_EVENT_PATH_MIG, qp);
}

/* By this side itself: the peer has to be told. */
static void migrate_first(struct qp *qp, const char *why)
{
	qp->migration.unconfirmed = true;
	migrate(qp, why);
}

bool migration_fail_over(struct qp *qp)
{
	if (qp->migration.state != IBV_MIG_ARMED)
		return false;
	migrate_first(qp, "the retries of the path are used up");
	return true;
}

/* --- the consumer --------------------------------------------------------------------- */

int migration_check_state(const struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	if (!(mask & IBV_QP_PATH_MIG_STATE))
		return 0;
	switch (attr->path_mig_state) {
	case IBV_MIG_MIGRATED:
		return 0;
	case IBV_MIG_REARM:
		return mask & IBV_QP_ALT_PATH || qp->migration.loaded ? 0 : EINVAL;
	default:
		return EINVAL; /* IBA 17.2.8.1.2: ARMED is what the two sides come to */
	}
}

void qp_path_release(struct qp_path *path)
{
	if (path->destination)
		destination_put(path->destination);
	path->destination = NULL;
}

void migration_load(struct qp *qp, const struct qp_path *alternate)
{
	struct migration *migration = &qp->migration;

	qp_path_release(&migration->alternate);
	migration->alternate = *alternate;
	migration->source_port = (struct source_port){};
	migration->loaded = true;
	migration->left = false;
	migration->error_raised = false;
	enter_state(qp, migration->state);
}

void migration_set_state(struct qp *qp, enum ibv_mig_state state, uint64_t now)
{
	if (state == IBV_MIG_MIGRATED && qp->migration.state == IBV_MIG_ARMED) {
		migrate_first(qp, "the application asked for it");
		recovery_on_migrated(qp, now);
	} else {
		enter_state(qp, state);
	}
}

void migration_reset(struct qp *qp)
{
	qp_path_release(&qp->migration.alternate);
	qp->migration = (struct migration){.state = IBV_MIG_MIGRATED};
}

/* --- the peer -------------------------------------------------------------------------- */

/*
 * IBA 17.2.8.1.3: MigReq on the alternate path is a request to migrate, which takes ARMED. The
 * alternate path may have the addresses of the other one.
 */
static bool asks_to_migrate(const struct qp *qp, const struct packet *packet,
			    const struct link_frame *frame)
{
	return packet_requests_migration(packet) && qp->migration.state == IBV_MIG_ARMED &&
	       frame_came_on(frame, &qp->migration.alternate.path);
}

/* What comes late on a path that was left is accepted, though IBA would have it dropped. */
bool migration_accepts(struct qp *qp, const struct packet *packet, const struct link_frame *frame)
{
	struct migration *migration = &qp->migration;
	bool late = migration->left && migration->state == IBV_MIG_MIGRATED;

	if (!migration->loaded)
		return false;
	if (asks_to_migrate(qp, packet, frame) ||
	    (late && frame_came_on(frame, &migration->alternate.path)))
		return source_port_allows(qp, &migration->source_port, frame);
	/* IBA 11.6.3.2: once, for the peer goes on trying. */
	if (packet_requests_migration(packet) && !migration->error_raised) {
		migration->error_raised = true;
		explain_bad_migration(qp, frame);
		event_raise(&qp->hca->events, IBV_EVENT_PATH_MIG_ERR, qp);
	}
	return false;
}

void migration_on_packet(struct qp *qp, const struct packet *packet, const struct link_frame *frame,
			 uint64_t now)
{
	struct migration *migration = &qp->migration;

	if (packet->opcode == WIRE_OPCODE_CNP)
		return; /* says nothing of paths */
	if (asks_to_migrate(qp, packet, frame)) {
		migrate(qp, "the peer has migrated");
		recovery_on_migrated(qp, now);
	} else if (frame_came_on(frame, &qp->path)) {
		bool arms = migration->state == IBV_MIG_REARM && !packet_requests_migration(packet);

		if (!arms && !migration->unconfirmed)
			return;
		migration->unconfirmed = false;
		enter_state(qp, arms ? IBV_MIG_ARMED : migration->state);
	}
}

/* --- ports ----------------------------------------------------------------------------- */

static void leave_port(struct qp *qp, unsigned int port_num, uint64_t now)
{
	pthread_mutex_lock(&qp->lock);
	if (qp->migration.state == IBV_MIG_ARMED && qp->attr.port_num == port_num &&
	    qp->attr.alt_port_num != port_num && qp_state_abilities(qp->state) & QP_RECEIVE) {
		migrate_first(qp, "the port of the path has failed");
		recovery_on_migrated(qp, now);
	}
	pthread_mutex_unlock(&qp->lock);
}

void migration_on_port_error(struct hca *hca, unsigned int port_num, uint64_t now)
{
	struct qp *qp;

	for (uint32_t number = 0; (qp = table_get_next(&hca->qps, &number)); number++) {
		leave_port(qp, port_num, now);
		table_put(&hca->qps, number);
	}
	hca_kick(hca);
}
