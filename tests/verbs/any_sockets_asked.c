/* SPDX-License-Identifier: BSD-2-Clause */
/* The steps of test_any_sockets.c that ask for something, or set an option. */
#include <fcntl.h>
#include <netinet/tcp.h>

#include "tests/verbs/any_sockets.h"
#include "tests/verbs/rsockets.h"

/* --- names and options --------------------------------------------------------------------- */

static long peer_name(unsigned int world, const struct slot *slot)
{
	struct sockaddr_in6 name = {};
	socklen_t length = sizeof(name);

	if (socket_calls[world].getpeername(slot->fds[world], (struct sockaddr *)&name, &length) !=
	    0)
		return -1;
	return name.sin6_family * 2 + (name.sin6_port != 0);
}

void step_names(struct slot *slot)
{
	sockets_note_ports(slot);
	if (!is_ending(slot) && !slot->refused)
		BOTH(slot, "peer's name", peer_name(w, slot));
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

void step_option(struct slot *slot)
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

void step_linger(struct slot *slot)
{
	struct linger linger = {.l_onoff = below(2), .l_linger = 1 + below(3)}, got[WORLDS] = {};
	socklen_t length = sizeof(linger);

	BOTH(slot, "set linger", c->setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, length));
	BOTH(slot, "get linger", c->getsockopt(fd, SOL_SOCKET, SO_LINGER, &got[w], &length));
}

void step_flags(struct slot *slot)
{
	const bool blocking = below(2) && slot->kind <= BOUND;

	BOTH(slot, "set flags", c->set_flags(fd, blocking ? 0 : O_NONBLOCK));
	BOTH(slot, "flags", c->get_flags(fd) & (O_NONBLOCK | O_ACCMODE));
	slot->nonblocking = !blocking;
}

/* Until both say the same: what was sent takes its time, and so do ACKs, which Nagle waits for. */
void step_poll(struct slot *slot)
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

/* --- many at once -------------------------------------------------------------------------- */

/* Those of which more than one answer is right (step_poll()) aren't asked about. */
static bool is_asked(const struct slot *slot)
{
	return slot->open && !is_ending(slot) && !slot->refused;
}

static int poll_world(unsigned int world, short ready[SLOTS])
{
	struct pollfd fds[SLOTS];
	int count;

	for (unsigned int i = 0; i < SLOTS; i++)
		fds[i] = (struct pollfd){.fd = is_asked(&slots[i]) ? slots[i].fds[world] : -1,
					 .events = POLLIN | POLLOUT | POLLRDHUP};
	count = socket_calls[world].poll(fds, SLOTS, 0);
	for (unsigned int i = 0; i < SLOTS; i++)
		ready[i] = fds[i].revents;
	return count;
}

static int epoll_world(unsigned int world, short ready[SLOTS])
{
	const struct socket_calls *c = &socket_calls[world];
	int epoll = c->epoll_create(0), count;
	struct epoll_event events[SLOTS];

	for (unsigned int i = 0; i < SLOTS; i++) {
		struct epoll_event event = {POLLIN | POLLOUT | POLLRDHUP, {.u32 = i}};

		ready[i] = 0;
		if (is_asked(&slots[i]) &&
		    c->epoll_ctl(epoll, EPOLL_CTL_ADD, slots[i].fds[world], &event) < 0)
			sockets_fail("epoll_ctl() fails");
	}
	count = c->epoll_wait(epoll, events, SLOTS, 0);
	for (int i = 0; i < count; i++)
		ready[events[i].data.u32] = events[i].events;
	c->close(epoll);
	return count;
}

/* As of one: until both say the same of each. */
static void look_at_all(const char *call, int (*look)(unsigned int world, short ready[SLOTS]))
{
	short ready[WORLDS][SLOTS];
	int counts[WORLDS] = {0, -1};

	for (int i = 0; i < PATIENCE; i++) {
		for (unsigned int w = 0; w < WORLDS; w++)
			counts[w] = look(w, ready[w]);
		if (counts[KERNEL] == counts[RSOCKETS] &&
		    memcmp(ready[KERNEL], ready[RSOCKETS], sizeof(ready[KERNEL])) == 0)
			return;
		poll(NULL, 0, 1);
	}
	for (unsigned int i = 0; i < SLOTS; i++)
		sockets_note("%u: %s of all: kernel %#x, rsocket %#x", i, call, ready[KERNEL][i],
			     ready[RSOCKETS][i]);
	sockets_fail("not all are ready for the same");
}

void step_poll_all(struct slot *slot)
{
	look_at_all("poll", poll_world);
}

void step_epoll_all(struct slot *slot)
{
	look_at_all("epoll", epoll_world);
}

/* Bits 2 * number: to be read, 2 * number + 1: to be written. */
static unsigned int select_world(unsigned int world, int *count)
{
	const struct timeval now = {};
	struct timeval timeout = now;
	unsigned int ready = 0;
	fd_set reads, writes;

	FD_ZERO(&reads);
	FD_ZERO(&writes);
	for (unsigned int i = 0; i < SLOTS; i++) {
		if (!is_asked(&slots[i]))
			continue;
		FD_SET(slots[i].fds[world], &reads);
		FD_SET(slots[i].fds[world], &writes);
	}
	*count = socket_calls[world].select(FD_SETSIZE, &reads, &writes, NULL, &timeout);
	for (unsigned int i = 0; i < SLOTS; i++) {
		if (!is_asked(&slots[i]))
			continue;
		ready |= FD_ISSET(slots[i].fds[world], &reads) ? 1u << 2 * i : 0;
		ready |= FD_ISSET(slots[i].fds[world], &writes) ? 2u << 2 * i : 0;
	}
	return ready;
}

void step_select(struct slot *slot)
{
	unsigned int ready[WORLDS] = {0, -1};
	int counts[WORLDS] = {0, -1};

	for (int i = 0; i < PATIENCE &&
			(ready[KERNEL] != ready[RSOCKETS] || counts[KERNEL] != counts[RSOCKETS]);
	     i++) {
		if (i)
			poll(NULL, 0, 1);
		for (unsigned int w = 0; w < WORLDS; w++)
			ready[w] = select_world(w, &counts[w]);
	}
	sockets_note("select: kernel %d, %#x, rsocket %d, %#x", counts[KERNEL], ready[KERNEL],
		     counts[RSOCKETS], ready[RSOCKETS]);
	if (ready[KERNEL] != ready[RSOCKETS] || counts[KERNEL] != counts[RSOCKETS])
		sockets_fail("select() says something else");
}
