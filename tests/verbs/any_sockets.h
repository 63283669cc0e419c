/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The calls of sockets twice: the kernel's, and those of rsockets. For lists of calls that are made
 * with both and whose results are compared (test_any_sockets.c).
 */
#ifndef URXE_TESTS_ANY_SOCKETS_H
#define URXE_TESTS_ANY_SOCKETS_H

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { KERNEL, RSOCKETS, WORLDS };

struct socket_calls {
	int (*socket)(int domain, int type, int protocol);
	int (*bind)(int fd, const struct sockaddr *address, socklen_t length);
	int (*listen)(int fd, int backlog);
	int (*accept)(int fd, struct sockaddr *address, socklen_t *length);
	int (*connect)(int fd, const struct sockaddr *address, socklen_t length);
	int (*shutdown)(int fd, int how);
	int (*close)(int fd);
	ssize_t (*recvfrom)(int fd, void *buffer, size_t length, int flags, struct sockaddr *source,
			    socklen_t *source_length);
	ssize_t (*sendto)(int fd, const void *buffer, size_t length, int flags,
			  const struct sockaddr *destination, socklen_t destination_length);
	int (*poll)(struct pollfd *fds, nfds_t count, int timeout);
	int (*getpeername)(int fd, struct sockaddr *address, socklen_t *length);
	int (*getsockname)(int fd, struct sockaddr *address, socklen_t *length);
	int (*setsockopt)(int fd, int level, int name, const void *value, socklen_t length);
	int (*getsockopt)(int fd, int level, int name, void *value, socklen_t *length);
	ssize_t (*readv)(int fd, const struct iovec *vectors, int count);
	ssize_t (*writev)(int fd, const struct iovec *vectors, int count);
	ssize_t (*recvmsg)(int fd, struct msghdr *message, int flags);
	ssize_t (*sendmsg)(int fd, const struct msghdr *message, int flags);
	int (*select)(int count, fd_set *reads, fd_set *writes, fd_set *exceptions,
		      struct timeval *timeout);
	int (*epoll_create)(int flags);
	int (*epoll_ctl)(int epoll, int operation, int fd, struct epoll_event *event);
	int (*epoll_wait)(int epoll, struct epoll_event *events, int most, int timeout);
	int (*get_flags)(int fd);
	int (*set_flags)(int fd, int flags);
};

extern const struct socket_calls socket_calls[WORLDS];

enum kind { NEW, BOUND, LISTENING, CONNECTED };

enum { MAPPINGS = 8, AREA = 4096 };

/* A part of a slot's area that is mapped by riomap(). */
struct mapping {
	bool used;
	unsigned int start, length; /* in the area */
	int64_t offset;
	int index;  /* in the peer's table; -1: it isn't there */
	bool known; /* the peer has heard of it */
};

/* One socket, in both worlds. */
struct slot {
	unsigned int number;
	bool open, datagram, ipv6;
	enum kind kind;
	int fds[WORLDS];
	uint16_t ports[WORLDS];
	bool nonblocking;
	struct slot *peer; /* of a stream; NULL: it isn't connected, or the peer was closed */
	struct slot *only; /* of datagrams: which they go to, and come from */
	bool no_send, no_receive; /* by its own shutdown() */
	bool peer_ended;	  /* sends no more */
	bool peer_closed;
	bool refused; /* or reset: another connection may be tried; it isn't compared else */
	unsigned int available; /* bytes that were sent to it, or datagrams */
	uint8_t next_sent, next_received;
	unsigned int entries;		   /* of its table, which its peer's mappings are in */
	struct mapping mappings[MAPPINGS]; /* of its area */
	/* What the peer's table has perhaps, though it is no more: by the index there. */
	struct {
		int64_t from, to;
	} stale[MAPPINGS];
};

struct result {
	long value;
	int error;
};

static inline struct result result_of(long value)
{
	return (struct result){.value = value, .error = value < 0 ? errno : 0};
}

/* What was done, for the case that something fails; and that it has: it ends the process. */
__attribute__((format(printf, 1, 2))) void sockets_note(const char *format, ...);
void sockets_fail(const char *what);
/* The notes are of another list from now on. */
void sockets_begin(uint64_t seed);

