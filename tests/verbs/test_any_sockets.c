/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rsocket calls "are intended to match the behavior of corresponding socket calls, except where
 * noted" (rsocket(7)): the same random list of calls is made with sockets of the kernel and with
 * rsockets, in any state, and has the same results, bytes and errnos.
 *
 * What one thread does is compared call by call. Where several make calls with the same sockets at
 * once the sum of it is, and what holds whichever of them comes first: no byte is lost, none comes
 * before another one of the same thread, and none of the calls fails. Sockets have no riomap():
 * there the test knows itself what is where.
 *
 * A connection is made by a step of its own: a peer of an rsocket is connected when raccept() was
 * called, one of a socket when listen() was. What may differ stands in any_sockets.c.
 *
 * The number of the iteration is the seed; URXE_TEST_SEEDS=FIRST-LAST in the environment runs
 * others than the ones that are run always.
 */
#include <errno.h>
#include <fcntl.h>
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

enum { STEPS = 250 };

#define SEED_PATIENCE 60 /* seconds */

struct slot slots[SLOTS];
bool has_ipv6;
static uint64_t random_state;

static void hangs(int number)
{
	sockets_fail("a call doesn't return");
}

unsigned int below(unsigned int bound)
{
	return random_below(&random_state, bound);
}

/* --- steps: from socket() to connect() ------------------------------------------------------ */

struct slot *find_slot(bool (*fits)(const struct slot *other, const struct slot *slot),
		       const struct slot *slot)
{
	unsigned int start = below(SLOTS);

	for (unsigned int i = 0; i < SLOTS; i++) {
		struct slot *other = &slots[(start + i) % SLOTS];

		if (fits(other, slot))
			return other;
	}
	return NULL;
}

bool is_ending(const struct slot *slot)
{
	return slot->no_send || slot->no_receive || slot->peer_ended || slot->peer_closed;
}

bool is_whole(const struct slot *slot)
{
	return slot->kind == CONNECTED && slot->peer && !slot->refused && !slot->peer->refused &&
	       !is_ending(slot) && !is_ending(slot->peer);
}

static bool is_whole_one(const struct slot *other, const struct slot *slot)
{
	return other->open && is_whole(other);
}

struct slot *find_whole(struct slot *slot)
{
	return is_whole(slot) ? slot : find_slot(is_whole_one, NULL);
}

static bool is_free(const struct slot *other, const struct slot *slot)
{
	return !other->open;
}

static bool listens(const struct slot *other, const struct slot *slot)
{
	return other->open && other->kind == LISTENING && (!slot || other->ipv6 == slot->ipv6);
}

static bool is_new_stream(const struct slot *other, const struct slot *listener)
{
	return other->open && !other->datagram && other->kind <= BOUND &&
	       other->ipv6 == listener->ipv6;
}

static void step_create(struct slot *slot)
{
	const int type = below(4) ? SOCK_STREAM : SOCK_DGRAM;
	struct slot *new = find_slot(is_free, NULL);

	if (!new)
		return;
	*new = (struct slot){.number = new - slots,
			     .open = true,
			     .datagram = type == SOCK_DGRAM,
			     .ipv6 = has_ipv6 &&below(4) == 0,
			     .nonblocking = true};
	for (unsigned int w = 0; w < WORLDS; w++) {
		new->fds[w] = socket_calls[w].socket(new->ipv6 ? AF_INET6 : AF_INET,
						     type | SOCK_NONBLOCK, 0);
		if (new->fds[w] < 0)
			sockets_fail("no socket");
	}
	sockets_note("%u: %s, %s", new->number, new->datagram ? "datagrams" : "stream",
		     new->ipv6 ? "IPv6" : "IPv4");
	if (!new->datagram)
		mapped_prepare(new);
}

static void step_bind(struct slot *slot)
{
	const struct slot *other = &slots[below(SLOTS)];
	const bool taken = other->open && other != slot && other->datagram == slot->datagram &&
			   other->ipv6 == slot->ipv6 &&
			   (other->datagram || other->kind == BOUND || listens(other, slot)) &&
			   below(3) == 0;

	if (is_ending(slot))
		return;
	if (BOTH(slot, "bind",
		 c->bind(fd, sockets_address(w, slot, taken ? other->ports[w] : 0),
			 sockets_address_length(slot))) &&
	    slot->kind == NEW)
		slot->kind = BOUND;
	sockets_note_ports(slot);
}

