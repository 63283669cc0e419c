/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The link of shared memory: its life, and the operations but for sending (shm_send.c) and
 * receiving (shm_receive.c). What concerns addresses, groups and descriptors is the UDP link's.
 */
#include "net/shm/shm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "net/clock.h"
#include "net/log.h"
#include "net/shm/shm_link.h"
#include "net/tuning.h"

/* --- addresses ------------------------------------------------------------------------------ */

/* NULL, or why not. */
static const char *make_inbox(struct shm_link *link, const struct roster *roster)
{
	int error;

	if (!roster)
		return "no process could find this one";
	if (!roster_control_port(roster, roster_self(roster)))
		return "no sender could wake this process";
	error = inbox_create(&link->inbox, link->directory);
	return error ? strerror(error) : NULL;
}

/*
 * With the first address, before a slot can be leased: packets for our numbers go through rings
 * from the first one on. The roster tells of the inbox once that is there and locked.
 */
static void open_inbox(struct shm_link *link)
{
	struct roster *roster = udp_link_roster(link->udp);
	const char *failure;

	pthread_mutex_lock(&link->lock);
	if (!link->roster && !link->inbox_failed) {
		failure = make_inbox(link, roster);
		if (failure) {
			log_warn("no shared memory (%s), all is sent by UDP: %s", link->directory,
				 failure);
			link->inbox_failed = true;
		} else {
			link->checked_at = clock_now();
			link->roster = roster;
			roster_set_inbox(roster, link->inbox.number);
		}
	}
	pthread_mutex_unlock(&link->lock);
}

static int shm_add_address(struct link *base, const union ibv_gid *gid, unsigned int interface)
{
	struct shm_link *link = (struct shm_link *)base;
	int error = link->udp->ops->add_address(link->udp, gid, interface);

	if (!error)
		open_inbox(link);
	return error;
}

/* --- how full ------------------------------------------------------------------------------- */

static uint64_t shm_deadline(struct link *base)
{
	struct shm_link *link = (struct shm_link *)base;
	uint64_t deadline = link->udp->ops->deadline(link->udp);

	if (!atomic_load_explicit(&link->waiting, memory_order_relaxed))
		return deadline;
	return earlier(deadline, atomic_load(&link->retry_at));
}

static uint32_t shm_capacity(struct link *base, const struct path *path, uint32_t qpn)
{
	struct shm_peer *peer = shm_peer_get((struct shm_link *)base, &path->destination, qpn);

	if (!peer)
		return UINT32_MAX;
	pthread_mutex_unlock(&peer->lock);
	return SHM_CAPACITY;
}

/* Small packets take a line of the ring and more: a quarter of what is left is what surely fits. */
static uint32_t shm_rcvbuf_space(struct link *base, const struct path *path, uint32_t qpn)
{
	struct shm_link *link = (struct shm_link *)base;
	struct shm_peer *peer = shm_peer_get(link, &path->destination, qpn);
	uint32_t unread, space;

	if (!peer)
		return link->udp->ops->rcvbuf_space(link->udp, path, qpn);
	unread = ring_unread(&peer->ring);
	space = peer->first || unread > SHM_PACED ? 0 : (SHM_PACED - unread) / 4;
	pthread_mutex_unlock(&peer->lock);
	return space;
}

/* What is in the ring of a process that has ended is read by none. */
static uint32_t shm_unread(struct link *base, const struct path *path, uint32_t qpn, uint64_t *read)
{
	struct shm_link *link = (struct shm_link *)base;
	struct shm_peer *peer = shm_peer_get(link, &path->destination, qpn);
	uint32_t unread = 0;

	if (!peer)
		return link->udp->ops->unread(link->udp, path, qpn, read);
	if (roster_is_alive(link->roster, peer->member))
		unread = ring_unread(&peer->ring) + peer->waiting;
	*read = peer->former + peer->ring.released;
	pthread_mutex_unlock(&peer->lock);
	return unread;
}

static uint32_t shm_sndbuf_space(struct link *base, const union ibv_gid *source)
{
	struct link *udp = ((struct shm_link *)base)->udp;

	return udp->ops->sndbuf_space(udp, source);
}

