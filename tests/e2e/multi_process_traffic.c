/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Verified traffic between members that come and go.
 *
 * To each incarnation of a peer a member has a connection of its own, with its
 * own memory. On it goes one turn after another: a message, a write, a read, an
 * addition. All contents tell both ends, both incarnations and the number of the
 * message, and the target counts: so what is lost, comes twice, or comes to the
 * wrong one is seen. A connection fails only when the peer's incarnation is
 * doomed, and then in one way only: retries exceeded, and all the rest flushed.
 * Datagrams go to all incarnations there ever were, the dead ones too; they must
 * not arrive at another.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "multi_process.h"

#define RECEIVES 4 /* as many messages may be waiting to be looked at */
/* The data of a write land before its last packet finds out that there is no receive for it. */
#define WRITES (2 * RECEIVES)
#define PAYLOAD 2600
#define BLOCK 1500 /* what is read */
#define OPERATIONS 4
#define GRH 40
#define DATAGRAM_SLOTS 32
#define ADDRESSES 256

struct tag {
	uint32_t from, from_incarnation, to, to_incarnation, number;
};

struct message {
	struct tag tag;
	uint32_t length;
	uint8_t payload[PAYLOAD];
};

/* What the peer reaches, and what it is sent from. */
struct memory {
	struct message received[RECEIVES], written[WRITES];
	uint8_t block[BLOCK]; /* the peer reads it */
	uint64_t count;	      /* the peer adds to it */
	struct message sending, writing;
	uint8_t read[BLOCK];
	uint64_t fetched;
};

struct connection {
	struct connection *next;
	unsigned int peer;
	uint32_t theirs; /* incarnation */
	uint64_t key, remote_key;
	const struct board_link *remote; /* once its key is remote_key */
	uint32_t rkey;
	uint64_t address;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct memory *memory;
	bool connected, started /* both ends are */, failed;
	unsigned int turns, outstanding, receives;
	uint32_t sent, received; /* messages that take a receive */
};

/* Where datagrams go. */
struct destination {
	unsigned int peer;
	uint32_t incarnation, qpn;
	struct ibv_ah *ah;
};

struct traffic {
	struct member member;
	struct connection *connections;
	struct ibv_qp *ud;
	struct ibv_mr *ud_mr;
	struct {
		uint8_t grh[GRH];
		struct tag tag;
	} datagrams[DATAGRAM_SLOTS];
	struct tag datagram;
	bool datagram_outstanding;
	struct destination destinations[ADDRESSES];
	unsigned int destination_count;
	uint64_t random;
	bool quiet;
};

enum work { WORK_OPERATION, WORK_RECEIVE, WORK_DATAGRAM, WORK_DATAGRAM_RECEIVE };

/* Kept in wr_id beside the connection, whose address leaves the low bits. */
static uint64_t work_id(enum work work, unsigned int slot)
{
	return (uint64_t)work << 8 | slot;
}

static struct tag tag_out(struct traffic *traffic, const struct connection *connection,
			  uint32_t number)
{
	return (struct tag){traffic->member.id, traffic->member.incarnation, connection->peer,
			    connection->theirs, number};
}

static struct tag tag_in(struct traffic *traffic, const struct connection *connection,
			 uint32_t number)
{
	return (struct tag){connection->peer, connection->theirs, traffic->member.id,
			    traffic->member.incarnation, number};
}

static uint64_t tag_seed(const struct tag *tag)
{
	return ((((uint64_t)tag->from << 12 | tag->from_incarnation) << 6 | tag->to) << 12 |
		tag->to_incarnation)
		       << 26 ^
	       tag->number;
}

static void check_tag(const struct tag *tag, const struct tag *expected, const char *what)
{
	if (memcmp(tag, expected, sizeof(*tag)) == 0)
		return;
	pair_fail(__FILE__, __LINE__,
		  "%s %u from %u.%u to %u.%u arrived at %u.%u, where %u from %u.%u was due", what,
		  tag->number, tag->from, tag->from_incarnation, tag->to, tag->to_incarnation,
		  expected->to, expected->to_incarnation, expected->number, expected->from,
		  expected->from_incarnation);
}