static void step_bad_address(struct slot *slot)
{
	if (slot->kind > BOUND)
		return;
	BOTH(slot, "bind of 4 bytes", c->bind(fd, sockets_address(w, slot, 0), 4));
	if (slot->kind == NEW && !slot->datagram)
		BOTH(slot, "connect of 4 bytes", c->connect(fd, sockets_address(w, slot, 0), 4));
	if (slot->kind == NEW && !slot->datagram && !slot->ipv6)
		BOTH(slot, "bind of IPv6",
		     c->bind(fd, socket_address("::1", 0), sizeof(struct sockaddr_in6)));
	if (slot->kind == NEW)
		BOTH(slot, "bind elsewhere",
		     c->bind(fd, socket_address(slot->ipv6 ? "2001:db8::1" : "192.0.2.1", 0),
			     sockets_address_length(slot)));
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
static int connect_one(unsigned int world, const struct slot *listener, const struct slot *client,
		       bool by_threads)
{
	const struct socket_calls *c = &socket_calls[world];
	int fd = client->fds[world], accepted = -1;
	struct pollfd polls[2] = {{.fd = listener->fds[world], .events = POLLIN},
				  {.fd = fd, .events = POLLOUT}};

	c->set_flags(fd, O_NONBLOCK);
	c->set_flags(listener->fds[world], O_NONBLOCK);
	if (c->connect(fd, sockets_address(world, client, listener->ports[world]),
		       sockets_address_length(client)) != 0 &&
	    errno != EINPROGRESS)
		sockets_fail("connect() fails at once");
	while (accepted < 0) {
		c->poll(polls, 2, 1000);
		accepted = by_threads ? threads_accept(world, listener)
				      : c->accept(listener->fds[world], NULL, NULL);
		if (accepted < 0 && errno != EAGAIN)
			sockets_fail("accept() fails");
	}
	while (!(polls[1].revents & POLLOUT))
		c->poll(&polls[1], 1, 1000);
	if (polls[1].revents != POLLOUT)
		sockets_fail("it isn't connected");
	/* Of a socket that didn't wait the next call says so once, before it says EISCONN. */
	c->connect(fd, sockets_address(world, client, listener->ports[world]),
		   sockets_address_length(client));
	c->set_flags(accepted, O_NONBLOCK);
	polls[0] = (struct pollfd){.fd = accepted, .events = POLLOUT};
	while (c->poll(polls, 1, 1000) == 0)
		;
	return accepted;
}

static void step_connect(struct slot *slot)
{
	struct slot *listener = find_slot(listens, NULL), *server = find_slot(is_free, NULL);
	struct slot *client = listener ? find_slot(is_new_stream, listener) : NULL;
	const bool by_threads = below(3) == 0;
	struct slot before;

	if (!listener || !client || !server)
		return;
	*server = (struct slot){.number = server - slots,
				.open = true,
				.ipv6 = listener->ipv6,
				.kind = CONNECTED,
				.entries = listener->entries,
				.peer = client};
	for (unsigned int w = 0; w < WORLDS; w++)
		server->fds[w] = connect_one(w, listener, client, by_threads);
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
	const struct sockaddr *address = sockets_address(world, slot, port);
	int result = c->connect(slot->fds[world], address, sockets_address_length(slot));

	if (result == 0 || errno != EINPROGRESS)
		return result;
	while (sockets_poll(world, slot, POLLOUT, 1000) == 0)
		;
	return c->connect(slot->fds[world], address, sockets_address_length(slot));
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

/* --- steps: the end of one ---------------------------------------------------------------- */

/* Their datagrams go to none from now on. */
static void forget_destination(const struct slot *slot)
{
	static struct slot gone;

	for (unsigned int i = 0; i < SLOTS; i++) {
		if (slots[i].only == slot)
			slots[i].only = &gone;
	}
}

void close_slot(struct slot *slot)
{
	forget_destination(slot);
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

void note_shutdown(struct slot *slot, int how)
{
	slot->no_receive |= how != SHUT_WR;
	slot->no_send |= how != SHUT_RD;
	/* With bytes that weren't read the connection may be reset. */
	if (slot->no_receive && slot->available && slot->peer)
		slot->refused = slot->peer->refused = true;
	if (slot->no_send && slot->peer)
		slot->peer->peer_ended = true;
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
	note_shutdown(slot, how);
}

static void step_close(struct slot *slot)
{
	if (below(3) == 0)
		close_slot(slot);
}

/* --- one seed ------------------------------------------------------------------------------- */

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
	step_connect_datagram,
	step_connect_datagram,
	step_names,
	step_option,
	step_linger,
	step_flags,
	step_poll,
	step_poll,
	step_poll_all,
	step_epoll_all,
	step_select,
	step_map,
	step_map,
	step_unmap,
	step_write_mapped,
	step_write_mapped,
	step_duplex,
	step_duplex,
	step_wake,
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
	struct seeds seeds = {1, SANITIZED ? 12 : 30};

	seeds_read(&seeds);
	signal(SIGALRM, hangs);
	for (int i = seeds.first; i <= seeds.last; i++)
		run_seed(i);
}
END_TEST

static void environment(void)
{
	has_ipv6 = fixture_environment_both();
}

int main(void)
{
	const TTest *const tests[] = {any_sockets};

	return run_rsocket_tests("any_sockets", environment, NULL, tests, 1);
}
