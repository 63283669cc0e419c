/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * UC and UD: what arrives is whole, right and in order; everything arrives
 * unless packets are lost on purpose (-l).
 */
#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scenario.h"

#define MESSAGES 60
#define SLOT 16384u
#define GRH 40

static uint32_t size_of(struct pair *pair, uint32_t i)
{
	uint32_t mtu = 128u << pair->options.mtu;

	return pair->options.type == IBV_QPT_UD ? i * 97 % (mtu + 1) : i * 397 % SLOT;
}

static void send_all(struct pair *pair)
{
	struct ibv_wc wc;

	for (uint32_t i = 0; i < MESSAGES; i++) {
		struct ibv_sge sge = pair_sge(pair, i * SLOT, size_of(pair, i));
		struct ibv_send_wr wr = {.wr_id = i,
					 .sg_list = &sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_SEND_WITH_IMM,
					 .imm_data = htonl(i),
					 .send_flags = IBV_SEND_SIGNALED};

		pattern_fill(pair->memory + i * SLOT, sge.length, i);
		CHECK_EQUAL(pair_post(pair, &wr), 0);
	}
	for (uint32_t i = 0; i < MESSAGES; i++) {
		pair_expect(pair, pair->send_cq, i, &wc);
		CHECK_EQUAL(wc.opcode, IBV_WC_SEND);
	}
}

/* A message that was received: receive @slot of the memory. Returns its number. */
static uint32_t check_message(struct pair *pair, const struct ibv_wc *wc, uint32_t slot)
{
	uint32_t grh = pair->options.type == IBV_QPT_UD ? GRH : 0, number = ntohl(wc->imm_data);

	CHECK_EQUAL(wc->status, IBV_WC_SUCCESS);
	CHECK_EQUAL(wc->wr_id, slot);
	CHECK(wc->wc_flags & IBV_WC_WITH_IMM);
	CHECK(number < MESSAGES);
	CHECK_EQUAL(wc->byte_len, size_of(pair, number) + grh);
	CHECK(pattern_matches(pair->memory + slot * (SLOT + GRH) + grh, size_of(pair, number),
			      number));
	if (grh) {
		CHECK(wc->wc_flags & IBV_WC_GRH);
		CHECK_EQUAL(wc->src_qp, pair->remote.qpn);
	}
	return number;
}

/* How many ms what was sent is waited for: where packets are lost it may never come. */
static int patience(const struct pair *pair)
{
	return pair->lossy ? 500 : 20000;
}

/* Whether one more has come; what has been sent is waited for. */
static bool receive_one(struct pair *pair, bool all_sent, struct ibv_wc *wc)
{
	for (int moment = 0; moment < patience(pair); moment++) {
		if (ibv_poll_cq(pair->receive_cq, 1, wc) == 1)
			return true;
		if (all_sent)
			poll(NULL, 0, 1);
		else
			return false;
	}
	return false;
}

static void receive_all(struct pair *pair)
{
	struct pollfd pollfd = {.fd = pair->socket, .events = POLLIN};
	uint32_t received = 0, next = 0;
	bool all_sent = false;
	struct ibv_wc wc;

	while (received < MESSAGES) {
		if (receive_one(pair, all_sent, &wc)) {
			uint32_t number = check_message(pair, &wc, received++);

			/* Duplicates and late packets may be messages of their own here. */
			CHECK(pair->lossy || number == next);
			next = number + 1;
		} else if (all_sent) {
			break;
		} else {
			all_sent = poll(&pollfd, 1, 0) == 1;
		}
	}
	if (!pair->lossy)
		CHECK_EQUAL(received, MESSAGES);
	CHECK(received > MESSAGES / 10);
}

static void send_messages(struct pair *pair, enum ibv_qp_type type)
{
	pair_open(pair,
		  &(struct pair_options){.type = type, .memory = (MESSAGES + 4) * (SLOT + GRH)});
	for (uint32_t i = 0; i < MESSAGES && pair->server; i++)
		pair_receive(pair, i, i * (SLOT + GRH), SLOT + GRH);
	pair_barrier(pair);
	if (pair->server)
		receive_all(pair);
	else
		send_all(pair);
	pair_barrier(pair);
	pair_close(pair);
}

static void uc_send(struct pair *pair)
{
	send_messages(pair, IBV_QPT_UC);
}

static void ud_send(struct pair *pair)
{
	send_messages(pair, IBV_QPT_UD);
}

/* Its arrival is told by the memory alone. */
static void await_last_write(struct pair *pair)
{
	const uint32_t last = MESSAGES - 1;
	const uint8_t *slot = pair->memory + last * SLOT;

	for (int moment = 0; moment < patience(pair); moment++) {
		if (!pair->server || pattern_matches(slot, size_of(pair, last), last))
			break;
		poll(NULL, 0, 1);
	}
}