static uint32_t payload_length(const struct tag *tag)
{
	return tag->number * 397 % PAYLOAD;
}

static void fill_message(struct message *message, const struct tag *tag)
{
	message->tag = *tag;
	message->length = payload_length(tag);
	pattern_fill(message->payload, message->length, tag_seed(tag));
}

static void check_message(const struct message *message, const struct tag *tag, const char *what)
{
	check_tag(&message->tag, tag, what);
	CHECK_EQUAL(message->length, payload_length(tag));
	CHECK(pattern_matches(message->payload, message->length, tag_seed(tag)));
}

static uint32_t message_size(const struct message *message)
{
	return offsetof(struct message, payload) + message->length;
}

static void drain(struct traffic *traffic);

/* --- connections ------------------------------------------------------------------------ */

static void post_receive(struct connection *connection, unsigned int slot)
{
	struct ibv_sge sge = {(uintptr_t)&connection->memory->received[slot],
			      sizeof(struct message), connection->mr->lkey};
	struct ibv_recv_wr *bad,
		wr = {.wr_id = work_id(WORK_RECEIVE, slot), .sg_list = &sge, .num_sge = 1};

	CHECK_EQUAL(ibv_post_recv(connection->qp, &wr, &bad), 0);
	connection->receives++;
}

static void publish(struct traffic *traffic, const struct connection *connection)
{
	struct board_link *link = &traffic->member.self->links[connection->peer];

	atomic_store(&link->key, 0);
	atomic_store(&link->ready, 0);
	atomic_store(&link->sent, 0);
	link->qpn = connection->qp->qp_num;
	link->rkey = connection->mr->rkey;
	link->address = (uintptr_t)connection->memory;
	atomic_store(&link->key, connection->key);
}

static void add_destination(struct traffic *traffic, unsigned int peer, uint32_t incarnation,
			    uint32_t qpn, enum family family)
{
	const struct board_member *other = &traffic->member.board->members[peer];
	struct destination *destination =
		&traffic->destinations[traffic->destination_count++ % ADDRESSES];

	while (traffic->datagram_outstanding)
		drain(traffic);
	if (destination->ah)
		CHECK_EQUAL(ibv_destroy_ah(destination->ah), 0);
	*destination = (struct destination){
		.peer = peer,
		.incarnation = incarnation,
		.qpn = qpn,
		.ah = member_create_ah(&traffic->member, family, &other->gids[family]),
	};
}

