/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/inject/event.h"

#include "emu/objects/cq.h"
#include "emu/objects/qp.h"
#include "emu/objects/srq.h"
#include "emu/transport/migration.h"
#include "net/cause/cause.h"
#include "net/fault/fault_words.h"

#define ALL_PORTS ((1u << PORTS_MAX) - 1)

/* --- the objects ------------------------------------------------------------------------ */

static bool is_connected(const struct qp *qp)
{
	return qp_state_abilities(qp->state) & QP_RECEIVE;
}

static bool has_cq(const struct qp *qp)
{
	return is_connected(qp) && qp->send_cq;
}

static bool has_srq(const struct qp *qp)
{
	return qp->srq;
}

static bool suits(struct qp *qp, bool (*has)(const struct qp *qp))
{
	bool result;

	pthread_mutex_lock(&qp->lock);
	result = has(qp);
	pthread_mutex_unlock(&qp->lock);
	return result;
}

/* The first one that @has what is looked for; referenced. */
static struct qp *find_qp(struct hca *hca, bool (*has)(const struct qp *qp))
{
	uint32_t next = 0;
	struct qp *qp;

	for (; (qp = table_get_next(&hca->qps, &next)); next++) {
		if (suits(qp, has))
			return qp;
		table_put(&hca->qps, next);
	}
	return NULL;
}

/* The queue pair @number, referenced. 0: any; so, too, if it has no CQ or SRQ to speak of. */
static struct qp *get_qp(struct hca *hca, uint32_t number, bool (*has)(const struct qp *qp))
{
	struct qp *qp = number ? table_get(&hca->qps, number) : NULL;

	if (number && (!qp || has == is_connected || suits(qp, has)))
		return qp;
	if (qp)
		table_put(&hca->qps, number);
	return find_qp(hca, has);
}

/* --- their events ----------------------------------------------------------------------- */

static void fail_qp(struct qp *qp)
{
	if (qp->state != IBV_QPS_RESET)
		qp_enter_error(qp);
}

/* Those that take their receives from @srq; NULL: all that there are. */
static void fail_qps(struct hca *hca, const struct srq *srq, uint64_t now)
{
	struct qp *qp;

	for (uint32_t number = 0; (qp = table_get_next(&hca->qps, &number)); number++) {
		if (!srq || qp->srq == srq) {
			pthread_mutex_lock(&qp->lock);
			qp_set_time(qp, now);
			fail_qp(qp);
			pthread_mutex_unlock(&qp->lock);
		}
		table_put(&hca->qps, number);
	}
}

/* One that is to be destroyed is in RESET: its last events were looked for by then. */
static bool raise_of_qp(struct qp *qp, enum ibv_event_type type, uint64_t now)
{
	pthread_mutex_lock(&qp->lock);
	if (qp->state == IBV_QPS_RESET) {
		pthread_mutex_unlock(&qp->lock);
		return false;
	}
	qp_set_time(qp, now);
	if (type == IBV_EVENT_PATH_MIG && qp->migration.state == IBV_MIG_ARMED)
		migration_set_state(qp, IBV_MIG_MIGRATED, now); /* raises it */
	else
		event_raise(&qp->hca->events, type, qp);
	if (type == IBV_EVENT_QP_FATAL || type == IBV_EVENT_QP_REQ_ERR ||
	    type == IBV_EVENT_QP_ACCESS_ERR)
		fail_qp(qp);
	pthread_mutex_unlock(&qp->lock);
	return true;
}

static bool event_of_qp(struct hca *hca, enum ibv_event_type type, uint32_t qpn, uint64_t now)
{
	struct qp *qp = get_qp(hca, qpn, is_connected);
	bool raised;

	if (!qp)
		return false;
	raised = raise_of_qp(qp, type, now);
	table_put(&hca->qps, qp->number);
	return raised;
}

static bool event_of_cq(struct hca *hca, enum ibv_event_type type, uint32_t qpn, uint64_t now)
{
	struct qp *qp = get_qp(hca, qpn, has_cq);

	if (!qp)
		return false;
	cq_fail(qp->send_cq);
	table_put(&hca->qps, qp->number);
	return true;
}

