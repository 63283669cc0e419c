/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/verbs/any_sockets.h"

#include <fcntl.h>
#include <rdma/rsocket.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/verbs/fixture.h"
#include "tests/verbs/manager.h"
#include "tests/verbs/newer_rsocket.h"

enum { LINES = 80, LINE = 128 };

static char lines[LINES][LINE];
static unsigned int line;
static uint64_t seed;

/* That a peer is gone is told by an errno. */
static ssize_t kernel_sendto(int fd, const void *buffer, size_t length, int flags,
			     const struct sockaddr *destination, socklen_t destination_length)
{
	return sendto(fd, buffer, length, flags | MSG_NOSIGNAL, destination, destination_length);
}

static ssize_t kernel_sendmsg(int fd, const struct msghdr *message, int flags)
{
	return sendmsg(fd, message, flags | MSG_NOSIGNAL);
}

static ssize_t kernel_writev(int fd, const struct iovec *vectors, int count)
{
	const struct msghdr message = {.msg_iov = (struct iovec *)vectors, .msg_iovlen = count};

	return kernel_sendmsg(fd, &message, 0);
}

/* These are declared with a union, for which a struct sockaddr * is taken only when called. */
static int kernel_bind(int fd, const struct sockaddr *address, socklen_t length)
{
	return bind(fd, address, length);
}

static int kernel_accept(int fd, struct sockaddr *address, socklen_t *length)
{
	return accept(fd, address, length);
}

static int kernel_connect(int fd, const struct sockaddr *address, socklen_t length)
{
	return connect(fd, address, length);
}

static ssize_t kernel_recvfrom(int fd, void *buffer, size_t length, int flags,
			       struct sockaddr *source, socklen_t *source_length)
{
	return recvfrom(fd, buffer, length, flags, source, source_length);
}

static int kernel_getpeername(int fd, struct sockaddr *address, socklen_t *length)
{
	return getpeername(fd, address, length);
}

static int kernel_getsockname(int fd, struct sockaddr *address, socklen_t *length)
{
	return getsockname(fd, address, length);
}

static int kernel_get_flags(int fd)
{
	return fcntl(fd, F_GETFL);
}

static int kernel_set_flags(int fd, int flags)
{
	return fcntl(fd, F_SETFL, flags);
}

static int rsocket_get_flags(int fd)
{
	return rfcntl(fd, F_GETFL);
}

static int rsocket_set_flags(int fd, int flags)
{
	return rfcntl(fd, F_SETFL, flags);
}

const struct socket_calls socket_calls[WORLDS] = {
	[KERNEL] = {socket,
		    kernel_bind,
		    listen,
		    kernel_accept,
		    kernel_connect,
		    shutdown,
		    close,
		    kernel_recvfrom,
		    kernel_sendto,
		    poll,
		    kernel_getpeername,
		    kernel_getsockname,
		    setsockopt,
		    getsockopt,
		    readv,
		    kernel_writev,
		    recvmsg,
		    kernel_sendmsg,
		    select,
		    epoll_create1,
		    epoll_ctl,
		    epoll_wait,
		    kernel_get_flags,
		    kernel_set_flags},
	[RSOCKETS] = {rsocket,
		      rbind,
		      rlisten,
		      raccept,
		      rconnect,
		      rshutdown,
		      rclose,
		      rrecvfrom,
		      rsendto,
		      rpoll,
		      rgetpeername,
		      rgetsockname,
		      rsetsockopt,
		      rgetsockopt,
		      rreadv,
		      rwritev,
		      rrecvmsg,
		      rsendmsg,
		      rselect,
		      newer_repoll_create,
		      newer_repoll_ctl,
		      newer_repoll_wait,
		      rsocket_get_flags,
		      rsocket_set_flags},
};

/* Of IPv6 both have the one that there is: rsockets and sockets share no ports. */
static const char *address_of(unsigned int world, bool ipv6)
{
	if (ipv6)
		return "::1";
	return world == KERNEL ? "127.0.0.1" : fixture_address();
}

/* --- what failed ---------------------------------------------------------------------------- */

void sockets_note(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(lines[line++ % LINES], LINE, format, arguments);
	va_end(arguments);
}

void sockets_fail(const char *what)
{
	fprintf(stderr, "seed %lu: %s\n", (unsigned long)seed, what);
	for (unsigned int i = line > LINES ? line - LINES : 0; i < line; i++)
		fprintf(stderr, "  %s\n", lines[i % LINES]);
	abort();
}

/* --- results -------------------------------------------------------------------------------- */

/*
 * What isn't connected sends nothing: EPIPE with Linux, ENOTCONN with POSIX. A port that another
 * socket has at any address isn't available, to rdma_cm.
 */
static bool may_differ(const char *call, const struct result *kernel, const struct result *ours)
{
	if (strncmp(call, "send", 4) == 0 && kernel->error == EPIPE)
		return ours->error == ENOTCONN;
	if (strcmp(call, "bind") == 0 && kernel->error == EADDRINUSE)
		return ours->error == EADDRNOTAVAIL;
	return false;
}

bool sockets_compare(const struct slot *slot, const char *call, const struct result results[WORLDS])
{
	sockets_note("%u: %s: kernel %ld %s, rsocket %ld %s", slot->number, call,
		     results[KERNEL].value,
		     results[KERNEL].error ? strerrorname_np(results[KERNEL].error) : "",
		     results[RSOCKETS].value,
		     results[RSOCKETS].error ? strerrorname_np(results[RSOCKETS].error) : "");
	if (!(results[KERNEL].value == results[RSOCKETS].value &&
	      results[KERNEL].error == results[RSOCKETS].error) &&
	    !may_differ(call, &results[KERNEL], &results[RSOCKETS]))
		sockets_fail("the results differ");
	return results[KERNEL].value >= 0;
}

struct sockaddr *sockets_address(unsigned int world, const struct slot *slot, uint16_t port)
{
	return socket_address(address_of(world, slot->ipv6), port);
}

socklen_t sockets_address_length(const struct slot *slot)
{
	return slot->ipv6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

static uint16_t port_of(unsigned int world, int fd)
{
	struct sockaddr_in6 name = {}; /* the port is where that of IPv4 is */
	socklen_t length = sizeof(name);

	if (socket_calls[world].getsockname(fd, (struct sockaddr *)&name, &length) != 0)
		return 0;
	return ntohs(name.sin6_port);
}

void sockets_note_ports(struct slot *slot)
{
	for (unsigned int w = 0; w < WORLDS; w++)
		slot->ports[w] = port_of(w, slot->fds[w]);
	sockets_note("%u: ports %u, %u", slot->number, slot->ports[KERNEL], slot->ports[RSOCKETS]);
	if (!slot->refused && !slot->ports[KERNEL] != !slot->ports[RSOCKETS])
		sockets_fail("one has a port, the other none");
}

short sockets_poll(unsigned int world, const struct slot *slot, short events, int timeout)
{
	struct pollfd fd = {.fd = slot->fds[world], .events = events};

	if (socket_calls[world].poll(&fd, 1, timeout) < 0)
		return -1;
	return fd.revents;
}

void sockets_begin(uint64_t number)
{
	seed = number;
	line = 0;
}