static void add_connection(struct traffic *traffic, unsigned int peer, uint32_t theirs)
{
	struct member *member = &traffic->member;
	struct connection *connection = malloc(sizeof(*connection));
	struct tag tag;

	CHECK(connection);
	*connection = (struct connection){
		.next = traffic->connections,
		.peer = peer,
		.theirs = theirs,
		.key = link_key(member->incarnation, theirs),
		.remote_key = link_key(theirs, member->incarnation),
		.remote = &member->board->members[peer].links[member->id],
		.memory = calloc(1, sizeof(struct memory)),
		.qp = member_create_qp(member, IBV_QPT_RC, OPERATIONS, RECEIVES),
	};
	CHECK(connection->memory);
	connection->mr = ibv_reg_mr(member->pd, connection->memory, sizeof(struct memory),
				    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					    IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	CHECK(connection->mr);
	traffic->connections = connection;
	tag = tag_in(traffic, connection, UINT32_MAX);
	pattern_fill(connection->memory->block, BLOCK, tag_seed(&tag));
	member_init_qp(member, connection->qp);
	for (unsigned int i = 0; i < RECEIVES; i++)
		post_receive(connection, i);
	publish(traffic, connection);
}

static void remove_connection(struct traffic *traffic, struct connection *connection)
{
	struct connection **place = &traffic->connections;

	while (*place != connection)
		place = &(*place)->next;
	*place = connection->next;
	CHECK_EQUAL(ibv_destroy_qp(connection->qp), 0);
	CHECK_EQUAL(ibv_dereg_mr(connection->mr), 0);
	free(connection->memory);
	free(connection);
}

/* Ours to the present incarnation of @peer, or NULL. */
static struct connection *present(struct traffic *traffic, unsigned int peer, uint32_t theirs)
{
	struct connection *connection = traffic->connections;

	while (connection && (connection->peer != peer || connection->theirs != theirs))
		connection = connection->next;
	return connection;
}

static void greet_peers(struct traffic *traffic)
{
	struct member *member = &traffic->member;
	struct board *board = member->board;

	for (unsigned int i = 0; i < board->count; i++) {
		uint32_t theirs = atomic_load(&board->members[i].incarnation);
		uint32_t ud_qpn = board->members[i].ud_qpn;
		enum family family = member_family(board, member->id, i);

		if (!theirs || theirs != atomic_load(&board->members[i].incarnation) ||
		    family == FAMILIES || present(traffic, i, theirs))
			continue;
		add_connection(traffic, i, theirs);
		add_destination(traffic, i, theirs, ud_qpn, family);
	}
}

/* Once the peer has said where its end is. */
static void try_connect(struct traffic *traffic, struct connection *connection)
{
	struct member *member = &traffic->member;
	const struct board_member *peer = &member->board->members[connection->peer];
	enum family family = member_family(member->board, member->id, connection->peer);
	uint32_t qpn = connection->remote->qpn;

	connection->rkey = connection->remote->rkey;
	connection->address = connection->remote->address;
	if (atomic_load(&connection->remote->key) != connection->remote_key)
		return;
	member_connect(member, connection->qp, family, &peer->gids[family], qpn);
	connection->connected = true;
	atomic_store(&member->self->links[connection->peer].ready, connection->key);
}

/* Follows the peer; gives up what never came to be when there is a new incarnation. */
static void advance(struct traffic *traffic, struct connection *connection)
{
	const struct board_member *peer = &traffic->member.board->members[connection->peer];

	if (!connection->connected &&
	    atomic_load(&connection->remote->key) == connection->remote_key)
		try_connect(traffic, connection);
	if (atomic_load(&connection->remote->ready) == connection->remote_key)
		connection->started = connection->connected;
	else if (atomic_load(&peer->incarnation) != connection->theirs)
		remove_connection(traffic, connection);
}

/* --- turns -------------------------------------------------------------------------------- */

static void post(struct connection *connection, enum ibv_wr_opcode opcode, void *local,
		 uint32_t length, size_t target, uint32_t immediate)
{
	struct ibv_sge sge = {(uintptr_t)local, length, connection->mr->lkey};
	struct ibv_send_wr *bad, wr = {
					 .wr_id = work_id(WORK_OPERATION, opcode),
					 .sg_list = &sge,
					 .num_sge = 1,
					 .opcode = opcode,
					 .imm_data = htonl(immediate),
				 };

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = connection->address + target;
		wr.wr.atomic.rkey = connection->rkey;
		wr.wr.atomic.compare_add = 1;
	} else if (opcode != IBV_WR_SEND) {
		wr.wr.rdma.remote_addr = connection->address + target;
		wr.wr.rdma.rkey = connection->rkey;
	}
	CHECK_EQUAL(ibv_post_send(connection->qp, &wr, &bad), 0);
	connection->outstanding++;
}

static void post_turn(struct traffic *traffic, struct connection *connection)
{
	struct memory *memory = connection->memory;
	uint32_t number = connection->sent;
	struct tag tag = tag_out(traffic, connection, number);
	size_t slot;

	fill_message(&memory->sending, &tag);
	post(connection, IBV_WR_SEND, &memory->sending, message_size(&memory->sending), 0, 0);
	tag.number = number + 1;
	slot = offsetof(struct memory, written) + tag.number % WRITES * sizeof(struct message);
	fill_message(&memory->writing, &tag);
	post(connection, IBV_WR_RDMA_WRITE_WITH_IMM, &memory->writing,
	     message_size(&memory->writing), slot, tag.number);
	memset(memory->read, 0, BLOCK);
	post(connection, IBV_WR_RDMA_READ, memory->read, BLOCK, offsetof(struct memory, block), 0);
	post(connection, IBV_WR_ATOMIC_FETCH_AND_ADD, &memory->fetched, 8,
	     offsetof(struct memory, count), 0);
	connection->sent += 2;
}

