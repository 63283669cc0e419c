/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The real link: its life and its addresses, and what it knows of the kernel's
 * queues. The sockets of an address are made in udp_socket.c; sending is in
 * udp_send.c, receiving in udp_receive.c.
 */
#include "net/udp/udp_link.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "net/descriptor.h"
#include "net/log.h"
#include "net/syscalls.h"
#include "net/udp/udp_batch.h"

/* --- Addresses ------------------------------------------------------------------- */

struct udp_address *udp_address_find(struct udp_link *link, const union ibv_gid *gid)
{
	unsigned int count = udp_address_count(link);

	for (unsigned int i = 0; i < count; i++) {
		if (gid_equal(&link->addresses[i]->gid, gid))
			return link->addresses[i];
	}
	return NULL;
}

static void address_close(struct udp_link *link, struct udp_address *address)
{
	udp_share_leave_group(link, address);
	udp_connections_close(address);
	if (address->receive_fd >= 0)
		sys_close(address->receive_fd);
	if (address->send_fd >= 0)
		sys_close(address->send_fd);
	free(address);
}

static int address_open(struct udp_link *link, const union ibv_gid *gid, unsigned int interface,
			struct udp_address **opened)
{
	struct udp_address *address = malloc(sizeof(*address));
	int error;

	if (!address)
		return ENOMEM;
	*address = (struct udp_address){.gid = *gid,
					.netdev = interface,
					.receive_fd = -1,
					.send_fd = -1,
					.segmentation = link->segmentation};
	if (IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *)gid))
		address->interface = interface ?: gid_interface(gid);
	error = udp_address_open_receiver(link, address);
	if (!error && link->receives_grh)
		error = udp_address_receive_grh(address);
	if (!error)
		error = udp_address_open_sender(address);
	if (error) {
		address_close(link, address);
		return error;
	}
	*opened = address;
	return 0;
}

static int watch_address(const struct udp_link *link, unsigned int index)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u32 = index};

	return sys_epoll_ctl(link->epoll_fd, EPOLL_CTL_ADD, link->addresses[index]->receive_fd,
			     &event) < 0
		       ? errno
		       : 0;
}

/*
 * With link->lock: @address is on @interface, and may have been elsewhere, or have failed to
 * follow. Unicasts of other than link-local addresses go by the routes.
 */
static void follow(struct udp_link *link, struct udp_address *address, unsigned int interface)
{
	const bool bound = address->interface && address->interface != interface;
	const bool moved = address->netdev && address->netdev != interface;
	int error = bound ? udp_address_rebind(address, interface) : 0;
	char text[INET6_ADDRSTRLEN];

	if (error)
		log_info("%s can't be used on another interface: %s",
			 gid_to_text(&address->gid, text), strerror(error));
	if (bound || moved) {
		udp_multicast_from(descriptor_number(&address->send_fd), &address->gid);
		udp_multicast_extend(link, &address->gid);
	}
	__atomic_store_n(&address->netdev, interface, __ATOMIC_RELAXED);
}

static int append_locked(struct udp_link *link, const union ibv_gid *gid, unsigned int interface)
{
	struct udp_address *known = udp_address_find(link, gid);
	unsigned int index = link->count;
	int error;

	if (known && interface)
		follow(link, known, interface);
	if (known)
		return 0;
	if (index == GID_TABLE_LENGTH)
		return ENOSPC;
	error = address_open(link, gid, interface, &link->addresses[index]);
	if (error)
		return error;

	/*
	 * A single socket is better read than polled, and an epoll set would slow its senders. The
	 * first one stays when this fails: so it is added last.
	 */
	if (index >= 1)
		error = watch_address(link, index);
	if (index == 1 && !error)
		error = watch_address(link, 0);
	if (error) {
		address_close(link, link->addresses[index]);
		return error;
	}
	atomic_store_explicit(&link->count, index + 1, memory_order_release);
	udp_multicast_extend(link, gid);
	udp_share_verify(link, link->addresses[index]);
	return 0;
}

static int udp_add_address(struct link *base, const union ibv_gid *gid, unsigned int interface)
{
	struct udp_link *link = (struct udp_link *)base;
	char text[INET6_ADDRSTRLEN];
	int error;

	pthread_mutex_lock(&link->lock);
	error = append_locked(link, gid, interface);
	pthread_mutex_unlock(&link->lock);
	if (error)
		log_debug("can't receive on [%s]:%d: %s", gid_to_text(gid, text), ROCE_V2_UDP_PORT,
			  strerror(error));
	return error;
}

/* --- The link ---------------------------------------------------------------------- */

static uint64_t udp_deadline(struct link *base)
{
	/* Packets are never kept. */
	return atomic_load_explicit(&((struct udp_link *)base)->share.due, memory_order_relaxed);
}

