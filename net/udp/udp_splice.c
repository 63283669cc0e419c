/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/udp/udp_splice.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "net/stores.h"
#include "net/syscalls.h"
#include "net/udp/udp_link.h"

#define PAGE 4096u
/* splice() makes one datagram of so many pages (Linux fs/splice.c). */
#define DATAGRAM_PAGES 16
#define BLOCK (DATAGRAM_PAGES * PAGE)
_Static_assert(LINK_TRAIN_BYTES <= BLOCK, "any super-packet");
/* Bytes that the kernel no longer counts as unread, while the receiver still reads them. */
#define NOT_COUNTED (3 * BLOCK)
_Static_assert((UDP_SPLICE_BLOCKS & (UDP_SPLICE_BLOCKS - 1)) == 0, "numbers of super-packets wrap");

/* --- life ------------------------------------------------------------------------------- */

static const struct choice_rule splice_rule = {
	.first = UDP_SPLICE_FIRST,
	.round = UDP_SPLICE_ROUND,
	.trial = UDP_SPLICE_TRIAL,
	.settling = {UDP_SPLICE_SPAN, UDP_SPLICE_SPAN},
	.percent = UDP_SPLICE_PERCENT,
};

void udp_splice_init(struct udp_splice *splice)
{
	*splice = (struct udp_splice){.pipe = -1};
	choice_init(&splice->pays, &splice_rule);
}

static void close_pipe(struct udp_splice *splice)
{
	descriptor_close(descriptor_take(&splice->pipe), &splice->identity);
}

static void unmap_blocks(struct udp_splice *splice)
{
	if (splice->blocks)
		munmap(splice->blocks, UDP_SPLICE_BLOCKS * BLOCK);
	splice->blocks = NULL;
}

void udp_splice_destroy(struct udp_splice *splice)
{
	close_pipe(splice);
	unmap_blocks(splice);
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
	snprintf(name, sizeof(name), "/proc/thread-self/fd/%d", fds[0]);
	both = descriptor_above_standard(sys_open(name, O_RDWR | O_CLOEXEC | O_NONBLOCK));
	sys_close(fds[0]);
	sys_close(fds[1]);
	if (both < 0)
		return false;
	splice->identity = descriptor_identify(both);
	__atomic_store_n(&splice->pipe, both, __ATOMIC_RELEASE);
	return true;
}

static const struct choice_rule stores_rule = STORES_RULE(UDP_SPLICE_BLOCKS * BLOCK);

/*
 * New blocks, of which nothing is unread. Receivers may still read earlier ones, whose pages stay
 * theirs when they are unmapped here.
 */