/* Whether both have succeeded. What they say has to be the same. */
bool sockets_compare(const struct slot *slot, const char *call,
		     const struct result results[WORLDS]);

/* The same call in both worlds; @expression has the world's calls as c, its descriptor as fd. */
#define BOTH(slot, name, expression)                                                               \
	({                                                                                         \
		struct result both_results[WORLDS];                                                \
                                                                                                   \
		for (unsigned int w = 0; w < WORLDS; w++) {                                        \
			const struct socket_calls *c = &socket_calls[w];                           \
			int fd = (slot)->fds[w];                                                   \
                                                                                                   \
			both_results[w] = result_of(expression);                                   \
			(void)fd, (void)c;                                                         \
		}                                                                                  \
		sockets_compare(slot, name, both_results);                                         \
	})

/*
 * Of this machine, of the slot's family; that of IPv4 is this world's. Good until the next but
 * three.
 */
struct sockaddr *sockets_address(unsigned int world, const struct slot *slot, uint16_t port);
socklen_t sockets_address_length(const struct slot *slot);
/* --- the list's own choices, and the sockets that it has */

enum { SLOTS = 6 };
extern struct slot slots[SLOTS];
extern bool has_ipv6; /* this machine */

unsigned int below(unsigned int bound);
/* One that @fits (@slot), or NULL. */
struct slot *find_slot(bool (*fits)(const struct slot *other, const struct slot *slot),
		       const struct slot *slot);
/* A connection that ends, or has: with sockets it may become another one, when it has. */
bool is_ending(const struct slot *slot);
/* Both ends are there, and nothing has been shut down. */
bool is_whole(const struct slot *slot);
/* @slot, or another one that is, or NULL. */
struct slot *find_whole(struct slot *slot);
/* Its own, or of the model alone: it has been shut down. */
void note_shutdown(struct slot *slot, int how);
void close_slot(struct slot *slot);

/* --- any_sockets_data.c */
void step_send(struct slot *slot);
void step_receive(struct slot *slot);
/* So many bytes, if there may be as many; all that were sent to it. */
void send_bytes(struct slot *slot, unsigned int length);
void receive_rest(struct slot *slot);
void step_send_datagram(struct slot *slot);
void step_receive_datagram(struct slot *slot);
void step_connect_datagram(struct slot *slot);

/* --- any_sockets_mapped.c: of rsockets alone */
void step_map(struct slot *slot);
void step_unmap(struct slot *slot);
void step_write_mapped(struct slot *slot);
/* How many entries its table has: before it is connected. */
void mapped_prepare(struct slot *slot);
/* All of an area has what was written to it. */
void mapped_check(const struct slot *slot);
/* A mapping of the peer's that may be written to as a whole, or NULL; part of it, by any thread. */
const struct mapping *mapped_of_peer(const struct slot *slot);
void mapped_write(const struct slot *slot, const struct mapping *mapping, unsigned int from,
		  unsigned int length, uint8_t value);
/* A mapping of no part of the peer's table comes and goes. */
void mapped_local(const struct slot *slot);
/* Whether what is sent next tells the peer of mappings: there may be no room for that at once. */
bool mapped_is_untold(const struct slot *slot);
/* The peer hears of what was mapped, and all that was written is there. */
void mapped_tell(struct slot *slot);

/* --- any_sockets_threads.c */
void step_duplex(struct slot *slot);
void step_wake(struct slot *slot);
/* What two threads accept of one connection to @listener, by the first that gets it. */
int threads_accept(unsigned int world, const struct slot *listener);

/* --- any_sockets_asked.c */
void step_names(struct slot *slot);
void step_option(struct slot *slot);
void step_linger(struct slot *slot);
void step_flags(struct slot *slot);
void step_poll(struct slot *slot);
void step_poll_all(struct slot *slot);
void step_epoll_all(struct slot *slot);
void step_select(struct slot *slot);

/* Ask which port each has, if any. */
void sockets_note_ports(struct slot *slot);
/* What poll() says of one: 0 for nothing, -1 for an error. */
short sockets_poll(unsigned int world, const struct slot *slot, short events, int timeout);

#endif