/* Beyond the send buffer the kernel refuses packets, which is as good as losing them. */
static uint32_t udp_sndbuf_space(struct link *base, const union ibv_gid *source)
{
	const struct udp_address *address = udp_address_find((struct udp_link *)base, source);
	int size, queued;
	socklen_t length = sizeof(size);

	if (!address || ioctl(descriptor_number(&address->send_fd), SIOCOUTQ, &queued) < 0 ||
	    getsockopt(descriptor_number(&address->send_fd), SOL_SOCKET, SO_SNDBUF, &size,
		       &length) < 0)
		return UINT32_MAX;
	return queued < size ? (size - queued) / BACKLOG_CHARGE : 0;
}

/* A link-local address is reached by the interface of that which is sent from. */
static unsigned int interface_from(struct udp_link *link, const union ibv_gid *source)
{
	const struct udp_address *address = udp_address_find(link, source);

	return address ? udp_address_interface(address) : 0;
}

static struct backlog_socket socket_of(struct udp_link *link, const struct path *path, uint32_t qpn)
{
	return (struct backlog_socket){
		.gid = &path->destination,
		.interface = interface_from(link, &path->source),
		.cookie = udp_share_cookie(link, &path->destination, qpn),
	};
}

static uint32_t udp_rcvbuf_space(struct link *base, const struct path *path, uint32_t qpn)
{
	struct udp_link *link = (struct udp_link *)base;
	struct backlog_socket socket;

	if (!link->backlog)
		return BACKLOG_UNKNOWN;
	socket = socket_of(link, path, qpn);
	return backlog_rcvbuf_space(link->backlog, &socket);
}

static uint32_t udp_unread(struct link *base, const struct path *path, uint32_t qpn, uint64_t *read)
{
	struct udp_link *link = (struct udp_link *)base;
	struct backlog_socket socket;

	*read = 0;
	if (!link->backlog)
		return 0;
	socket = socket_of(link, path, qpn);
	return backlog_unread(link->backlog, &socket, read);
}

/*
 * The kernel lets processes of one user only have an address's port 4791: so that user is
 * the node. A socket that was bound to no address may have sent as any, so it counts, too.
 */
static enum link_sender udp_sender(struct link *base, const struct link_frame *frame)
{
	struct udp_link *link = (struct udp_link *)base;
	unsigned int interface = interface_from(link, &frame->destination);
	struct sock_diag_socket node, sender;
	int error;

	if (!link->diag ||
	    sock_diag_find(link->diag, &frame->source, ROCE_V2_UDP_PORT, &frame->destination,
			   frame->source_port, interface, &node) ||
	    node.wildcard)
		return LINK_SENDER_UNKNOWN;
	error = sock_diag_find(link->diag, &frame->source, frame->source_port, &frame->destination,
			       ROCE_V2_UDP_PORT, interface, &sender);
	if (error)
		return error == ENOENT ? LINK_SENDER_GONE : LINK_SENDER_UNKNOWN;
	return sender.uid == node.uid ? LINK_SENDER_NODE : LINK_SENDER_FOREIGN;
}

static void udp_receive_grh(struct link *base)
{
	struct udp_link *link = (struct udp_link *)base;

	if (link->receives_grh)
		return;
	pthread_mutex_lock(&link->lock);
	for (unsigned int i = 0; i < link->count && !link->receives_grh; i++)
		udp_address_receive_grh(link->addresses[i]);
	link->receives_grh = true;
	pthread_mutex_unlock(&link->lock);
}

static unsigned int udp_descriptors(struct link *base, int *fds, unsigned int max)
{
	struct udp_link *link = (struct udp_link *)base;
	unsigned int count = udp_address_count(link), used = 0;
	int control_fd;

	if (count == 0 || max == 0 || link->link.lost)
		return 0;
	fds[used++] =
		descriptor_number(count == 1 ? &link->addresses[0]->receive_fd : &link->epoll_fd);
	control_fd = descriptor_number(&link->share.control_fd);
	if (control_fd >= 0 && used < max)
		fds[used++] = control_fd;
	return used + udp_multicast_descriptors(link, fds + used, max - used);
}

/*
 * No lock is taken, since the thread that held it isn't here, and nothing is
 * freed, since not every allocator allows that here; but it stays pointed to, or
 * LeakSanitizer would fail the child. sock_diag, which has a socket that only the
 * kernel talks to, is left alone.
 */
static void udp_after_fork_child(struct link *base)
{
	struct udp_link *link = (struct udp_link *)base;

	for (unsigned int i = 0; i < link->count; i++) {
		descriptor_close(link->addresses[i]->receive_fd,
				 &link->addresses[i]->receive_identity);
		descriptor_close(link->addresses[i]->send_fd, &link->addresses[i]->send_identity);
		link->addresses[i]->receive_fd = link->addresses[i]->send_fd = -1;
		udp_connections_after_fork_child(link->addresses[i]);
	}
	link->parents_backlog = link->backlog;
	link->parents_diag = link->diag;
	link->backlog = NULL;
	link->diag = NULL;
	udp_multicast_after_fork_child(link);
	udp_share_after_fork_child(link);
	descriptor_close(link->epoll_fd, &link->epoll_identity);
	link->epoll_fd = -1;
}

