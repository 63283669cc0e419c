/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rsockets (rsocket(7)): sockets over RDMA, on top of the public verbs and rdma_cm calls alone. The
 * exported functions are in verbs/rdma/rdma_forward.c, which asks the real library in mode hw.
 *
 *   rsocket_table    descriptors and what they stand for
 *   rsocket_create   rsocket(), and what one is made of
 *   rsocket_connect  rbind() to rconnect() and raccept()
 *   rsocket_close    rshutdown(), rclose()
 *   rsocket_stream   the protocol of a connected stream: messages, credits, buffers
 *   rsocket_post     what goes to the send queue
 *   rsocket_io       rsend(), rrecv() and their like, for streams
 *   rsocket_wait     sleeping, and being woken
 *   rsocket_poll     rpoll(), rselect()
 *   rsocket_epoll    epoll, with rsocket_interest
 *   rsocket_option   options, names, rfcntl()
 *   rsocket_route    RDMA_ROUTE
 *   rsocket_iomap    riomap(), riowrite()
 *   rsocket_keepalive
 *   rsocket_datagram SOCK_DGRAM, with rsocket_udp, the way by UDP, rsocket_destination, the
 *                    addresses that are known, and rsocket_endpoint, a UD queue pair
 *
 * An rsocket's descriptor is that of its event channel, or of its UDP socket: a number that nothing
 * else of the process has, though nothing but these functions can be done with it.
 *
 * Locks, outermost first: @send_lock and @receive_lock keep one call's bytes together, @lock is for
 * everything else. It is held while the CQ is polled and work is posted; application memory is
 * copied without it, except by riowrite(). rsocket_table's lock is a leaf.
 */
#ifndef URXE_VERBS_RSOCKET_H
#define URXE_VERBS_RSOCKET_H

#include <infiniband/ib.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "net/descriptor.h"
#include "verbs/rsocket/rsocket_wire.h"

#define RSOCKET_RESOLVE_TIMEOUT 2000 /* ms */

struct rsocket_datagram;
struct rsocket_interest;

enum rsocket_state {
	RSOCKET_NEW,
	RSOCKET_BOUND,
	RSOCKET_LISTENING,
	/* Connecting: what an event is awaited for. */
	RSOCKET_RESOLVING_ADDRESS,
	RSOCKET_RESOLVING_ROUTE,
	RSOCKET_CONNECTING,
	RSOCKET_ACCEPTING, /* data may arrive before the RTU */
	RSOCKET_CONNECTED,
	RSOCKET_DISCONNECTED, /* in good order, or @error says why */
	RSOCKET_FAILED,	      /* it never was connected */
};

/* As the application asks for it before the connection is made, and the files of rsocket(7). */
struct rsocket_options {
	uint32_t send_buffer, receive_buffer; /* bytes */
	uint32_t sq_size, rq_size;	      /* messages */
	uint32_t inline_size;		      /* bytes */
	uint32_t iomap_size;		      /* entries of our table of mappings */
	bool reuse_address, ipv6_only, no_delay, keepalive, oob_inline;
	uint32_t keepalive_time; /* seconds */
	struct linger linger;
};

/* The id of a work request of ours: how many bytes of the send buffer it frees, and what it was. */
#define RSOCKET_WR_RECEIVE (UINT64_C(1) << 63)
#define RSOCKET_WR_CONTROL (UINT64_C(1) << 62)
/* One of two that send a message: it completes, if ever, before the other, and frees nothing. */
#define RSOCKET_WR_FIRST_OF_TWO (UINT64_C(1) << 61)
#define RSOCKET_WR_SECOND_OF_TWO (UINT64_C(1) << 60)
#define RSOCKET_WR_LENGTH (RSOCKET_WR_SECOND_OF_TWO - 1)

/* What is sent, and where in the peer's memory it goes. */
struct rsocket_out {
	uint8_t *buffer; /* a ring of @size */
	struct ibv_mr *mr;
	uint32_t size, offset, free;
	uint32_t mtu;				    /* of the path */
	uint32_t data_under_way, control_under_way; /* work requests */
	uint16_t sequence;			    /* of the next data message */
	uint16_t limit;				    /* the first that the peer has no receive for */
	struct rsocket_place target[RSOCKET_TARGETS]; /* granted and not filled yet */
	unsigned int next_target, next_granted;	      /* to be filled; to be granted by the peer */
};