/* IBA 10.2.9.3: what takes its receives from an SRQ in error fails. */
static bool event_of_srq(struct hca *hca, enum ibv_event_type type, uint32_t qpn, uint64_t now)
{
	struct qp *qp = get_qp(hca, qpn, has_srq);
	struct srq *srq;

	if (!qp)
		return false;
	srq = qp->srq;
	event_raise(&hca->events, type, srq);
	if (type == IBV_EVENT_SRQ_ERR)
		fail_qps(hca, srq, now);
	table_put(&hca->qps, qp->number);
	return true;
}

/* --- ports ------------------------------------------------------------------------------ */

static uint32_t port_bit(unsigned int port_num)
{
	return 1u << (port_num - 1);
}

static void raise_of_port(struct hca *hca, enum ibv_event_type type, unsigned int port_num)
{
	event_raise(&hca->events, type, (void *)(intptr_t)port_num);
}

bool inject_is_down(const struct hca *hca, unsigned int port_num)
{
	return atomic_load(&hca->inject.down) & port_bit(port_num);
}

/* Those that an event is about: of the queue pair @qpn, or with 0 all. */
static uint32_t ports_of(struct hca *hca, uint32_t qpn)
{
	uint32_t ports = (1u << port_gids_count(&hca->gids)) - 1;
	struct qp *qp = qpn ? table_get(&hca->qps, qpn) : NULL;

	if (!qp)
		return ports;
	pthread_mutex_lock(&qp->lock);
	if (qp->attr.port_num)
		ports = port_bit(qp->attr.port_num);
	pthread_mutex_unlock(&qp->lock);
	table_put(&hca->qps, qpn);
	return ports;
}

static void port_down(struct hca *hca, unsigned int port_num, uint64_t until, uint64_t now)
{
	atomic_store(&hca->inject.up_at[port_num - 1], until);
	if (atomic_fetch_or(&hca->inject.down, port_bit(port_num)) & port_bit(port_num))
		return;
	raise_of_port(hca, IBV_EVENT_PORT_ERR, port_num);
	migration_on_port_error(hca, port_num, now);
}

static void port_event(struct hca *hca, enum ibv_event_type type, unsigned int port_num,
		       uint64_t now)
{
	if (type == IBV_EVENT_PORT_ERR) {
		port_down(hca, port_num, TIME_NEVER, now);
		return;
	}
	if (type == IBV_EVENT_PORT_ACTIVE) {
		atomic_store(&hca->inject.up_at[port_num - 1], TIME_NEVER);
		atomic_fetch_and(&hca->inject.down, ~port_bit(port_num));
	}
	raise_of_port(hca, type, port_num);
}

static bool event_of_port(struct hca *hca, enum ibv_event_type type, uint32_t qpn, uint64_t now)
{
	uint32_t ports = ports_of(hca, qpn);

	for (unsigned int port_num = 1; port_num <= PORTS_MAX; port_num++) {
		if (ports & port_bit(port_num))
			port_event(hca, type, port_num, now);
	}
	return true;
}

void inject_down(struct hca *hca, uint32_t qpn, uint64_t until, uint64_t now)
{
	uint32_t ports = ports_of(hca, qpn);

	for (unsigned int port_num = 1; port_num <= PORTS_MAX; port_num++) {
		if (ports & port_bit(port_num))
			port_down(hca, port_num, until, now);
	}
}

bool inject_up(struct hca *hca, uint64_t now)
{
	bool any = false;

	for (unsigned int port_num = 1; port_num <= PORTS_MAX; port_num++) {
		if (now < atomic_load(&hca->inject.up_at[port_num - 1]))
			continue;
		port_event(hca, IBV_EVENT_PORT_ACTIVE, port_num, now);
		any = true;
	}
	return any;
}