/* --- descriptors that the application closes ---------------------------------------- */

static bool address_verify(struct udp_address *address)
{
	bool intact = descriptor_verify(&address->receive_fd, &address->receive_identity);

	intact &= descriptor_verify(&address->send_fd, &address->send_identity);
	return intact & udp_connections_verify(address);
}

/* All of them: those that are the application's now mustn't be used. */
static bool verify_all(struct udp_link *link)
{
	unsigned int count = udp_address_count(link);
	bool intact = descriptor_verify(&link->epoll_fd, &link->epoll_identity);

	for (unsigned int i = 0; i < count; i++)
		intact &= address_verify(link->addresses[i]);
	intact &= udp_multicast_verify(link);
	intact &= udp_share_verify_descriptors(&link->share);
	if (link->diag)
		intact &= sock_diag_verify(link->diag);
	return intact;
}

void udp_verify(struct udp_link *link, uint64_t now)
{
	atomic_store_explicit(&link->verified, now, memory_order_relaxed);
	if (!verify_all(link))
		atomic_store(&link->link.lost, true);
}

struct roster *udp_link_roster(const struct link *base)
{
	return ((const struct udp_link *)base)->share.roster;
}

uint16_t udp_link_source_port(struct link *base, const union ibv_gid *gid)
{
	const struct udp_address *address = udp_address_find((struct udp_link *)base, gid);

	return address ? address->source_port : 0;
}

bool udp_link_wake(struct link *base, uint32_t member)
{
	return udp_wake(&((struct udp_link *)base)->share, member);
}

static void udp_close(struct link *base)
{
	struct udp_link *link = (struct udp_link *)base;

	verify_all(link);
	if (link->refused)
		log_info("the kernel refused to send %llu packets",
			 (unsigned long long)link->refused);
	udp_share_leave(link);
	for (unsigned int i = 0; i < link->count; i++)
		address_close(link, link->addresses[i]);
	udp_multicast_destroy(link);
	backlog_destroy(link->backlog);
	sock_diag_destroy(link->diag);
	sys_close(link->epoll_fd);
	pthread_mutex_destroy(&link->lock);
	pthread_mutex_destroy(&link->peers_lock);
	pool_destroy(&link->batches);
	free(link->receive.arena);
	free(link);
}

static const struct link_ops udp_ops = {
	.send = udp_send,
	.receive = udp_receive,
	.deadline = udp_deadline,
	.rcvbuf_space = udp_rcvbuf_space,
	.unread = udp_unread,
	.describe_peer = udp_describe_peer,
	.sndbuf_space = udp_sndbuf_space,
	.add_address = udp_add_address,
	.join = udp_join,
	.leave = udp_leave,
	.receive_grh = udp_receive_grh,
	.sender = udp_sender,
	.descriptors = udp_descriptors,
	.capture = udp_capture,
	.after_fork_child = udp_after_fork_child,
	.close = udp_close,
};

int udp_link_create(const struct udp_options *options, struct link **created)
{
	struct udp_link *link = calloc(1, sizeof(*link));
	int error = ENOMEM;

	if (!link)
		return ENOMEM;
	link->link.ops = &udp_ops;
	link->link.capture = options->capture;
	link->receive_buffer = options->receive_buffer;
	link->segmentation = options->segmentation;
	link->receives_grh = options->capture;
	link->receive.arena = malloc(RECEIVE_ARENA);
	if (!link->receive.arena)
		goto free_link;
	error = pool_reserve(&link->batches, sizeof(struct batch));
	if (error)
		goto free_arena;
	/* NULL is fine where there is none: then nothing is paced, and no sender is looked at. */
	error = sock_diag_create(&link->diag);
	if (descriptor_is_exhaustion(error))
		goto free_batches;
	link->epoll_fd = sys_epoll_create(EPOLL_CLOEXEC);
	if (link->epoll_fd < 0) {
		error = errno;
		goto free_diag;
	}
	link->epoll_identity = descriptor_identify(link->epoll_fd);
	pthread_mutex_init(&link->lock, NULL);
	pthread_mutex_init(&link->peers_lock, NULL);
	udp_multicast_init(link);
	udp_share_init(link);
	link->backlog = link->diag ? backlog_create(link->diag) : NULL;
	*created = &link->link;
	return 0;

free_diag:
	sock_diag_destroy(link->diag);
free_batches:
	pool_destroy(&link->batches);
free_arena:
	free(link->receive.arena);
free_link:
	free(link);
	return error;
}