/* What arrives. */
struct rsocket_in {
	uint8_t *buffer; /* a ring of @size, which the peer writes to */
	struct ibv_mr *mr;
	uint32_t size, offset;
	uint32_t available; /* bytes that arrived and weren't read */
	uint32_t free;	    /* bytes that were read and aren't granted again */
	uint32_t *lengths;  /* of the data messages that weren't read, a ring of rq_size + 1 */
	uint32_t first, last;
	uint16_t sequence;	   /* of the next data message to be read */
	uint32_t receives_taken;   /* and not posted again yet */
	uint16_t grant_at;	   /* when it gets here, credits are granted */
	uint64_t peer_target;	   /* the peer's target list */
	uint32_t peer_key;	   /* of that and its table of mappings */
	unsigned int peer_entries; /* of the target list */
	unsigned int next_grant;   /* entry of the peer's target list */
};

/* What the peer RDMA-writes besides data: our target list, and behind it our table of mappings. */
struct rsocket_targets {
	struct rsocket_place *list;
	struct rsocket_mapping *mappings;
	struct rsocket_mapping *known; /* those that the peer has said it has written */
	struct ibv_mr *mr;
};

/* A buffer that riomap() mapped. */
struct rsocket_iomap {
	struct rsocket_iomap *next; /* utlist */
	struct ibv_mr *mr;
	uint64_t offset;
	int index;    /* in the peer's table; -1: local only */
	bool pending; /* the peer isn't told yet */
};

/* An eventfd by which threads are woken; the application may have closed it (net/descriptor.h). */
struct rsocket_wake {
	int fd; /* -1: there was none yet */
	struct descriptor_identity identity;
};

struct rsocket {
	int fd;
	int domain, type;
	_Atomic int users; /* calls in progress, and the table */
	_Atomic bool nonblocking;
	bool inherited;			     /* this is a forked child: it is the parent's */
	struct descriptor_identity identity; /* then: of its descriptor */
	bool closed; /* by rclose(): calls of other threads are still in progress */
	bool untold; /* rconnect() hasn't said yet that it is connected */

	pthread_mutex_t send_lock, receive_lock, lock;
	enum rsocket_state state;
	bool sends, receives; /* neither side has ended that direction */
	bool ended;	      /* in good order: what fails from now on is no error */
	bool end_told;	      /* RSOCKET_SHUTDOWN was posted */
	bool peer_left;	      /* its queue pair is gone, or will be soon */
	int error;	      /* why it failed, until SO_ERROR or a call tells it */
	bool swapped;	      /* the peer has the other byte order */
	struct rsocket_options options;
	void *route; /* the paths that are asked for (rsocket_route.c), or NULL */
	socklen_t route_length;

	struct sockaddr_storage bound; /* by rbind(), or of no family */
	bool bound_to_port;	       /* and not to any that is free */
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct ibv_comp_channel *completions;
	struct ibv_cq *cq;
	struct rsocket_out out;
	struct rsocket_in in;
	struct rsocket_targets targets;

	uint64_t sender_polled_at;    /* ns */
	uint64_t manager_asked_at;    /* likewise: for events, while connected */
	uint64_t probed_at;	      /* likewise: the peer */
	unsigned int peer_mappings;   /* entries of the peer's table */
	struct rsocket_iomap *iomaps; /* by their index */
	bool iomap_pending;	      /* the peer isn't told of some */

	/* rsocket_wait.c */
	bool waited_for;	  /* a thread sleeps on the descriptors for all */
	struct rsocket_wake wake; /* ends that sleep */
	uint32_t changes;	  /* counts what threads may wait for */
	pthread_cond_t changed;
	struct rsocket_poller *pollers;

	/* rsocket_epoll.h */
	struct rsocket_interest *interests;
	bool left_epolls; /* it is being closed: no more are added */
	/* Count what EPOLLET tells of: what arrives, and calls that find no room to send. */
	uint32_t news_in, news_out;

	uint64_t keepalive_at;		   /* ns; 0: it isn't kept alive */
	uint64_t keepalive_interval;	   /* ns */
	struct rsocket *prev, *next;	   /* utlist: those that are kept alive */
	struct rsocket_datagram *datagram; /* of a SOCK_DGRAM */
};

/* --- rsocket_table.c ------------------------------------------------------------------------- */

/* Enter @rs by its descriptor. 0 or ENOMEM. */
int rsocket_enter(struct rsocket *rs);
/* The rsocket of @fd, until rsocket_put(); NULL, with EBADF, if there is none. */
struct rsocket *rsocket_get(int fd);
/* Likewise, out of the table: no other call gets it any more. A parent's may be taken, too. */
struct rsocket *rsocket_take(int fd);
void rsocket_put(struct rsocket *rs);
/* Whether @fd is an rsocket of the parent's, which rsocket_get() doesn't have. */
bool rsocket_is_inherited(int fd);