/* --- peers and senders ---------------------------------------------------------------------- */

static void shm_describe_peer(struct link *base, const struct path *path, uint32_t qpn,
			      struct link_peer *peer)
{
	struct link *udp = ((struct shm_link *)base)->udp;

	udp->ops->describe_peer(udp, path, qpn, peer);
}

/* No process of another user can open a ring. */
static enum link_sender shm_sender(struct link *base, const struct link_frame *frame)
{
	struct link *udp = ((struct shm_link *)base)->udp;

	return frame->shared || frame->trusted ? LINK_SENDER_NODE : udp->ops->sender(udp, frame);
}

/* --- the UDP link's ------------------------------------------------------------------------- */

static int shm_join(struct link *base, const union ibv_gid *group, const union ibv_gid *source)
{
	struct link *udp = ((struct shm_link *)base)->udp;

	return udp->ops->join(udp, group, source);
}

static void shm_leave(struct link *base, const union ibv_gid *group)
{
	struct link *udp = ((struct shm_link *)base)->udp;

	udp->ops->leave(udp, group);
}

/* Rings always have it. */
static void shm_receive_grh(struct link *base)
{
	struct link *udp = ((struct shm_link *)base)->udp;

	udp->ops->receive_grh(udp);
}

static unsigned int shm_descriptors(struct link *base, int *fds, unsigned int max)
{
	struct link *udp = ((struct shm_link *)base)->udp;

	return udp->ops->descriptors(udp, fds, max);
}

static void shm_capture(struct link *base, struct link_packet *packet)
{
	struct link *udp = ((struct shm_link *)base)->udp;

	udp->ops->capture(udp, packet);
}

/* --- its life ------------------------------------------------------------------------------- */

/* Its memory isn't there in a child: what is sent from now on is lost. */
static void shm_after_fork_child(struct link *base)
{
	struct shm_link *link = (struct shm_link *)base;

	atomic_store(&base->lost, true);
	link->roster = NULL;
	inbox_after_fork_child(&link->inbox);
	link->udp->ops->after_fork_child(link->udp);
}

static void shm_at_exit(struct link *base)
{
	struct shm_link *link = (struct shm_link *)base;

	if (link->roster)
		inbox_unlink(&link->inbox);
}

static void shm_close(struct link *base)
{
	struct shm_link *link = (struct shm_link *)base;

	if (link->roster) {
		if (atomic_load(&link->waiting))
			shm_send_waiting(link, clock_now());
		shm_readers_close(link);
		shm_peers_close(link);
		roster_set_inbox(link->roster, 0);
		inbox_destroy(&link->inbox);
	}
	link->udp->ops->close(link->udp);
	pthread_mutex_destroy(&link->lock);
	free(link);
}

static const struct link_ops shm_ops = {
	.send = shm_send,
	.receive = shm_receive,
	.deadline = shm_deadline,
	.prepare_sleep = shm_prepare_sleep,
	.capacity = shm_capacity,
	.rcvbuf_space = shm_rcvbuf_space,
	.unread = shm_unread,
	.describe_peer = shm_describe_peer,
	.sndbuf_space = shm_sndbuf_space,
	.add_address = shm_add_address,
	.join = shm_join,
	.leave = shm_leave,
	.receive_grh = shm_receive_grh,
	.sender = shm_sender,
	.descriptors = shm_descriptors,
	.capture = shm_capture,
	.after_fork_child = shm_after_fork_child,
	.at_exit = shm_at_exit,
	.close = shm_close,
};

int shm_link_create(struct link *udp, const struct shm_options *options, struct link **created)
{
	struct shm_link *link = calloc(1, sizeof(*link));

	if (!link)
		return ENOMEM;
	link->link.ops = &shm_ops;
	link->link.share = udp->share;
	link->link.capture = udp->capture;
	link->udp = udp;
	link->icrc = options->icrc;
	link->directory = options->directory ? options->directory : SHM_DIRECTORY;
	link->check = options->check ? options->check : SHM_CHECK;
	link->inbox.fd = -1;
	link->sleeps = 1;
	pthread_mutex_init(&link->lock, NULL);
	*created = &link->link;
	return 0;
}
