/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the connection manager's events are to an application of rdma_cm, those that other tests
 * don't bring about: a peer that doesn't answer is asked again for a minute, and peers of our own
 * all have one Q_Key. The rest of rdma_cm is stood in for.
 */
#include <check.h>
#include <errno.h>
#include <rdma/rdma_cma.h>

#include "tests/run_suite.h"
#include "verbs/device.h"
#include "verbs/rdma/rdma.h"
#include "verbs/registry.h"

static const struct rdma_outcome *reported; /* NULL: nothing */

void rdma_channel_report(struct rdma_id *id, const struct rdma_outcome *outcome,
			 const struct cm_event *cause)
{
	reported = outcome;
}

void rdma_enter(void)
{
}

void rdma_leave(void)
{
}

void rdma_record_private(struct rdma_record *record, uint8_t skip)
{
}

struct injector *registry_injector(void)
{
	return NULL;
}

void rdma_channel_fail(struct rdma_id *id)
{
	ck_abort();
}

bool rdma_adopt_request(struct rdma_record *record)
{
	ck_abort();
}

int rdma_complete_connect(struct rdma_id *id)
{
	ck_abort();
}

struct rdma_conn_param rdma_offer(const struct cm_message *message)
{
	ck_abort();
}

int rdma_qp_error(struct rdma_id *id)
{
	ck_abort();
}

void rdma_watch_changed(struct rdma_id *id)
{
	ck_abort();
}

static struct device device;
static struct rdma_id id = {.device = &device};
static struct cm_id cm = {.context = &id};

static const struct rdma_outcome *handle(enum cm_state state, enum cm_event_type type)
{
	const struct cm_event event = {.id = &cm, .state = state, .type = type};

	reported = NULL;
	rdma_handle_event(NULL, &event);
	return reported;
}

#define UNREACHABLE RDMA_CM_EVENT_UNREACHABLE
#define DISCONNECTED RDMA_CM_EVENT_DISCONNECTED

/* Linux: cma_ib_handler(), cma_sidr_rep_handler(). */
static const struct {
	enum cm_state state;
	enum cm_event_type type;
	enum rdma_cm_event_type told;
	int status;
} rows[] = {
	{CM_STATE_REQ_SENT, CM_EVENT_REQ_ERROR, UNREACHABLE, -ETIMEDOUT},
	{CM_STATE_MRA_REQ_RECEIVED, CM_EVENT_REQ_ERROR, UNREACHABLE, -ETIMEDOUT},
	{CM_STATE_REP_SENT, CM_EVENT_REP_ERROR, UNREACHABLE, -ETIMEDOUT},
	{CM_STATE_MRA_REP_RECEIVED, CM_EVENT_REP_ERROR, UNREACHABLE, -ETIMEDOUT},
	{CM_STATE_MRA_REP_RECEIVED, CM_EVENT_DREQ_RECEIVED, DISCONNECTED, 0},
	{CM_STATE_DREQ_SENT, CM_EVENT_DREQ_ERROR, DISCONNECTED, -ETIMEDOUT},
	{CM_STATE_SIDR_REQ_SENT, CM_EVENT_SIDR_REQ_ERROR, UNREACHABLE, -ETIMEDOUT},
};

START_TEST(silent_peers)
{
	const struct rdma_outcome *outcome = handle(rows[_i].state, rows[_i].type);

	ck_assert_ptr_nonnull(outcome);
	ck_assert_int_eq(outcome->type, rows[_i].told);
	ck_assert_int_eq(outcome->status, rows[_i].status);
}
END_TEST

/* Of a SIDR_REP with a Q_Key; those that aren't 0 have to be the id's, or its queue pair's. */
static const struct {
	bool qp;
	uint32_t own, peer;
	bool fits;
} qkeys[] = {
	{false, 0, 0x1234, true},
	{false, 0x1234, 0x1234, true},
	{false, 0x1234, 0x1235, false},
	{true, 0, RDMA_UDP_QKEY, true},
	{true, 0, 0, true},
	{true, 0, 0x1234, false},
};

START_TEST(q_keys)
{
	static struct ibv_qp qp;
	struct rdma_record record = {
		.id = &id,
		.outcome = handle(CM_STATE_SIDR_REQ_SENT, CM_EVENT_SIDR_REP_RECEIVED),
		.cause.message = {.qpn = 0x77, .qkey = qkeys[_i].peer},
	};

	ck_assert_ptr_nonnull(record.outcome);
	record.event.event = record.outcome->type;
	id.ibv.qp = qkeys[_i].qp ? &qp : NULL;
	id.qkey = qkeys[_i].own;
	ck_assert(rdma_on_get_event(&record));
	if (qkeys[_i].fits) {
		ck_assert_int_eq(record.event.event, RDMA_CM_EVENT_ESTABLISHED);
		ck_assert_uint_eq(record.event.param.ud.qp_num, 0x77);
		ck_assert_uint_eq(record.event.param.ud.qkey, qkeys[_i].peer);
	} else {
		ck_assert_int_eq(record.event.event, RDMA_CM_EVENT_ADDR_ERROR);
		ck_assert_int_eq(record.event.status, -EINVAL);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("rdma_event");
	TCase *tests = tcase_create("rdma_event");

	tcase_add_loop_test(tests, silent_peers, 0, sizeof(rows) / sizeof(rows[0]));
	tcase_add_loop_test(tests, q_keys, 0, sizeof(qkeys) / sizeof(qkeys[0]));
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
