/* SPDX-License-Identifier: BSD-2-Clause */
/* The steps of test_any_sockets.c that send and receive. */
#include <string.h>

#include "tests/verbs/any_sockets.h"

enum { MOST = 3000, UNDER_WAY = 16000, VECTORS = 3 };

/* --- by which of the calls ---------------------------------------------------------------- */

enum call { BY_VECTORS, BY_ADDRESS, BY_MESSAGE, CALLS };

static const char *const send_names[CALLS] = {"send by writev", "send", "send by sendmsg"};
static const char *const receive_names[CALLS] = {"receive by readv", "receive",
						 "receive by recvmsg"};

/* Some of them empty. */
static void cut(struct iovec vectors[VECTORS], const uint8_t *data, size_t length)
{
	size_t done = 0;

	for (unsigned int i = 0; i < VECTORS; i++) {
		size_t part = i + 1 == VECTORS ? length - done : (length - done) * i / 2;

		vectors[i] = (struct iovec){(void *)(data + done), part};
		done += part;
	}
}

static ssize_t send_by(const struct socket_calls *c, int fd, enum call how, const uint8_t *data,
		       size_t length)
{
	struct iovec vectors[VECTORS];
	const struct msghdr message = {.msg_iov = vectors, .msg_iovlen = VECTORS};

	cut(vectors, data, length);
	switch (how) {
	case BY_VECTORS:
		return c->writev(fd, vectors, VECTORS);
	case BY_MESSAGE:
		return c->sendmsg(fd, &message, 0);
	default:
		return c->sendto(fd, data, length, 0, NULL, 0);
	}
}

/* Connections don't block, so that there need be no flag. */
static ssize_t receive_by(const struct socket_calls *c, int fd, enum call how, uint8_t *data,
			  size_t length, int flags)
{
	struct iovec vectors[VECTORS];
	struct msghdr message = {.msg_iov = vectors, .msg_iovlen = VECTORS};

	cut(vectors, data, length);
	switch (how) {
	case BY_VECTORS:
		return c->readv(fd, vectors, VECTORS);
	case BY_MESSAGE:
		return c->recvmsg(fd, &message, flags | MSG_DONTWAIT);
	default:
		return c->recvfrom(fd, data, length, flags | MSG_DONTWAIT, NULL, NULL);
	}
}

/* --- streams ------------------------------------------------------------------------------ */

static void fill_next(uint8_t *data, unsigned int length, uint8_t *next)
{
	for (unsigned int i = 0; i < length; i++)
		data[i] = (*next)++;
}

static ssize_t send_behind_mappings(unsigned int world, const struct slot *slot, enum call how,
				    const uint8_t *data, size_t length)
{
	ssize_t sent;

	while ((sent = send_by(&socket_calls[world], slot->fds[world], how, data, length)) < 0 &&
	       errno == EAGAIN && world == RSOCKETS && mapped_is_untold(slot))
		poll(NULL, 0, 1);
	return sent;
}

void send_bytes(struct slot *slot, unsigned int length)
{
	struct slot *peer = slot->peer;
	uint8_t data[MOST], next = slot->next_sent;
	enum call how;

	if (slot->datagram || slot->peer_closed || (peer && peer->no_receive) ||
	    (slot->refused && slot->kind == CONNECTED) ||
	    (peer && peer->available + length > UNDER_WAY))
		return;
	fill_next(data, length, &next);
	how = below(CALLS);
	if (!BOTH(slot, send_names[how], send_behind_mappings(w, slot, how, data, length)))
		return;
	slot->next_sent = next;
	if (peer)
		peer->available += length;
}

void step_send(struct slot *slot)
{
	send_bytes(slot, below(4) ? below(MOST) : below(3));
}

/* As much as has been sent, which may come in pieces. */
static ssize_t receive_all_of(unsigned int world, const struct slot *slot, enum call how,
			      uint8_t *data, size_t length, int flags)
{
	const struct socket_calls *c = &socket_calls[world];
	size_t most = length < slot->available ? length : slot->available, got = 0;

	while (!most && slot->peer_ended && sockets_poll(world, slot, POLLIN, 1000) == 0)
		;
	if (!most)
		return receive_by(c, slot->fds[world], how, data, length, flags);
	while (got < most) {
		ssize_t part;

		while (sockets_poll(world, slot, POLLIN, 1000) == 0)
			;
		part = receive_by(c, slot->fds[world], how, flags & MSG_PEEK ? data : data + got,
				  flags & MSG_PEEK ? most : most - got, flags);
		if (part <= 0)
			return part;
		got = flags & MSG_PEEK ? (size_t)part : got + part;
	}
	return got;
}

