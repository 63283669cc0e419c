/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/verbs/cm_exchanges.h"

#include "net/cause/cause.h"
#include "net/log.h"
#include "tests/sim/cm_peer.h"

static struct cm_peer_test t;

/* As the environment says it to the library. */
static void begin(void)
{
	cause_configure(true);
	log_set_level(LOG_INFO);
	cm_peer_create(&t);
}

void silent_peer(void)
{
	begin();
	cm_peer_active(&t, CM_STATE_REQ_SENT);
	world_run(&t.peer.world, 100 * SECOND);
}

static void describe_no_process(struct link *link, const struct path *path, uint32_t qpn,
				struct link_peer *peer)
{
	ck_assert_uint_eq(qpn, QPN_GSI);
	*peer = (struct link_peer){.state = LINK_PEER_NOT_THERE};
}

static void begin_without_peer_process(void)
{
	static struct link_ops ops;
	struct link *link;

	begin();
	link = t.peer.node->link;
	ops = *link->ops;
	ops.describe_peer = describe_no_process;
	link->ops = &ops;
}

void no_process_there(void)
{
	begin_without_peer_process();
	cm_peer_active(&t, CM_STATE_REQ_SENT);
	world_run(&t.peer.world, 10 * SECOND);
}

void no_datagram_service_there(void)
{
	begin_without_peer_process();
	ck_assert_int_eq(cm_id_create(t.cm, NULL, &t.id), 0);
	ck_assert_int_eq(
		cm_send_sidr_req(t.id, &t.peer.path, CM_PEER_SERVICE, NULL, 0, cm_peer_now(&t)), 0);
	world_run(&t.peer.world, 10 * SECOND);
}

void silent_after_reply(void)
{
	begin();
	cm_peer_passive(&t, CM_STATE_REP_SENT);
	world_run(&t.peer.world, 100 * SECOND);
}

void silent_after_disconnect(void)
{
	begin();
	cm_peer_active(&t, CM_STATE_DREQ_SENT);
	world_run(&t.peer.world, 100 * SECOND);
}

void silent_service(void)
{
	begin();
	ck_assert_int_eq(cm_id_create(t.cm, NULL, &t.id), 0);
	ck_assert_int_eq(
		cm_send_sidr_req(t.id, &t.peer.path, CM_PEER_SERVICE, NULL, 0, cm_peer_now(&t)), 0);
	world_run(&t.peer.world, 100 * SECOND);
}

void slow_peer(void)
{
	struct cm_message mra;

	begin();
	cm_peer_active(&t, CM_STATE_REQ_SENT);
	mra = cm_peer_message(&t, CM_MRA);
	mra.service_timeout = 23;
	mra.answered = CM_ANSWERED_REQ;
	cm_peer_say(&t, &mra);
}

void slow_application(void)
{
	struct cm_message req;

	begin();
	req = cm_peer_req(&t);
	cm_peer_passive(&t, CM_STATE_REQ_RECEIVED);
	cm_peer_say(&t, &req);
}

static void request(struct cm_message req)
{
	cm_peer_listen(&t, false);
	cm_peer_say(&t, &req);
	cm_peer_hear(&t, CM_REJ);
}

void request_for_another_address(void)
{
	struct cm_message req;

	begin();
	req = cm_peer_req(&t);
	gid_from_text(&req.path[0].remote_gid, "10.9.9.9");
	request(req);
}

void request_of_a_connected_qp(void)
{
	struct cm_message req;

	begin();
	req = cm_peer_req(&t);
	cm_peer_passive(&t, CM_STATE_ESTABLISHED);
	req.local_id++;
	cm_peer_say(&t, &req);
}

void request_with_a_large_mtu(void)
{
	struct cm_message req;

	begin();
	req = cm_peer_req(&t);
	t.peer.node->gids.entries[0].mtu = 1500;
	req.mtu = IBV_MTU_4096;
	request(req);
}

void request_with_a_strange_alternate(void)
{
	struct cm_message req;

	begin();
	req = cm_peer_req(&t);
	req.path[1] = req.path[0];
	gid_from_text(&req.path[1].remote_gid, "10.9.9.9");
	request(req);
}

static void refuse_with(enum cm_reject_reason reason)
{
	struct cm_message rej = cm_peer_message(&t, CM_REJ);

	rej.reason = reason;
	cm_peer_say(&t, &rej);
}

void refused_as_stale(void)
{
	begin();
	cm_peer_active(&t, CM_STATE_REQ_SENT);
	refuse_with(CM_REJECT_STALE);
}

void refused_after_reply(void)
{
	begin();
	cm_peer_passive(&t, CM_STATE_REP_SENT);
	refuse_with(CM_REJECT_TIMEOUT);
}

void refused_for_its_mtu(void)
{
	begin();
	cm_peer_active(&t, CM_STATE_REQ_SENT);
	refuse_with(CM_REJECT_INVALID_MTU);
}

void given_up_by_the_client(void)
{
	begin();
	cm_peer_passive(&t, CM_STATE_REQ_RECEIVED);
	refuse_with(CM_REJECT_TIMEOUT);
}
