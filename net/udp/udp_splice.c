/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/udp/udp_splice.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "net/syscalls.h"
#include "net/udp/udp_link.h"

#define PAGE 4096u
/* splice() makes one datagram of so many pages (Linux fs/splice.c). */
#define DATAGRAM_PAGES 16
#define DATAGRAM_MOST (DATAGRAM_PAGES * PAGE)
/*
 * Of the ring: what the receiver is reading, and the kernel no longer counts; and its end, where a
 * super-packet didn't fit, before what wasn't read and before what comes next.
 */
#define NOT_COUNTED (3 * DATAGRAM_MOST)
/* What a batch of udp_send() has at the most before it sends any. */
#define UNSENT_MOST (16 * DATAGRAM_MOST)
_Static_assert(UDP_SPLICE_RING > NOT_COUNTED + UNSENT_MOST + UDP_SPLICE_RING / 4 * 9 / 8, "");

/* --- life ------------------------------------------------------------------------------- */

void udp_splice_init(struct udp_splice *splice)
{
	*splice = (struct udp_splice){.pipe = -1};
}

static void close_pipe(struct udp_splice *splice)
{
	descriptor_close(descriptor_take(&splice->pipe), &splice->identity);
}

static void unmap_ring(struct udp_splice *splice)
{
	if (splice->ring)
		munmap(splice->ring, UDP_SPLICE_RING);
	splice->ring = NULL;
}

void udp_splice_destroy(struct udp_splice *splice)
{
	close_pipe(splice);
	unmap_ring(splice);
}

bool udp_splice_verify(struct udp_splice *splice)
{
	return descriptor_verify(&splice->pipe, &splice->identity);
}

void udp_splice_after_fork_child(struct udp_splice *splice)
{
	close_pipe(splice);
}

/* What is in the pipe goes with it. */
static void refuse(struct udp_splice *splice)
{
	splice->refused = true;
	splice->free = 0;
	close_pipe(splice);
}

/* Before Linux 6.5 splice() handed a socket one page at a time. */
static bool kernel_takes_pages(void)
{
	unsigned int major, minor;
	struct utsname name;

	return uname(&name) == 0 && sscanf(name.release, "%u.%u", &major, &minor) == 2 &&
	       (major > 6 || (major == 6 && minor >= 5));
}

/*
 * One descriptor for both ends: where an application closes descriptors that aren't its own, a pipe
 * without its reading end would end it by SIGPIPE.
 */
static bool open_pipe(struct udp_splice *splice)
{
	char name[32];
	int fds[2], both;

	if (splice->pipe >= 0)
		return true;
	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
		return false;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fds[0]);
	both = sys_open(name, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	close(fds[0]);
	close(fds[1]);
	if (both < 0)
		return false;
	splice->identity = descriptor_identify(both);
	__atomic_store_n(&splice->pipe, both, __ATOMIC_RELEASE);
	return true;
}

/* None of a new ring is unread, whatever the receivers still have of an earlier one. */
static bool begin(struct udp_splice *splice, uint64_t cookie)
{
	void *ring;

	unmap_ring(splice);
	if (!kernel_takes_pages() || sysconf(_SC_PAGESIZE) != PAGE || !open_pipe(splice))
		return false;
	ring = mmap(NULL, UDP_SPLICE_RING, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		    0);
	if (ring == MAP_FAILED)
		return false;
	madvise(ring, UDP_SPLICE_RING, MADV_DONTFORK);
	splice->ring = ring;
	splice->position = 0;
	splice->free = UDP_SPLICE_RING - NOT_COUNTED;
	splice->cookie = cookie;
	splice->unsent = 0;
	splice->passed_over = 0;
	return true;
}

/* --- the ring ------------------------------------------------------------------------------ */

/* Where processes share an address the kernel may give it to another one, to be handed on. */
static bool unread(struct udp_link *link, const struct udp_address *address,
		   const struct udp_connection *connection, uint32_t *bytes)
{
	struct sock_diag_socket first;

	if (!backlog_received(link->backlog, &connection->destination, connection->splice.cookie,
			      bytes) ||
	    sock_diag_find(link->diag, &connection->destination, ROCE_V2_UDP_PORT, &address->gid,
			   address->source_port, &first) != 0)
		return false;
	if (first.received > *bytes)
		*bytes = first.received;
	return true;
}