/*
 * A call that waits may be cancelled there, as those of librdmacm may, and nowhere else: what it
 * holds is returned by these, for pthread_cleanup_push().
 */
void rsocket_cleanup_put(void *rs);
void rsocket_cleanup_unlock(void *mutex);

/* Of one call, in the way of system calls: @error 0 gives 0, else -1 and errno. */
int rsocket_return(int error);

/* --- rsocket_create.c ------------------------------------------------------------------------ */

/* Without a descriptor yet, or NULL. */
struct rsocket *rsocket_allocate(int domain, int type);
/* Its channel, whose descriptor is its own. 0 or an errno. */
int rsocket_open_channel(struct rsocket *rs);
/* Free what there is of @rs; no call uses it any more. */
void rsocket_free(struct rsocket *rs);

/* --- rsocket_connect.c ----------------------------------------------------------------------- */

/* With rs->lock: whether a connection is being made. */
bool rsocket_is_opening(const struct rsocket *rs);
/* With rs->lock: a stream is what it was before it connected or listened. 0 or an errno. */
int rsocket_renew(struct rsocket *rs);
/* With rs->lock: take the events of rdma_cm that have come. Never waits. */
void rsocket_manager_events(struct rsocket *rs);

/* --- rsocket_stream.c, all with rs->lock ----------------------------------------------------- */

/* The queue pair with buffers and receives, when the id has a device. 0 or an errno. */
int rsocket_stream_create(struct rsocket *rs);
void rsocket_stream_destroy(struct rsocket *rs);

void rsocket_stream_hello(const struct rsocket *rs, struct rsocket_hello *hello);
/* What the peer said. EPROTO: it isn't an rsocket, or of another version. */
int rsocket_stream_greet(struct rsocket *rs, const void *data, size_t length);
/* Both have said hello: grant what isn't granted. */
void rsocket_stream_begin(struct rsocket *rs);

/* Take all completions, post receives, send credits. Returns whether anything happened. */
bool rsocket_stream_progress(struct rsocket *rs);
bool rsocket_can_receive(const struct rsocket *rs);

/* @length bytes of the receive buffer at in.offset were read. */
void rsocket_stream_consume(struct rsocket *rs, uint32_t length);

/*
 * No more data is sent if @sends, none received if @receives. The peer is told, for which this
 * waits until @deadline, where the send queue has no room.
 */
void rsocket_stream_end(struct rsocket *rs, bool sends, bool receives, uint64_t deadline);

/* --- rsocket_io.c ---------------------------------------------------------------------------- */

/* With rs->lock. Why one that isn't about to be connected sends nothing; 0: it does. */
int rsocket_why_ended(const struct rsocket *rs);
/* A call fails: why a connection failed is told once, by a call that has no bytes to tell of. */
int rsocket_fail(struct rsocket *rs, int error);

/* --- rsocket_post.c, all with rs->lock ------------------------------------------------------- */

bool rsocket_can_send(const struct rsocket *rs);
/* Whether the send queue has an entry for data beside those that messages without data have. */
bool rsocket_post_has_entry(const struct rsocket *rs);
/* How much the next data message may have, at most: of what lies in a row in both buffers. */
uint32_t rsocket_post_room(const struct rsocket *rs);
/* Send @length bytes, of the send buffer at out.offset (@data NULL) or inline. */
int rsocket_post_data(struct rsocket *rs, const void *data, uint32_t length);
/* A message of its own, if there is room for one; with @length bytes of data inline, to @remote. */
int rsocket_post_message(struct rsocket *rs, __be32 message, uint64_t remote, const void *data,
			 uint32_t length);
/* How much of the send buffer a riowrite() may write at once, at most. */
uint32_t rsocket_post_direct_room(const struct rsocket *rs);
/* RDMA WRITE without message, of @length bytes of the send buffer at out.offset: riowrite(). */
int rsocket_post_direct(struct rsocket *rs, uint32_t length, uint64_t remote, uint32_t key);

/* --- rsocket_wait.c -------------------------------------------------------------------------- */

/* A thread in rpoll(), to be woken when what it waits for may have come. */
struct rsocket_poller {
	const struct rsocket_wake *wake;
	struct rsocket_poller *prev, *next;
};

/* A descriptor to sleep on, besides others, until it is written to. False: there is none. */
bool rsocket_wake_open(struct rsocket_wake *wake);
void rsocket_wake_up(const struct rsocket_wake *wake);
void rsocket_wake_clear(const struct rsocket_wake *wake);
void rsocket_wake_close(struct rsocket_wake *wake);