/* A byte of the target is what it was, or what was written. */
static void uc_write(struct pair *pair)
{
	struct ibv_wc wc;

	pair_open(pair, &(struct pair_options){.type = IBV_QPT_UC, .memory = MESSAGES * SLOT});
	pair_barrier(pair);
	for (uint32_t i = 0; i < MESSAGES; i++)
		pattern_fill(pair->memory + i * SLOT, pair->server ? 0 : size_of(pair, i), i);
	pair_barrier(pair);
	for (uint32_t i = 0; i < MESSAGES && !pair->server; i++) {
		struct ibv_sge sge = pair_sge(pair, i * SLOT, size_of(pair, i));
		struct ibv_send_wr wr = {.wr_id = i,
					 .sg_list = &sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_RDMA_WRITE,
					 .send_flags = IBV_SEND_SIGNALED};

		wr.wr.rdma.remote_addr = pair->remote.address + i * SLOT;
		wr.wr.rdma.rkey = pair->remote.rkey;
		CHECK_EQUAL(pair_post(pair, &wr), 0);
	}
	for (uint32_t i = 0; i < MESSAGES && !pair->server; i++)
		pair_expect(pair, pair->send_cq, i, &wc);
	pair_barrier(pair);
	await_last_write(pair);
	for (uint32_t i = 0; i < MESSAGES && pair->server; i++) {
		static uint8_t expected[SLOT];
		const uint8_t *slot = pair->memory + i * SLOT;

		if (!pair->lossy)
			CHECK(pattern_matches(slot, size_of(pair, i), i));
		pattern_fill(expected, size_of(pair, i), i);
		for (uint32_t k = 0; k < SLOT; k++)
			CHECK(slot[k] == 0 || (k < size_of(pair, i) && slot[k] == expected[k]));
	}
	pair_barrier(pair);
	pair_close(pair);
}

/* --- one of two receivers is a process that is stopped ----------------------------------- */

#define TURNS 400
#define BURST 16 /* datagrams to each receiver in one turn: they fit any socket */
#define DATAGRAM 1024u

/* Read @length bytes of what the child says, and say it back: it is its own peer. */
static void echo(int socket, void *data, size_t length)
{
	CHECK_EQUAL(recv(socket, data, length, MSG_WAITALL), length);
	CHECK_EQUAL(send(socket, data, length, 0), length);
}

/* A process that opens a UD QP at the address of this one, and stops. */
static pid_t start_stopped_receiver(uint32_t *qpn)
{
	struct pair_endpoint endpoint;
	int sockets[2], status;
	uint8_t barrier;
	pid_t child;

	CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		struct pair pair = {.socket = sockets[0], .server = true};

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pair_open(&pair, &(struct pair_options){.type = IBV_QPT_UD, .mtu = IBV_MTU_1024});
		for (;;)
			raise(SIGSTOP);
	}
	echo(sockets[1], &endpoint, sizeof(endpoint));
	echo(sockets[1], &barrier, sizeof(barrier));
	CHECK_EQUAL(waitpid(child, &status, WUNTRACED), child);
	CHECK(WIFSTOPPED(status));
	close(sockets[0]);
	close(sockets[1]);
	*qpn = pair_endpoint_swap(&endpoint).qpn;
	return child;
}

static void receive_turns(struct pair *pair)
{
	struct ibv_wc wc;

	for (uint32_t i = 0; i < BURST; i++)
		pair_receive(pair, i, i * (DATAGRAM + GRH), DATAGRAM + GRH);
	pair_barrier(pair);
	for (uint32_t turn = 0; turn < TURNS; turn++) {
		for (uint32_t i = 0; i < BURST; i++) {
			pair_expect(pair, pair->receive_cq, i, &wc);
			CHECK_EQUAL(wc.byte_len, DATAGRAM + GRH);
			pair_receive(pair, i, i * (DATAGRAM + GRH), DATAGRAM + GRH);
		}
		pair_barrier(pair);
	}
}

static void send_turns(struct pair *pair, const uint32_t qpns[2])
{
	struct ibv_sge sge = pair_sge(pair, 0, DATAGRAM);
	struct ibv_wc wc;

	pair_barrier(pair);
	for (uint32_t turn = 0; turn < TURNS; turn++) {
		for (uint32_t i = 0; i < 2 * BURST; i++) {
			struct ibv_send_wr wr = {.wr_id = i,
						 .sg_list = &sge,
						 .num_sge = 1,
						 .opcode = IBV_WR_SEND,
						 .send_flags = IBV_SEND_SIGNALED};

			pair->remote.qpn = qpns[i % 2];
			CHECK_EQUAL(pair_post(pair, &wr), 0);
		}
		for (uint32_t i = 0; i < 2 * BURST; i++)
			pair_expect(pair, pair->send_cq, i, &wc);
		pair_barrier(pair);
	}
}

/*
 * Far more is sent than the stopped one has space for. Were each datagram that it can't take waited
 * for, even for a tenth of a second, the deadline of the test would pass.
 */
static void ud_stopped_receiver(struct pair *pair)
{
	uint32_t qpns[2];
	pid_t child = 0;

	if (pair->server)
		child = start_stopped_receiver(&qpns[0]);
	pair_open(pair, &(struct pair_options){.type = IBV_QPT_UD, .mtu = IBV_MTU_1024});
	qpns[1] = pair->remote.qpn;
	if (pair->server) {
		pair_exchange_number(pair, qpns[0]);
		receive_turns(pair);
		CHECK_EQUAL(kill(child, SIGKILL), 0);
		CHECK_EQUAL(waitpid(child, NULL, 0), child);
	} else {
		qpns[0] = pair_exchange_number(pair, 0);
		send_turns(pair, qpns);
	}
	pair_barrier(pair);
	pair_close(pair);
}

const struct scenario scenarios_datagram[] = {
	{"uc-send", uc_send}, {"uc-write", uc_write},
	{"ud-send", ud_send}, {"ud-stopped-receiver", ud_stopped_receiver},
	{NULL, NULL},
};