/* A super-packet takes up to an eighth more of the ring than of a socket: it has its own pages. */
static bool look(struct udp_link *link, const struct udp_address *address,
		 struct udp_connection *connection)
{
	struct udp_splice *splice = &connection->splice;
	uint32_t bytes;

	if (splice->pauses) {
		splice->pauses--;
		return false;
	}
	if (unread(link, address, connection, &bytes) && bytes < UDP_SPLICE_RING / 4) {
		splice->free = UDP_SPLICE_RING - NOT_COUNTED - splice->unsent - bytes - bytes / 8;
		return true;
	}
	splice->pauses = UDP_SPLICE_PAUSES;
	return false;
}

/*
 * The receivers' sockets aren't asked one by one: there is a ring for one of them, and another
 * for another one when that gets far more.
 */
static bool is_for(struct udp_splice *splice, uint64_t cookie, uint32_t length)
{
	if (splice->ring && splice->cookie == cookie) {
		splice->passed_over = 0;
		return true;
	}
	splice->passed_over += length;
	if (splice->ring && splice->passed_over < UDP_SPLICE_OTHER)
		return false;
	if (begin(splice, cookie))
		return true;
	refuse(splice);
	return false;
}

static uint32_t pages_of(uint32_t length)
{
	return (length + PAGE - 1) & ~(PAGE - 1);
}

uint8_t *udp_splice_place(struct udp_link *link, const struct udp_address *address,
			  struct udp_connection *connection, uint32_t length, uint32_t qpn)
{
	struct udp_splice *splice = &connection->splice;
	uint32_t bytes = pages_of(length);
	uint64_t cookie;

	if (splice->refused || length < UDP_SPLICE_LEAST || bytes > DATAGRAM_MOST || !link->backlog)
		return NULL;
	cookie = udp_share_cookie(link, &connection->destination, qpn);
	if (link->share.roster && !cookie)
		return NULL;
	if (!is_for(splice, cookie, length))
		return NULL;
	if (splice->position + bytes > UDP_SPLICE_RING)
		splice->position = 0;
	if (splice->free < bytes && !look(link, address, connection))
		return NULL;
	return splice->ring + splice->position;
}

void udp_splice_keep(struct udp_splice *splice, uint32_t length)
{
	splice->position += pages_of(length);
	splice->free -= pages_of(length);
	splice->unsent += pages_of(length);
}

/* --- sending ------------------------------------------------------------------------------- */

static bool set_segment_length(struct udp_connection *connection, uint16_t segment_length)
{
	int value = segment_length;

	if (connection->splice.segment_length == segment_length)
		return true;
	if (setsockopt(descriptor_number(&connection->fd), IPPROTO_UDP, UDP_SEGMENT, &value,
		       sizeof(value)) < 0)
		return false;
	connection->splice.segment_length = segment_length;
	return true;
}

/* What an earlier datagram met with, that no socket took it, is said once in place of sending. */
static ssize_t splice_out(struct udp_connection *connection, uint32_t length)
{
	int from = descriptor_number(&connection->splice.pipe);
	int to = descriptor_number(&connection->fd);
	ssize_t sent = sys_splice(from, to, length, SPLICE_F_NONBLOCK);

	return sent < 0 && errno == ECONNREFUSED ? sys_splice(from, to, length, SPLICE_F_NONBLOCK)
						 : sent;
}

int udp_splice_send(struct udp_connection *connection, uint8_t *place, uint32_t length,
		    uint16_t segment_length)
{
	struct udp_splice *splice = &connection->splice;
	const struct iovec vector = {place, length};
	ssize_t sent = -1;

	splice->unsent -= pages_of(length);
	if (set_segment_length(connection, segment_length) &&
	    sys_vmsplice(descriptor_number(&splice->pipe), &vector, 1, SPLICE_F_NONBLOCK) == length)
		sent = splice_out(connection, length);
	if (sent == length)
		return 1;
	refuse(splice);
	return -1;
}