static bool begin(struct udp_splice *splice, uint64_t cookie)
{
	void *blocks;

	unmap_blocks(splice);
	if (!kernel_takes_pages() || sysconf(_SC_PAGESIZE) != PAGE || !open_pipe(splice))
		return false;
	blocks = mmap(NULL, UDP_SPLICE_BLOCKS * BLOCK, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (blocks == MAP_FAILED)
		return false;
	madvise(blocks, UDP_SPLICE_BLOCKS * BLOCK, MADV_DONTFORK);
	splice->blocks = blocks;
	splice->oldest = splice->next;
	splice->bytes = 0;
	splice->cookie = cookie;
	splice->passed_over = 0;
	choice_init(&splice->stores, &stores_rule);
	return true;
}

/* --- blocks ---------------------------------------------------------------------------------- */

/*
 * Whether something that was sent is still charged to the sender. The loopback device charges it to
 * the receiver's socket before the call that sends it returns, unless it was given a queue (tbf,
 * netem: tc(8)), or a firewall keeps packets. What leaves a queue is in neither socket for a
 * moment, so that counting what is in it wouldn't do.
 */
static bool is_queued(const struct udp_connection *connection)
{
	int bytes;

	return ioctl(descriptor_number(&connection->fd), SIOCOUTQ, &bytes) == 0 && bytes > 0;
}

/*
 * What of it waits to be read, no less. Where processes share an address the kernel may give it to
 * another one than it is for, to be handed on: then it is in one of two sockets.
 */
static bool unread(struct udp_link *link, const struct udp_address *address,
		   const struct udp_connection *connection, uint32_t *bytes)
{
	const unsigned int interface = udp_address_interface(address);
	const struct backlog_socket wanted = {&connection->destination, interface,
					      connection->splice.cookie};
	struct sock_diag_socket first;
	uint32_t received;

	if (sock_diag_find(link->diag, &connection->destination, ROCE_V2_UDP_PORT, &address->gid,
			   address->source_port, interface, &first) != 0)
		return false;
	*bytes = first.received;
	if (!wanted.cookie || first.cookie == wanted.cookie)
		return true;
	if (!backlog_received(link->backlog, &wanted, &received))
		return false;
	if (received > *bytes)
		*bytes = received;
	return true;
}

/*
 * They are read in the order in which they are sent: if one is unread, so are all behind it, and
 * the kernel counts each for no less than its length.
 */
static void look(struct udp_link *link, const struct udp_address *address,
		 struct udp_connection *connection)
{
	struct udp_splice *splice = &connection->splice;
	uint32_t bytes;

	if (!unread(link, address, connection, &bytes))
		return;
	while (splice->bytes > (uint64_t)bytes + NOT_COUNTED)
		splice->bytes -= splice->lengths[splice->oldest++ % UDP_SPLICE_BLOCKS];
}

/*
 * The receivers' sockets aren't asked one by one: there are blocks for one of them, and others
 * for another one when that gets far more.
 */
static bool is_for(struct udp_splice *splice, uint64_t cookie, uint32_t length)
{
	if (splice->blocks && splice->cookie == cookie) {
		splice->passed_over = 0;
		return true;
	}
	splice->passed_over += length;
	if (splice->blocks && splice->passed_over < UDP_SPLICE_OTHER)
		return false;
	if (begin(splice, cookie))
		return true;
	refuse(splice);
	return false;
}

static bool has_free(const struct udp_splice *splice)
{
	return splice->next - splice->oldest < UDP_SPLICE_BLOCKS;
}

/* Whether the next block may be written. */
static bool find_free(struct udp_link *link, const struct udp_address *address,
		      struct udp_connection *connection)
{
	struct udp_splice *splice = &connection->splice;

	if (has_free(splice))
		return true;
	if (splice->pauses) {
		splice->pauses--;
		return false;
	}
	if (is_queued(connection)) {
		refuse(splice);
		return false;
	}
	look(link, address, connection);
	if (!has_free(splice))
		splice->pauses = UDP_SPLICE_PAUSES;
	return has_free(splice);
}

/*
 * The time that counts is that from one super-packet of a stream to the next: the sender's and the
 * receiver's, whichever takes longer. A span of it is longer than what is under way.
 */
static bool pays(struct udp_splice *splice, uint32_t length)
{
	if (splice->span_bytes >= UDP_SPLICE_SPAN) {
		choice_end(&splice->pays, &splice->span, splice->span_bytes);
		splice->span_bytes = 0;
	}
	if (!splice->span_bytes)
		splice->span = choice_begin(&splice->pays);
	splice->span_bytes += length;
	return splice->span.special;
}

uint8_t *udp_splice_place(struct udp_link *link, const struct udp_address *address,
			  struct udp_connection *connection, uint32_t length, uint32_t qpn)
{
	struct udp_splice *splice = &connection->splice;
	uint64_t cookie;

	if (splice->refused || length < UDP_SPLICE_LEAST || !link->backlog)
		return NULL;
	if (!pays(splice, length))
		return NULL;
	cookie = udp_share_cookie(link, &connection->destination, qpn);
	if (link->share.roster && !cookie)
		return NULL;
	if (!is_for(splice, cookie, length) || !find_free(link, address, connection))
		return NULL;
	return splice->blocks + splice->next % UDP_SPLICE_BLOCKS * BLOCK;
}

/* --- sending ------------------------------------------------------------------------------- */

/* What became of an earlier datagram, which nothing took, is returned once in place of sending. */
static ssize_t splice_out(struct udp_connection *connection, uint32_t length, int *earlier)
{
	int from = descriptor_number(&connection->splice.pipe);
	int to = descriptor_number(&connection->fd);
	ssize_t sent = sys_splice(from, to, length, SPLICE_F_NONBLOCK);

	if (sent >= 0 || !udp_is_icmp_error(errno))
		return sent;
	*earlier = errno;
	return sys_splice(from, to, length, SPLICE_F_NONBLOCK);
}

int udp_splice_send(struct udp_connection *connection, uint8_t *place, uint32_t length,
		    uint16_t segment_length, int *earlier)
{
	struct udp_splice *splice = &connection->splice;
	const struct iovec vector = {place, length};
	ssize_t sent = -1;

	*earlier = 0;
	splice->lengths[splice->next++ % UDP_SPLICE_BLOCKS] = length;
	splice->bytes += length;
	if (udp_connection_set_segment(connection, segment_length) &&
	    sys_vmsplice(descriptor_number(&splice->pipe), &vector, 1, SPLICE_F_NONBLOCK) == length)
		sent = splice_out(connection, length, earlier);
	if (sent == length)
		return 1;
	refuse(splice);
	return -1;
}
