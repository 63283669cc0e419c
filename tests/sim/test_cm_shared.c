/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The connection manager at an address that processes share: whose a message is, peers of this
 * machine that die, connections that the dead leave, claims of services.
 */
#include "cm_peer.h"
#include "net/share/share.h"

static struct cm_peer_test t;

static void setup(void)
{
	cm_peer_create(&t);
}

static void teardown(void)
{
	cm_peer_destroy(&t);
}

/* Comm ids tell their HCA by the upper 12 bits: 5 is this one, and there is none with 9. */
#define OWN 5
#define ABSENT 9

static struct {
	uint32_t owner, forwarded;
	unsigned int frames, claims, releases, looks;
	uint32_t process; /* of the peer */
	bool dead, reaped;
	int claim_error;
	union ibv_gid gids[2];
	struct share_connection connection;
	unsigned int recorded, orphans;
} sharing;

static uint32_t sharing_lease_comm_ids(struct share *share)
{
	return OWN << 20;
}

static int sharing_claim(struct share *share, const union ibv_gid *gid, uint64_t service_id)
{
	ck_assert_uint_eq(service_id, CM_PEER_SERVICE);
	if (sharing.claim_error && sharing.claims == 1)
		return sharing.claim_error;
	sharing.gids[sharing.claims++ % 2] = *gid;
	return 0;
}

static void sharing_release(struct share *share, const union ibv_gid *gid, uint64_t service_id)
{
	ck_assert_uint_eq(service_id, CM_PEER_SERVICE);
	sharing.releases++;
}

static uint32_t owner_of(const struct cm_message *message)
{
	switch (message->attribute) {
	case CM_REQ:
	case CM_SIDR_REQ:
		ck_assert_uint_eq(message->service_id, CM_PEER_SERVICE);
		return sharing.owner;
	case CM_SIDR_REP:
		return message->local_id >> 20;
	default:
		return message->remote_id >> 20;
	}
}

static bool sharing_forward(struct share *share, const struct link_frame *frame)
{
	struct cm_message message;
	uint32_t owner;

	ck_assert(gid_equal(&frame->destination, &t.peer.path.destination));
	ck_assert_int_eq(
		cm_message_decode(&message, frame->data + sizeof(struct bth) + sizeof(struct deth)),
		0);
	owner = owner_of(&message);
	if (!owner || owner == OWN || owner == ABSENT)
		return false;
	sharing.forwarded = owner;
	sharing.frames++;
	return true;
}

static uint32_t sharing_process(struct share *share, const union ibv_gid *gid, uint32_t comm_id)
{
	ck_assert(gid_equal(gid, &t.peer.path.source));
	ck_assert_uint_eq(comm_id >> 20, CM_PEER_ID >> 20);
	return sharing.reaped ? 0 : sharing.process;
}

static bool sharing_is_alive(struct share *share, uint32_t process, uint32_t comm_id)
{
	if (process == SHARE_ENDED)
		return false;
	ck_assert_uint_eq(process, sharing.process);
	ck_assert_uint_eq(comm_id, t.id->remote_id);
	sharing.looks++;
	return !sharing.dead;
}

static uint32_t sharing_record(struct share *share, const struct share_connection *connection)
{
	sharing.connection = *connection;
	return ++sharing.recorded;
}

static void sharing_forget(struct share *share, uint32_t number)
{
	ck_assert_uint_eq(number, sharing.recorded--);
}

static bool sharing_orphan(struct share *share, uint32_t *number, struct share_connection *orphan)
{
	if (*number >= sharing.orphans)
		return false;
	*orphan = sharing.connection;
	++*number;
	return true;
}

static unsigned int sharing_services(struct share *share, const union ibv_gid *gid,
				     uint64_t *services, unsigned int max)
{
	return 0;
}

static const struct share_ops sharing_ops = {
	.services = sharing_services,
	.lease_comm_ids = sharing_lease_comm_ids,
	.claim = sharing_claim,
	.release = sharing_release,
	.forward = sharing_forward,
	.process = sharing_process,
	.is_alive = sharing_is_alive,
	.record = sharing_record,
	.forget = sharing_forget,
	.orphan = sharing_orphan,
};

static void share(void)
{
	static struct share share = {.ops = &sharing_ops};

	memset(&sharing, 0, sizeof(sharing));
	t.peer.node->link->share = &share;
}