/* Of a packet from, or to, the address @gid. */
static bool is_down(struct hca *hca, const union ibv_gid *gid)
{
	uint32_t down = atomic_load_explicit(&hca->inject.down, memory_order_relaxed);
	struct gid_place place;

	if (down == ALL_PORTS || hca->limits.device.phys_port_cnt == 1)
		return down;
	return port_gids_find(&hca->gids, gid, &place) && down & port_bit(place.port_num);
}

unsigned int inject_sent(struct hca *hca, struct link_packet *packets, unsigned int count)
{
	unsigned int left = 0;

	for (unsigned int i = 0; i < count; i++) {
		if (is_down(hca, &packets[i].path->source))
			continue;
		if (left != i)
			packets[left] = packets[i];
		left++;
	}
	return left;
}

/* What came by a multicast passes as long as any port is up. */
unsigned int inject_received(struct hca *hca, struct link_frame *frames, unsigned int count)
{
	unsigned int left = 0;

	for (unsigned int i = 0; i < count; i++) {
		if (is_down(hca, &frames[i].destination) && !frames[i].message)
			continue;
		if (left != i)
			frames[left] = frames[i];
		left++;
	}
	return left;
}

/* --- the device ------------------------------------------------------------------------- */

static void fail_device(struct hca *hca, uint64_t now)
{
	for (unsigned int i = 0; i < PORTS_MAX; i++)
		atomic_store(&hca->inject.up_at[i], TIME_NEVER);
	atomic_store(&hca->inject.down, ALL_PORTS);
	fail_qps(hca, NULL, now);
}

/* Its number is 1, as the kernel has it (IBV_EVENT_DEVICE_FATAL is about no port). */
static bool event_of_device(struct hca *hca, enum ibv_event_type type, uint32_t qpn, uint64_t now)
{
	fail_device(hca, now);
	raise_of_port(hca, type, 1);
	return true;
}

void inject_remove(struct hca *hca, uint64_t now)
{
	fail_device(hca, now);
	atomic_store(&hca->inject.removed, true);
}

bool inject_is_removed(const struct hca *hca)
{
	return atomic_load(&hca->inject.removed);
}

/* ---------------------------------------------------------------------------------------- */

bool inject_event(struct hca *hca, enum ibv_event_type type, uint32_t qpn, uint64_t now)
{
	static bool (*const events[])(struct hca * hca, enum ibv_event_type type, uint32_t qpn,
				      uint64_t now) = {
		[IBV_EVENT_CQ_ERR] = event_of_cq,
		[IBV_EVENT_QP_FATAL] = event_of_qp,
		[IBV_EVENT_QP_REQ_ERR] = event_of_qp,
		[IBV_EVENT_QP_ACCESS_ERR] = event_of_qp,
		[IBV_EVENT_COMM_EST] = event_of_qp,
		[IBV_EVENT_SQ_DRAINED] = event_of_qp,
		[IBV_EVENT_PATH_MIG] = event_of_qp,
		[IBV_EVENT_PATH_MIG_ERR] = event_of_qp,
		[IBV_EVENT_DEVICE_FATAL] = event_of_device,
		[IBV_EVENT_PORT_ACTIVE] = event_of_port,
		[IBV_EVENT_PORT_ERR] = event_of_port,
		[IBV_EVENT_LID_CHANGE] = event_of_port,
		[IBV_EVENT_PKEY_CHANGE] = event_of_port,
		[IBV_EVENT_SM_CHANGE] = event_of_port,
		[IBV_EVENT_SRQ_ERR] = event_of_srq,
		[IBV_EVENT_SRQ_LIMIT_REACHED] = event_of_srq,
		[IBV_EVENT_QP_LAST_WQE_REACHED] = event_of_qp,
		[IBV_EVENT_CLIENT_REREGISTER] = event_of_port,
		[IBV_EVENT_GID_CHANGE] = event_of_port,
	};
	bool raised = events[type](hca, type, qpn, now);

	if (raised)
		cause_report(CAUSE_INJECTED_EVENT, "IBV_EVENT_%s", fault_events.name(type));
	return raised;
}
