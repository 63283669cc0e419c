/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rsocket calls "are intended to match the behavior of corresponding socket calls, except where
 * noted" (rsocket(7)): the same random list of calls is made with sockets of the kernel and with
 * rsockets, in any state, and has the same results, bytes and errnos.
 *
 * A connection is made by a step of its own: a peer of an rsocket is connected when raccept() was
 * called, one of a socket when listen() was. What may differ stands in any_sockets.c.
 *
 * The number of the iteration is the seed; URXE_TEST_SEEDS=FIRST-LAST in the environment runs
 * others than the ones that are run always.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/random.h"
#include "tests/run_suite.h"
#include "tests/sanitizers.h"
#include "tests/seeds.h"
#include "tests/verbs/any_sockets.h"
#include "tests/verbs/fixture.h"
#include "tests/verbs/rsockets.h"

enum { SLOTS = 6, STEPS = 250, MOST = 3000, UNDER_WAY = 16000 };

#define SEED_PATIENCE 60 /* seconds */

static struct slot slots[SLOTS];
static uint64_t random_state;

static void hangs(int number)
{
	sockets_fail("a call doesn't return");
}

static unsigned int below(unsigned int bound)
{
	return random_below(&random_state, bound);
}

/* --- steps: from socket() to connect()
 * ------------------------------------------------------------ */

static struct slot *find_slot(bool (*fits)(const struct slot *slot))
{
	unsigned int start = below(SLOTS);

	for (unsigned int i = 0; i < SLOTS; i++) {
		struct slot *slot = &slots[(start + i) % SLOTS];

		if (fits(slot))
			return slot;
	}
	return NULL;
}

static bool is_free(const struct slot *slot)
{
	return !slot->open;
}

static bool listens(const struct slot *slot)
{
	return slot->open && slot->kind == LISTENING;
}

static bool is_new_stream(const struct slot *slot)
{
	return slot->open && !slot->datagram && slot->kind <= BOUND;
}

static bool takes_datagrams(const struct slot *slot)
{
	/* One at a time: in which order they arrive isn't said. */
	return slot->open && slot->datagram && slot->ports[KERNEL] && !slot->available;
}

/* A connection that ends, or has: with sockets it may become another one, when it has. */
static bool is_ending(const struct slot *slot)
{
	return slot->no_send || slot->no_receive || slot->peer_ended || slot->peer_closed;
}

static void step_create(struct slot *slot)
{
	const int type = below(4) ? SOCK_STREAM : SOCK_DGRAM;
	struct slot *new = find_slot(is_free);

	if (!new)
		return;
	*new = (struct slot){.number = new - slots,
			     .open = true,
			     .datagram = type == SOCK_DGRAM,
			     .nonblocking = true};
	for (unsigned int w = 0; w < WORLDS; w++) {
		new->fds[w] = socket_calls[w].socket(AF_INET, type | SOCK_NONBLOCK, 0);
		if (new->fds[w] < 0)
			sockets_fail("no socket");
	}
	sockets_note("%u: %s", new->number, new->datagram ? "datagrams" : "stream");
}

static void step_bind(struct slot *slot)
{
	const struct slot *other = &slots[below(SLOTS)];
	const bool taken = other->open && other != slot && other->datagram == slot->datagram &&
			   (other->datagram || other->kind == BOUND || listens(other)) &&
			   below(3) == 0;

	if (is_ending(slot))
		return;
	if (BOTH(slot, "bind",
		 c->bind(fd, sockets_address(w, taken ? other->ports[w] : 0), ADDRESS_LENGTH)) &&
	    slot->kind == NEW)
		slot->kind = BOUND;
	sockets_note_ports(slot);
}

static void step_bad_address(struct slot *slot)
{
	if (slot->kind > BOUND)
		return;
	BOTH(slot, "bind of 4 bytes", c->bind(fd, sockets_address(w, 0), 4));
	if (slot->kind == NEW && !slot->datagram)
		BOTH(slot, "connect of 4 bytes", c->connect(fd, sockets_address(w, 0), 4));
	if (slot->kind == NEW && !slot->datagram)
		BOTH(slot, "bind of IPv6",
		     c->bind(fd, socket_address("::1", 0), sizeof(struct sockaddr_in6)));
	if (slot->kind == NEW)
		BOTH(slot, "bind elsewhere",
		     c->bind(fd, socket_address("192.0.2.1", 0), ADDRESS_LENGTH));
}