/* Comm ids are of those leased, and what comes for another HCA is handed on. */
START_TEST(test_shared_address)
{
	struct cm_message message;

	share();
	cm_peer_passive(&t, CM_STATE_ESTABLISHED);
	ck_assert_uint_eq(t.id->local_id >> 20, OWN);
	ck_assert_uint_eq(sharing.frames, 0);

	message = cm_peer_message(&t, CM_DREQ);
	message.remote_id = 7 << 20 | 3;
	cm_peer_say(&t, &message);
	ck_assert_uint_eq(sharing.forwarded, 7);
	/* The process that has this slot is gone: the node answers for it. */
	message.remote_id = ABSENT << 20 | 3;
	cm_peer_say(&t, &message);
	cm_peer_hear(&t, CM_DREP);
	message = cm_peer_message(&t, CM_SIDR_REP);
	message.local_id = 8 << 20 | 3;
	cm_peer_say(&t, &message);
	ck_assert_uint_eq(sharing.forwarded, 8);

	/*
	 * A new request goes to the process that claimed the service, a duplicate to the one
	 * that has the connection.
	 */
	sharing.owner = 6;
	message = cm_peer_req(&t);
	cm_peer_say(&t, &message);
	ck_assert_uint_eq(sharing.frames, 2);
	message.local_id++;
	message.qpn++;
	cm_peer_say(&t, &message);
	ck_assert_uint_eq(sharing.forwarded, 6);
	message.attribute = CM_SIDR_REQ;
	cm_peer_say(&t, &message);
	ck_assert_uint_eq(sharing.frames, 4);
	cm_peer_event(&t, -1);
	sharing.owner = OWN;
	message.attribute = CM_REQ;
	cm_peer_say(&t, &message);
	ck_assert_uint_eq(sharing.frames, 4);
	cm_peer_event(&t, CM_EVENT_REQ_RECEIVED);
	t.peer.node->link->share = NULL;
}
END_TEST

/* Any, for 2 s. */
static void await_event(void)
{
	for (int i = 0; i < 2000 && t.count == 0; i++)
		world_run(&t.peer.world, MS);
}

/*
 * A peer of this machine is killed: a connection hears a DREQ, one that was being ended the
 * answer to its own, one that isn't made yet a REJ. One of another machine isn't looked at.
 */
static const struct {
	enum cm_state state;
	bool active;
	int event;
} watched[] = {
	{CM_STATE_ESTABLISHED, true, CM_EVENT_DREQ_RECEIVED},
	{CM_STATE_ESTABLISHED, false, CM_EVENT_DREQ_RECEIVED},
	{CM_STATE_DREQ_SENT, true, CM_EVENT_DREP_RECEIVED},
	{CM_STATE_DREQ_SENT, false, CM_EVENT_DREP_RECEIVED},
	{CM_STATE_REQ_RECEIVED, false, CM_EVENT_REJ_RECEIVED},
	{CM_STATE_MRA_REQ_SENT, false, CM_EVENT_REJ_RECEIVED},
	{CM_STATE_REP_SENT, false, CM_EVENT_REJ_RECEIVED},
	{CM_STATE_MRA_REP_RECEIVED, false, CM_EVENT_REJ_RECEIVED},
};

START_TEST(test_dead_peer)
{
	for (uint32_t process = 0; process < 2; process++) {
		share();
		sharing.process = process;
		if (watched[_i].active)
			cm_peer_active(&t, watched[_i].state);
		else
			cm_peer_passive(&t, watched[_i].state);
		sharing.looks = 0;
		world_run(&t.peer.world, 3 * SECOND);
		cm_peer_event(&t, -1);
		ck_assert_uint_eq(sharing.looks > 0, process);
		ck_assert_uint_le(sharing.looks, 4);
		sharing.dead = true;
		await_event();
		cm_peer_event(&t, process ? watched[_i].event : -1);
		sharing.looks = 0;
		world_run(&t.peer.world, 3 * SECOND);
		ck_assert_uint_eq(sharing.looks, 0);
		t.count = 0; /* a timewait may have ended */
		t.peer.node->link->share = NULL;
		if (!process) {
			cm_peer_destroy(&t);
			cm_peer_create(&t);
		}
	}
}
END_TEST