static void receive_bytes(struct slot *slot, unsigned int length, int flags)
{
	uint8_t data[WORLDS][MOST + 1], expected[MOST + 1], next = slot->next_received;
	unsigned int got = length < slot->available ? length : slot->available;
	enum call how;

	if (slot->datagram || slot->refused)
		return;
	how = flags ? BY_ADDRESS + below(2) : below(CALLS);
	if (!BOTH(slot, flags ? "peek" : receive_names[how],
		  receive_all_of(w, slot, how, data[w], length, flags)))
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

void receive_rest(struct slot *slot)
{
	while (slot->available)
		receive_bytes(slot, MOST, 0);
}

void step_receive(struct slot *slot)
{
	receive_bytes(slot, 1 + below(MOST), below(4) ? 0 : MSG_PEEK);
}

/* --- datagrams ---------------------------------------------------------------------------- */

static bool takes_datagrams(const struct slot *to, const struct slot *slot)
{
	/*
	 * One at a time: in which order they arrive isn't said. One that wants another's has none.
	 */
	return to->open && to->datagram && to->ipv6 == slot->ipv6 && to->ports[KERNEL] &&
	       !to->available && (!to->only || to->only == slot);
}

void step_send_datagram(struct slot *slot)
{
	struct slot *to = find_slot(takes_datagrams, slot);
	const unsigned int length = below(3) ? below(1200) : 0;
	const enum call how = below(CALLS);
	uint8_t data[MOST] = {length, length >> 8};

	if (!slot->datagram || !to)
		return;
	/* Sockets have a port from then on, though nothing was sent. */
	if (!slot->only && slot->ports[KERNEL] && below(8) == 0)
		BOTH(slot, "send without an address", send_by(c, fd, below(CALLS), data, length));
	if (to == slot->only
		    ? !BOTH(slot, "send", send_by(c, fd, how, data, length))
		    : !BOTH(slot, "send to",
			    c->sendto(fd, data, length, 0, sockets_address(w, slot, to->ports[w]),
				      sockets_address_length(slot))))
		return;
	to->available++;
	sockets_note_ports(slot);
}

static ssize_t receive_one(unsigned int world, const struct slot *slot, unsigned int length,
			   int flags, uint16_t *port)
{
	struct sockaddr_in6 source = {};
	socklen_t size = sizeof(source);
	uint8_t data[MOST];
	ssize_t got;

	while (slot->available && sockets_poll(world, slot, POLLIN, 1000) == 0)
		;
	got = socket_calls[world].recvfrom(slot->fds[world], data, length, flags | MSG_DONTWAIT,
					   (struct sockaddr *)&source, &size);
	*port = ntohs(source.sin6_port);
	return got;
}

void step_receive_datagram(struct slot *slot)
{
	const unsigned int length = below(MOST);
	const int flags = below(4) ? 0 : MSG_PEEK;
	uint16_t ports[WORLDS];

	if (!slot->datagram)
		return;
	if (BOTH(slot, flags ? "peek datagram" : "receive datagram",
		 receive_one(w, slot, length, flags, &ports[w])) &&
	    !flags)
		slot->available--;
}

/* One that isn't has the address that the kernel prefers (urxe(7)). */
static bool is_bound(const struct slot *to, const struct slot *slot)
{
	return to->open && to->datagram && to->ipv6 == slot->ipv6 && to->kind == BOUND;
}

/* What it has from another one stays there, with sockets. */
void step_connect_datagram(struct slot *slot)
{
	struct slot *to = find_slot(is_bound, slot);

	if (!to || !is_bound(slot, slot) || slot->available)
		return;
	if (BOTH(slot, "connect datagrams",
		 c->connect(fd, sockets_address(w, slot, to->ports[w]),
			    sockets_address_length(slot))))
		slot->only = to;
	sockets_note_ports(slot);
}