static void step_listen(struct slot *slot)
{
	if (is_ending(slot))
		return;
	if (!BOTH(slot, "listen", c->listen(fd, 4)))
		return;
	slot->kind = LISTENING;
	slot->refused = false;
	sockets_note_ports(slot);
}

static void step_accept(struct slot *slot)
{
	if (slot->nonblocking || slot->kind != LISTENING)
		BOTH(slot, "accept", c->accept(fd, NULL, NULL));
}

/* A connection of two worlds, by one thread: neither end waits for the other. */
static int connect_one(unsigned int world, const struct slot *listener, const struct slot *client)
{
	const struct socket_calls *c = &socket_calls[world];
	int fd = client->fds[world], accepted = -1;
	struct pollfd polls[2] = {{.fd = listener->fds[world], .events = POLLIN},
				  {.fd = fd, .events = POLLOUT}};

	c->set_flags(fd, O_NONBLOCK);
	c->set_flags(listener->fds[world], O_NONBLOCK);
	if (c->connect(fd, sockets_address(world, listener->ports[world]), ADDRESS_LENGTH) != 0 &&
	    errno != EINPROGRESS)
		sockets_fail("connect() fails at once");
	while (accepted < 0) {
		c->poll(polls, 2, 1000);
		accepted = c->accept(listener->fds[world], NULL, NULL);
		if (accepted < 0 && errno != EAGAIN)
			sockets_fail("accept() fails");
	}
	while (!(polls[1].revents & POLLOUT))
		c->poll(&polls[1], 1, 1000);
	if (polls[1].revents != POLLOUT)
		sockets_fail("it isn't connected");
	/* Of a socket that didn't wait the next call says so once, before it says EISCONN. */
	c->connect(fd, sockets_address(world, listener->ports[world]), ADDRESS_LENGTH);
	c->set_flags(accepted, O_NONBLOCK);
	polls[0] = (struct pollfd){.fd = accepted, .events = POLLOUT};
	while (c->poll(polls, 1, 1000) == 0)
		;
	return accepted;
}

static void step_connect(struct slot *slot)
{
	struct slot *listener = find_slot(listens), *client = find_slot(is_new_stream),
		    *server = find_slot(is_free);
	struct slot before;

	if (!listener || !client || !server)
		return;
	*server = (struct slot){
		.number = server - slots, .open = true, .kind = CONNECTED, .peer = client};
	for (unsigned int w = 0; w < WORLDS; w++)
		server->fds[w] = connect_one(w, listener, client);
	sockets_note("%u: connected to %u by %u", client->number, server->number, listener->number);
	before = *client;
	client->kind = CONNECTED;
	client->refused = false;
	client->peer = server;
	client->nonblocking = server->nonblocking = listener->nonblocking = true;
	client->next_sent = client->next_received = 0;
	sockets_note_ports(client);
	sockets_note_ports(server);
	for (unsigned int w = 0; w < WORLDS; w++) {
		if (before.kind == BOUND && client->ports[w] != before.ports[w])
			sockets_fail("it has another port than it was bound to");
	}
}

/*
 * What a connection fails with in the end: the next call says so. (Behind SO_ERROR that would be
 * ECONNABORTED, of a socket.)
 */
static int failed_connect(unsigned int world, const struct slot *slot, uint16_t port)
{
	const struct socket_calls *c = &socket_calls[world];
	const struct sockaddr *address = sockets_address(world, port);
	int result = c->connect(slot->fds[world], address, ADDRESS_LENGTH);

	if (result == 0 || errno != EINPROGRESS)
		return result;
	while (sockets_poll(world, slot, POLLOUT, 1000) == 0)
		;
	return c->connect(slot->fds[world], address, ADDRESS_LENGTH);
}