static void finish_turn(struct traffic *traffic, struct connection *connection)
{
	struct tag tag = tag_out(traffic, connection, UINT32_MAX);

	CHECK(pattern_matches(connection->memory->read, BLOCK, tag_seed(&tag)));
	CHECK_EQUAL(connection->memory->fetched, connection->turns);
	connection->turns++;
	atomic_fetch_add(&traffic->member.self->links[connection->peer].turns, 1);
	atomic_fetch_add(&traffic->member.board->total, 1);
}

static void check_received(struct traffic *traffic, struct connection *connection,
			   const struct ibv_wc *wc, unsigned int slot)
{
	struct tag tag = tag_in(traffic, connection, connection->received);
	unsigned int due = connection->received % RECEIVES;
	bool written = wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM;
	const struct message *message =
		written ? &connection->memory->written[connection->received % WRITES]
			: &connection->memory->received[slot];

	CHECK_EQUAL(slot, due);
	CHECK(written || wc->opcode == IBV_WC_RECV);
	CHECK_EQUAL(written, connection->received & 1);
	if (written)
		CHECK_EQUAL(ntohl(wc->imm_data), connection->received);
	check_message(message, &tag, written ? "write" : "message");
	CHECK_EQUAL(wc->byte_len, message_size(message));
	connection->received++;
	post_receive(connection, slot);
}

/* --- failures --------------------------------------------------------------------------- */

static bool is_doomed(const struct traffic *traffic, const struct connection *connection)
{
	const struct board_member *peer = &traffic->member.board->members[connection->peer];

	return atomic_load(&peer->doomed) >= connection->theirs;
}

static void check_failure(struct traffic *traffic, struct connection *connection,
			  const struct ibv_wc *wc)
{
	const struct board_member *peer = &traffic->member.board->members[connection->peer];
	enum ibv_wc_status expected =
		connection->failed ? IBV_WC_WR_FLUSH_ERR : IBV_WC_RETRY_EXC_ERR;

	if (!is_doomed(traffic, connection) || wc->status != expected)
		pair_fail(__FILE__, __LINE__,
			  "member %u.%u, connection to %u.%u (of which %u is dead), turn %u: %s",
			  traffic->member.id, traffic->member.incarnation, connection->peer,
			  connection->theirs, atomic_load(&peer->doomed), connection->turns,
			  ibv_wc_status_str(wc->status));
	if (!connection->failed)
		atomic_fetch_add(&traffic->member.board->failures, 1);
	connection->failed = true;
}

static struct connection *by_number(struct traffic *traffic, uint32_t qpn)
{
	struct connection *connection = traffic->connections;

	while (connection && connection->qp->qp_num != qpn)
		connection = connection->next;
	if (!connection)
		pair_fail(__FILE__, __LINE__, "a completion for QP %#x, which isn't ours", qpn);
	return connection;
}

static void complete(struct traffic *traffic, const struct ibv_wc *wc)
{
	struct connection *connection = by_number(traffic, wc->qp_num);
	bool receive = wc->wr_id >> 8 == WORK_RECEIVE;
	unsigned int *count = receive ? &connection->receives : &connection->outstanding;

	CHECK(*count > 0);
	(*count)--;
	if (wc->status != IBV_WC_SUCCESS)
		check_failure(traffic, connection, wc);
	else if (receive)
		check_received(traffic, connection, wc, wc->wr_id & 0xff);
	else if (connection->outstanding == 0)
		finish_turn(traffic, connection);
}

/* --- datagrams ------------------------------------------------------------------------------ */

static void post_datagram_receive(struct traffic *traffic, unsigned int slot)
{
	struct ibv_sge sge = {(uintptr_t)&traffic->datagrams[slot], sizeof(traffic->datagrams[0]),
			      traffic->ud_mr->lkey};
	struct ibv_recv_wr *bad,
		wr = {.wr_id = work_id(WORK_DATAGRAM_RECEIVE, slot), .sg_list = &sge, .num_sge = 1};

	CHECK_EQUAL(ibv_post_recv(traffic->ud, &wr, &bad), 0);
}