/*
 * With rs->lock, which is released meanwhile: until something has happened to @rs, or @deadline
 * (ns of clock_now(), TIME_NEVER). Returns 0, ETIMEDOUT or EINTR: with a deadline for any signal
 * that has a handler, else as rsocket_sleep_error() says. A thread that is cancelled here has
 * released the lock.
 */
int rsocket_wait(struct rsocket *rs, uint64_t deadline);
/* The @deadline of a call that waits so long; NULL: for ever. */
uint64_t rsocket_deadline(const struct timeval *timeout);
/* Whether a call with these MSG_ flags waits at all. */
static inline bool rsocket_waits(const struct rsocket *rs, int flags)
{
	return !rs->nonblocking && !(flags & MSG_DONTWAIT);
}
/* With rs->lock: look at everything, for the calling thread. */
bool rsocket_progress(struct rsocket *rs);
/*
 * With rs->lock: something has happened of which the descriptors of @rs don't tell; wake all
 * threads that wait.
 */
void rsocket_interrupt(struct rsocket *rs);
/* With rs->lock: a request was taken of a listener, and another one may wait. */
void rsocket_note_accepted(struct rsocket *rs);
/* With rs->lock: have the descriptors become readable when something happens. False: it has. */
bool rsocket_arm(struct rsocket *rs);
/* What to sleep on; how many there are, RSOCKET_DESCRIPTORS at most. */
#define RSOCKET_DESCRIPTORS 8
unsigned int rsocket_descriptors(const struct rsocket *rs, struct pollfd *fds);
/* With rs->lock: take what has come by the descriptors, and wake the threads that wait. */
void rsocket_take_all(struct rsocket *rs);
/* With rs->lock: sleep for all no more, if @takes with what has come. Another thread has to. */
void rsocket_end_lead(struct rsocket *rs, bool takes);
/*
 * Of a sleep in poll() that has failed. 0: a signal has ended it, but the call goes on, as those of
 * sockets do for SA_RESTART (signal(7)). poll() doesn't say which signal it was: so all that have a
 * handler have to ask for that.
 */
int rsocket_sleep_error(int error);
/*
 * How long to sleep at a time, ms: not long where there is no descriptor to be @woken by, for
 * poll(2) needs none either. And with rs->lock, of one that nothing was heard of meanwhile: ask now
 * and then whether the peer is there. One whose machine or process was killed sends nothing, which
 * is noticed by retries alone.
 */
int rsocket_sleep_time(uint64_t deadline, bool woken);
void rsocket_probe(struct rsocket *rs);
/* The events of a completion channel, which doesn't block. */
void rsocket_take_events(struct ibv_comp_channel *completions, struct ibv_cq *cq);

/* --- rsocket_interest.c ---------------------------------------------------------------------- */

/* It is being closed: no epoll tells of it any more. */
void rsocket_leave_epolls(struct rsocket *rs);

/* --- rsocket_option.c ------------------------------------------------------------------------ */

/* Of a socket address; 0: no rsocket has that family. */
socklen_t rsocket_address_size(int family);
void rsocket_default_options(struct rsocket_options *options);
/* How long to poll before sleeping, ns; how long to sleep at most, ms. */
uint64_t rsocket_polling_time(void);
uint32_t rsocket_wake_up_interval(void);

/* --- rsocket_route.c, with rs->lock; 0 or an errno ------------------------------------------- */

int rsocket_route_set(struct rsocket *rs, const void *value, socklen_t length);
int rsocket_route_get(const struct rsocket *rs, void *value, socklen_t *length);
/* When the address is resolved: the route that was asked for, or any. */
int rsocket_route_resolve(struct rsocket *rs);

/* --- rsocket_iomap.c ------------------------------------------------------------------------- */

/* With rs->lock: tell the peer of mappings that it doesn't know. False: there is no room. */
bool rsocket_iomap_tell(struct rsocket *rs);
void rsocket_iomap_destroy(struct rsocket *rs);

/* --- rsocket_keepalive.c --------------------------------------------------------------------- */

/* With rs->lock: from now on, as often as the options say now. Nothing if it is closed. */
void rsocket_keepalive_start(struct rsocket *rs);
void rsocket_keepalive_stop(struct rsocket *rs);
/* At a fork; in the child none is kept alive. */
void rsocket_keepalive_before_fork(void);
void rsocket_keepalive_after_fork(bool child);

#endif