/* To a port that none listens at, or of a socket that can't. */
static void step_connect_refused(struct slot *slot)
{
	if (slot->datagram || is_ending(slot))
		return;
	BOTH(slot, "refused connect", failed_connect(w, slot, 9) + 0 * fd);
	if (slot->kind <= BOUND) {
		slot->refused = true;
		slot->kind = NEW;
	}
	sockets_note_ports(slot);
}

/* --- steps: data
 * ------------------------------------------------------------------------------------ */

static void fill_next(uint8_t *data, unsigned int length, uint8_t *next)
{
	for (unsigned int i = 0; i < length; i++)
		data[i] = (*next)++;
}

static void step_send(struct slot *slot)
{
	const unsigned int length = below(4) ? below(MOST) : below(3);
	struct slot *peer = slot->peer;
	uint8_t data[MOST], next = slot->next_sent;

	if (slot->datagram || slot->peer_closed || (peer && peer->no_receive) ||
	    (slot->refused && slot->kind == CONNECTED) ||
	    (peer && peer->available + length > UNDER_WAY))
		return;
	fill_next(data, length, &next);
	if (!BOTH(slot, "send", c->sendto(fd, data, length, 0, NULL, 0)))
		return;
	slot->next_sent = next;
	if (peer)
		peer->available += length;
}

/* As much as has been sent, which may come in pieces. */
static ssize_t receive_all_of(unsigned int world, const struct slot *slot, uint8_t *data,
			      size_t length, int flags)
{
	const struct socket_calls *c = &socket_calls[world];
	size_t most = length < slot->available ? length : slot->available, got = 0;

	while (!most && slot->peer_ended && sockets_poll(world, slot, POLLIN, 1000) == 0)
		;
	if (!most)
		return c->recvfrom(slot->fds[world], data, length, flags | MSG_DONTWAIT, NULL,
				   NULL);
	while (got < most) {
		ssize_t part;

		while (sockets_poll(world, slot, POLLIN, 1000) == 0)
			;
		part = c->recvfrom(slot->fds[world], flags & MSG_PEEK ? data : data + got,
				   flags & MSG_PEEK ? most : most - got, flags | MSG_DONTWAIT, NULL,
				   NULL);
		if (part <= 0)
			return part;
		got = flags & MSG_PEEK ? (size_t)part : got + part;
	}
	return got;
}

static void step_receive(struct slot *slot)
{
	const unsigned int length = 1 + below(MOST);
	const int flags = below(4) ? 0 : MSG_PEEK;
	uint8_t data[WORLDS][MOST + 1], expected[MOST + 1], next = slot->next_received;
	unsigned int got = length < slot->available ? length : slot->available;

	if (slot->datagram || slot->refused)
		return;
	if (!BOTH(slot, flags ? "peek" : "receive",
		  receive_all_of(w, slot, data[w], length, flags) + 0 * fd))
		return;
	fill_next(expected, got, &next);
	for (unsigned int w = 0; w < WORLDS; w++) {
		if (memcmp(data[w], expected, got) != 0)
			sockets_fail("other bytes");
	}
	if (flags)
		return;
	slot->next_received = next;
	slot->available -= got;
}

static void close_slot(struct slot *slot)
{
	BOTH(slot, "close", c->close(fd));
	if (slot->peer) {
		slot->peer->peer_closed = true;
		slot->peer->peer_ended = true;
		/* Bytes that weren't read: with sockets the connection is reset. */
		if (slot->available)
			slot->peer->refused = true;
		slot->peer->peer = NULL;
	}
	slot->open = false;
}