static void send_datagram(struct traffic *traffic)
{
	struct destination *to;
	struct ibv_sge sge = {(uintptr_t)&traffic->datagram, sizeof(traffic->datagram),
			      traffic->ud_mr->lkey};
	struct ibv_send_wr *bad, wr = {
					 .wr_id = work_id(WORK_DATAGRAM, 0),
					 .sg_list = &sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_SEND,
				 };
	unsigned int count = traffic->destination_count;

	if (traffic->datagram_outstanding || count == 0)
		return;
	to = &traffic->destinations[choose(&traffic->random,
					   count < ADDRESSES ? count : ADDRESSES)];
	traffic->datagram = (struct tag){traffic->member.id, traffic->member.incarnation, to->peer,
					 to->incarnation, 0};
	wr.wr.ud.ah = to->ah;
	wr.wr.ud.remote_qpn = to->qpn;
	wr.wr.ud.remote_qkey = MULTI_PROCESS_QKEY;
	CHECK_EQUAL(ibv_post_send(traffic->ud, &wr, &bad), 0);
	traffic->datagram_outstanding = true;
}

static void complete_datagram(struct traffic *traffic, const struct ibv_wc *wc)
{
	unsigned int slot = wc->wr_id & 0xff;
	const struct tag *tag = &traffic->datagrams[slot].tag;

	CHECK_EQUAL(wc->status, IBV_WC_SUCCESS);
	if (wc->wr_id >> 8 == WORK_DATAGRAM) {
		traffic->datagram_outstanding = false;
		return;
	}
	CHECK_EQUAL(wc->byte_len, sizeof(traffic->datagrams[0]));
	check_tag(tag,
		  &(struct tag){tag->from, tag->from_incarnation, traffic->member.id,
				traffic->member.incarnation, 0},
		  "datagram");
	atomic_fetch_add(&traffic->member.self->datagrams[tag->from % MULTI_PROCESS_MAX], 1);
	post_datagram_receive(traffic, slot);
}

/* --- the life of a member --------------------------------------------------------------- */

static void enter(struct traffic *traffic, struct board *board, unsigned int id,
		  uint32_t incarnation)
{
	member_open(&traffic->member, board, id, incarnation, 4096);
	traffic->random = (uint64_t)id << 32 | incarnation;
	traffic->ud = member_create_qp(&traffic->member, IBV_QPT_UD, 1, DATAGRAM_SLOTS);
	traffic->ud_mr =
		ibv_reg_mr(traffic->member.pd, traffic, sizeof(*traffic), IBV_ACCESS_LOCAL_WRITE);
	CHECK(traffic->ud_mr);
	member_init_qp(&traffic->member, traffic->ud);
	for (unsigned int i = 0; i < DATAGRAM_SLOTS; i++)
		post_datagram_receive(traffic, i);
	atomic_store(&traffic->member.self->incarnation, 0);
	for (unsigned int i = 0; i < board->count; i++) {
		atomic_store(&traffic->member.self->links[i].key, 0);
		atomic_store(&traffic->member.self->links[i].ready, 0);
	}
	traffic->member.self->ud_qpn = traffic->ud->qp_num;
	atomic_store(&traffic->member.self->incarnation, incarnation);
}

static void leave(struct traffic *traffic)
{
	unsigned int count = traffic->destination_count;

	while (traffic->connections)
		remove_connection(traffic, traffic->connections);
	CHECK_EQUAL(ibv_destroy_qp(traffic->ud), 0);
	for (unsigned int i = 0; i < count && i < ADDRESSES; i++)
		CHECK_EQUAL(ibv_destroy_ah(traffic->destinations[i].ah), 0);
	CHECK_EQUAL(ibv_dereg_mr(traffic->ud_mr), 0);
	member_close(&traffic->member);
	free(traffic);
}