/*
 * So it is when the peer was killed before its RTU was received, or ours sent, and nothing says any
 * more that it was a process of this machine.
 */
START_TEST(test_peer_dead_at_once)
{
	struct cm_message rtu;

	share();
	sharing.process = 1;
	if (_i)
		cm_peer_active(&t, CM_STATE_REP_RECEIVED);
	else
		cm_peer_passive(&t, CM_STATE_REP_SENT);
	sharing.dead = sharing.reaped = true;
	if (_i) {
		ck_assert_int_eq(cm_send_rtu(t.id, cm_peer_now(&t)), 0);
	} else {
		rtu = cm_peer_message(&t, CM_RTU);
		cm_peer_say(&t, &rtu);
		cm_peer_event(&t, CM_EVENT_RTU_RECEIVED);
	}
	ck_assert_uint_eq(sharing.recorded, 0);
	await_event();
	cm_peer_event(&t, CM_EVENT_DREQ_RECEIVED);
	t.peer.node->link->share = NULL;
}
END_TEST

static enum link_peer_state found; /* of the peer, by the link */

static void find_peer(struct link *link, const struct path *path, uint32_t qpn,
		      struct link_peer *peer)
{
	ck_assert(gid_equal(&path->destination, &t.peer.path.source));
	ck_assert_uint_eq(qpn, PEER_QPN);
	*peer = (struct link_peer){.state = found};
}

/*
 * A peer that was killed, and forgotten, before its message was read: the link finds nobody at its
 * address, or knows that the queue pair's process has ended. Whatever else it finds, the peer may
 * be of another machine, or another program.
 */
static const struct {
	enum link_peer_state found;
	bool ended;
} unread[] = {
	{LINK_PEER_NOT_THERE, true},   {LINK_PEER_ENDED, true},	 {LINK_PEER_UNKNOWN, false},
	{LINK_PEER_OTHER_USER, false}, {LINK_PEER_NO_QP, false}, {LINK_PEER_QP, false},
};

static void share_with_dead(unsigned int which)
{
	static struct link_ops ops;

	share();
	sharing.reaped = true;
	found = unread[which].found;
	ops = *t.peer.node->link->ops;
	ops.describe_peer = find_peer;
	t.peer.node->link->ops = &ops;
}

static void unshare_with_dead(void)
{
	t.peer.node->link->ops = t.peer.link->ops;
	t.peer.node->link->share = NULL;
}

START_TEST(test_rep_of_the_dead)
{
	share_with_dead(_i);
	cm_peer_active(&t, CM_STATE_ESTABLISHED);
	ck_assert_uint_eq(sharing.recorded, !unread[_i].ended);
	await_event();
	cm_peer_event(&t, unread[_i].ended ? CM_EVENT_DREQ_RECEIVED : -1);
	unshare_with_dead();
}
END_TEST

START_TEST(test_req_of_the_dead)
{
	share_with_dead(_i);
	cm_peer_passive(&t, CM_STATE_REQ_RECEIVED);
	await_event();
	cm_peer_event(&t, unread[_i].ended ? CM_EVENT_REJ_RECEIVED : -1);
	unshare_with_dead();
}
END_TEST

/*
 * Connections with other machines are recorded until they end. If another process dies, its
 * peers hear of it from us.
 */
START_TEST(test_orphans)
{
	share();
	if (_i)
		cm_peer_active(&t, CM_STATE_ESTABLISHED);
	else
		cm_peer_passive(&t, CM_STATE_ESTABLISHED);
	ck_assert_uint_eq(sharing.recorded, 1);
	ck_assert_uint_eq(sharing.connection.local_id, t.id->local_id);
	ck_assert_uint_eq(sharing.connection.remote_id, t.id->remote_id);
	ck_assert(gid_equal(&sharing.connection.remote, &t.id->path.destination));
	sharing.connection.local_id = 7 << 20 | 3;
	sharing.connection.remote_id = 0x1234567;
	sharing.connection.remote_qpn = 0x4321;
	sharing.orphans = 1;
	cm_peer_await(&t, CM_DREQ, 2 * SECOND);
	ck_assert_uint_eq(t.heard.local_id, 7 << 20 | 3);
	ck_assert_uint_eq(t.heard.remote_id, 0x1234567);
	ck_assert_uint_eq(t.heard.qpn, 0x4321);
	sharing.orphans = 0;
	cm_peer_event(&t, -1);
	/* It is forgotten with the id. */
	cm_peer_destroy(&t);
	ck_assert_uint_eq(sharing.recorded, 0);
	cm_peer_create(&t);
	t.peer.node->link->share = NULL;
}
END_TEST