static void step_shutdown(struct slot *slot)
{
	static const int hows[] = {SHUT_RD, SHUT_WR, SHUT_RDWR, 7};
	const int how = hows[below(4)];
	const bool over = slot->no_send && (slot->peer_ended || slot->peer_closed);

	/* One that listens listens no more, with sockets; one that has ended isn't connected. */
	if (slot->datagram || slot->kind == LISTENING || over || slot->peer_closed || slot->refused)
		return;
	if (!BOTH(slot, "shutdown", c->shutdown(fd, how))) {
		/* Of one that isn't connected it has an effect all the same, with Linux. */
		if (slot->kind != CONNECTED)
			close_slot(slot);
		return;
	}
	slot->no_receive |= how != SHUT_WR;
	slot->no_send |= how != SHUT_RD;
	/* With bytes that weren't read the connection may be reset. */
	if (slot->no_receive && slot->available && slot->peer)
		slot->refused = slot->peer->refused = true;
	if (slot->no_send && slot->peer)
		slot->peer->peer_ended = true;
}

static void step_close(struct slot *slot)
{
	if (below(3) == 0)
		close_slot(slot);
}

/* --- steps: datagrams
 * ---------------------------------------------------------------------------------- */

static void step_send_datagram(struct slot *slot)
{
	struct slot *to = find_slot(takes_datagrams);
	const unsigned int length = below(3) ? below(1200) : 0;
	uint8_t data[MOST] = {length, length >> 8};

	if (!slot->datagram || !to)
		return;
	/* Sockets have a port from then on, though nothing was sent. */
	if (slot->ports[KERNEL] && below(8) == 0)
		BOTH(slot, "send without an address", c->sendto(fd, data, length, 0, NULL, 0));
	if (!BOTH(slot, "send to",
		  c->sendto(fd, data, length, 0, sockets_address(w, to->ports[w]), ADDRESS_LENGTH)))
		return;
	to->available++;
	sockets_note_ports(slot);
}

static ssize_t receive_one(unsigned int world, const struct slot *slot, unsigned int length,
			   int flags, uint16_t *port)
{
	struct sockaddr_in source = {};
	socklen_t size = sizeof(source);
	uint8_t data[MOST];
	ssize_t got;

	while (slot->available && sockets_poll(world, slot, POLLIN, 1000) == 0)
		;
	got = socket_calls[world].recvfrom(slot->fds[world], data, length, flags | MSG_DONTWAIT,
					   (struct sockaddr *)&source, &size);
	*port = ntohs(source.sin_port);
	return got;
}

static void step_receive_datagram(struct slot *slot)
{
	const unsigned int length = below(MOST);
	const int flags = below(4) ? 0 : MSG_PEEK;
	uint16_t ports[WORLDS];

	if (!slot->datagram)
		return;
	if (BOTH(slot, flags ? "peek datagram" : "receive datagram",
		 receive_one(w, slot, length, flags, &ports[w]) + 0 * fd) &&
	    !flags)
		slot->available--;
}

/* --- steps: what is asked and set
 * ------------------------------------------------------------------------ */

static long peer_name(unsigned int world, const struct slot *slot)
{
	struct sockaddr_in name = {};
	socklen_t length = sizeof(name);

	if (socket_calls[world].getpeername(slot->fds[world], (struct sockaddr *)&name, &length) !=
	    0)
		return -1;
	return name.sin_family * 2 + (name.sin_port != 0);
}

static void step_names(struct slot *slot)
{
	sockets_note_ports(slot);
	if (!is_ending(slot) && !slot->refused)
		BOTH(slot, "peer's name", peer_name(w, slot) + 0 * fd);
}

static const struct {
	int level, name;
	bool set;
} options[] = {
	{SOL_SOCKET, SO_ERROR, false},	    {SOL_SOCKET, SO_TYPE, false},
	{SOL_SOCKET, SO_DOMAIN, false},	    {SOL_SOCKET, SO_PROTOCOL, false},
	{SOL_SOCKET, SO_ACCEPTCONN, false}, {SOL_SOCKET, SO_KEEPALIVE, true},
	{SOL_SOCKET, SO_OOBINLINE, true},   {IPPROTO_TCP, TCP_NODELAY, true},
	{IPPROTO_TCP, TCP_KEEPIDLE, true},
};

static long get_option(const struct socket_calls *c, int fd, unsigned int option)
{
	int value = -1;
	socklen_t length = sizeof(value);

	if (c->getsockopt(fd, options[option].level, options[option].name, &value, &length) != 0)
		return -1;
	return (long)value * 16 + length;
}