static void drain(struct traffic *traffic)
{
	struct ibv_wc wc[16];
	int n = member_poll(&traffic->member, wc, 16);

	for (int i = 0; i < n; i++) {
		if (wc[i].wr_id >> 8 >= WORK_DATAGRAM)
			complete_datagram(traffic, &wc[i]);
		else
			complete(traffic, &wc[i]);
	}
}

/* Returns whether there is nothing left to do on it, now that all are quiet. */
static bool attend(struct traffic *traffic, struct connection *connection, bool quiet)
{
	if (connection->failed) {
		if (connection->outstanding == 0 && connection->receives == 0)
			remove_connection(traffic, connection);
		return false;
	}
	/* Dead members, of which only their part of the board remains, send nothing more. */
	if (quiet && connection->outstanding == 0 && is_doomed(traffic, connection))
		return true;
	if (!connection->started) {
		advance(traffic, connection);
		return false;
	}
	if (connection->outstanding == 0 && !quiet)
		post_turn(traffic, connection);
	if (connection->outstanding == 0 && quiet)
		atomic_store(&traffic->member.self->links[connection->peer].sent,
			     connection->sent + 1);
	return connection->outstanding == 0 && quiet &&
	       atomic_load(&connection->remote->sent) == connection->received + 1;
}

static void attend_all(struct traffic *traffic, bool quiet)
{
	struct connection *next;
	bool done = quiet;

	for (struct connection *c = traffic->connections; c; c = next) {
		next = c->next;
		done &= attend(traffic, c, quiet);
	}
	if (done)
		atomic_store(&traffic->member.self->done, true);
}

void multi_process_traffic(struct board *board, unsigned int id, uint32_t incarnation)
{
	struct traffic *traffic = calloc(1, sizeof(*traffic));
	enum order order;

	CHECK(traffic);
	enter(traffic, board, id, incarnation);
	do {
		order = atomic_load(&board->members[id].order);
		if (order == ORDER_EXIT)
			exit(0);
		greet_peers(traffic);
		attend_all(traffic, order == ORDER_QUIET);
		send_datagram(traffic);
		drain(traffic);
	} while (order != ORDER_LEAVE);
	leave(traffic);
}

/* --- the leader's part -------------------------------------------------------------------- */

static bool runs(struct multi_process *processes, unsigned int id)
{
	return processes->pids[id] != 0;
}

static bool flows(const struct board *board, unsigned int a, unsigned int b, uint32_t before)
{
	const struct board_link *link = &board->members[a].links[b];
	uint64_t key = link_key(atomic_load(&board->members[a].incarnation),
				atomic_load(&board->members[b].incarnation));

	return atomic_load(&link->key) == key && atomic_load(&link->ready) == key &&
	       atomic_load(&link->turns) - before >= 2;
}

void multi_process_heal(struct multi_process *processes)
{
	static uint32_t before[MULTI_PROCESS_MAX][MULTI_PROCESS_MAX];
	struct board *board = processes->board;

	for (unsigned int i = 0; i < board->count; i++)
		for (unsigned int k = 0; k < board->count; k++)
			before[i][k] = atomic_load(&board->members[i].links[k].turns);
	for (unsigned int i = 0; i < board->count; i++) {
		for (unsigned int k = 0; k < board->count; k++) {
			while (runs(processes, i) && runs(processes, k) &&
			       member_family(board, i, k) != FAMILIES &&
			       !flows(board, i, k, before[i][k])) {
				multi_process_watch(processes);
				usleep(2000);
			}
		}
	}
}

static void order_all(struct multi_process *processes, enum order order)
{
	for (unsigned int i = 0; i < processes->board->count; i++)
		if (runs(processes, i))
			atomic_store(&processes->board->members[i].order, order);
}

void multi_process_quiet(struct multi_process *processes)
{
	order_all(processes, ORDER_QUIET);
	for (unsigned int i = 0; i < processes->board->count; i++) {
		while (runs(processes, i) && !atomic_load(&processes->board->members[i].done)) {
			multi_process_watch(processes);
			usleep(2000);
		}
	}
	order_all(processes, ORDER_LEAVE);
	multi_process_reap_all(processes);
}