/* Else a process that ends in the meantime, as rping's server does, would leave an orphan. */
START_TEST(test_what_has_ended_is_no_orphan)
{
	struct cm_message message;

	share();
	cm_peer_passive(&t, _i ? CM_STATE_DREQ_SENT : CM_STATE_DREQ_RECEIVED);
	ck_assert_uint_eq(sharing.recorded, 1);
	if (_i) {
		message = cm_peer_message(&t, CM_DREP);
		cm_peer_say(&t, &message);
		cm_peer_event(&t, CM_EVENT_DREP_RECEIVED);
	} else {
		ck_assert_int_eq(cm_send_drep(t.id, cm_peer_now(&t)), 0);
	}
	ck_assert_int_eq(cm_id_state(t.id), CM_STATE_TIMEWAIT);
	ck_assert_uint_eq(sharing.recorded, 0);
	t.peer.node->link->share = NULL;
}
END_TEST

START_TEST(test_claims)
{
	struct cm_listen listen = {.service_id = CM_PEER_SERVICE, .ipv4 = true, .ipv6 = true};
	struct cm_id *id, *other;

	share();
	ck_assert_int_eq(cm_id_create(t.cm, NULL, &id), 0);
	/* The second claim fails: the first is given back. */
	sharing.claim_error = EADDRINUSE;
	ck_assert_int_eq(cm_id_listen(id, &listen), EADDRINUSE);
	ck_assert_uint_eq(sharing.claims, 1);
	ck_assert_uint_eq(sharing.releases, 1);
	ck_assert_int_eq(cm_id_state(id), CM_STATE_IDLE);
	sharing.claim_error = 0;
	ck_assert_int_eq(cm_id_listen(id, &listen), 0);
	ck_assert_uint_eq(sharing.claims, 3);
	ck_assert(gid_is_ipv4(&sharing.gids[1]) != gid_is_ipv4(&sharing.gids[0]));
	/* What fails here isn't claimed. */
	ck_assert_int_eq(cm_id_listen(id, &listen), EINVAL);
	ck_assert_uint_eq(sharing.claims - sharing.releases, 2);
	ck_assert_int_eq(cm_id_create(t.cm, NULL, &other), 0);
	ck_assert_int_eq(cm_id_listen(other, &listen), EADDRINUSE);
	ck_assert_uint_eq(sharing.claims - sharing.releases, 2);
	cm_id_destroy(other, cm_peer_now(&t));
	cm_id_destroy(id, cm_peer_now(&t));
	ck_assert_uint_eq(sharing.claims, sharing.releases);

	ck_assert_int_eq(cm_id_create(t.cm, NULL, &id), 0);
	listen.gid = t.peer.path.destination;
	ck_assert_int_eq(cm_id_listen(id, &listen), 0);
	ck_assert(gid_equal(&sharing.gids[(sharing.claims - 1) % 2], &listen.gid));
	cm_id_destroy(id, cm_peer_now(&t));
	ck_assert_uint_eq(sharing.claims, sharing.releases);
	t.peer.node->link->share = NULL;
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("cm_shared");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, test_shared_address);
	tcase_add_loop_test(tcase, test_orphans, 0, 2);
	tcase_add_loop_test(tcase, test_what_has_ended_is_no_orphan, 0, 2);
	tcase_add_loop_test(tcase, test_dead_peer, 0, sizeof(watched) / sizeof(watched[0]));
	tcase_add_loop_test(tcase, test_peer_dead_at_once, 0, 2);
	tcase_add_loop_test(tcase, test_rep_of_the_dead, 0, sizeof(unread) / sizeof(unread[0]));
	tcase_add_loop_test(tcase, test_req_of_the_dead, 0, sizeof(unread) / sizeof(unread[0]));
	tcase_add_test(tcase, test_claims);
	return world_main("cm_shared", (TCase *[]){tcase, NULL});
}