static void step_option(struct slot *slot)
{
	const unsigned int option = below(sizeof(options) / sizeof(*options));
	const socklen_t length = below(4) ? sizeof(int) : 2;
	const int value = below(3);

	if (slot->datagram && options[option].level == IPPROTO_TCP)
		return;
	if (options[option].set && below(2))
		BOTH(slot, "set option",
		     c->setsockopt(fd, options[option].level, options[option].name, &value,
				   length));
	if (!slot->peer_closed && !slot->refused)
		BOTH(slot, "get option", get_option(c, fd, option));
}

static void step_linger(struct slot *slot)
{
	struct linger linger = {.l_onoff = below(2), .l_linger = 1 + below(3)}, got[WORLDS] = {};
	socklen_t length = sizeof(linger);

	BOTH(slot, "set linger", c->setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, length));
	BOTH(slot, "get linger", c->getsockopt(fd, SOL_SOCKET, SO_LINGER, &got[w], &length));
}

static void step_flags(struct slot *slot)
{
	const bool blocking = below(2) && slot->kind <= BOUND;

	BOTH(slot, "set flags", c->set_flags(fd, blocking ? 0 : O_NONBLOCK));
	BOTH(slot, "flags", c->get_flags(fd) & (O_NONBLOCK | O_ACCMODE));
	slot->nonblocking = !blocking;
}

/* Until both say the same: what was sent takes its time, and so do ACKs, which Nagle waits for. */
static void step_poll(struct slot *slot)
{
	const short events = POLLIN | POLLOUT | POLLRDHUP;
	short ready[WORLDS] = {0, -1};

	/* POLLHUP is of both directions with sockets, of the first with librdmacm. */
	if (is_ending(slot) || slot->refused)
		return;
	for (int i = 0; i < PATIENCE && ready[KERNEL] != ready[RSOCKETS]; i++) {
		if (i)
			poll(NULL, 0, 1);
		for (unsigned int w = 0; w < WORLDS; w++)
			ready[w] = sockets_poll(w, slot, events, 0);
	}
	sockets_note("%u: poll: kernel %#x, rsocket %#x", slot->number, ready[KERNEL],
		     ready[RSOCKETS]);
	if (ready[KERNEL] != ready[RSOCKETS])
		sockets_fail("not ready for the same");
}

/* --- one seed
 * ---------------------------------------------------------------------------------------------- */

static void (*const steps[])(struct slot *slot) = {
	step_create,
	step_create,
	step_create,
	step_bind,
	step_bad_address,
	step_listen,
	step_accept,
	step_connect,
	step_connect,
	step_connect,
	step_connect_refused,
	step_send,
	step_send,
	step_send,
	step_send,
	step_receive,
	step_receive,
	step_receive,
	step_shutdown,
	step_close,
	step_send_datagram,
	step_send_datagram,
	step_receive_datagram,
	step_receive_datagram,
	step_names,
	step_option,
	step_linger,
	step_flags,
	step_poll,
	step_poll,
};

static void run_seed(uint64_t number)
{
	random_state = number;
	sockets_begin(number);
	memset(slots, 0, sizeof(slots));
	alarm(SEED_PATIENCE);
	for (unsigned int i = 0; i < STEPS; i++) {
		unsigned int choice = below(sizeof(steps) / sizeof(*steps));
		struct slot *slot = &slots[below(SLOTS)];

		if (slot->open || steps[choice] == step_create)
			steps[choice](slot);
	}
	for (unsigned int i = 0; i < SLOTS; i++) {
		if (slots[i].open)
			close_slot(&slots[i]);
	}
	alarm(0);
}

START_TEST(any_sockets)
{
	struct seeds seeds = {1, SANITIZED ? 20 : 60};

	seeds_read(&seeds);
	signal(SIGALRM, hangs);
	for (int i = seeds.first; i <= seeds.last; i++)
		run_seed(i);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {any_sockets};

	return run_rsocket_tests("any_sockets", NULL, NULL, tests, 1);
}
