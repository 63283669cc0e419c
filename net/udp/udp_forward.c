/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Forwarded datagrams between the members of a roster: frames that came to the wrong
 * member, and requests to write the program. Each member takes them at its control socket,
 * a UDP port of the loopback device, where only processes of this machine can send.
 * Datagrams without its own token (net/share/roster.h) are dropped.
 *
 * The one caller of receive() takes forwarded datagrams; any thread may send them.
 */
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "net/cache_line.h"
#include "net/log.h"
#include "net/syscalls.h"
#include "net/tuning.h"
#include "net/udp/udp_link.h"

#define FORWARDS_MAX 3
#define CONTROL_BUFFER (4 << 20)
#define FORWARD_MAX (WIRE_PACKET_MAX + 256)
/*
 * Any user may send to a control socket as fast as it is read. So many datagrams are read at a
 * time; and as the last thing not more than there may be, by what the kernel charges the buffer
 * for the smallest (its sk_buff and skb_shared_info).
 */
#define READS_MOST 64
#define LAST_READS_MOST (2 * CONTROL_BUFFER / 512)

enum forward_kind { FORWARD_FRAME, FORWARD_STEER, FORWARD_MESSAGE, FORWARD_WAKE, FORWARD_NOTHING };

/*
 * What a frame was received with; the frame follows. Another user may get it, so nothing of the
 * stack is in gaps.
 */
struct forward_header {
	uint64_t token; /* the receiver's */
	uint8_t kind, traffic_class, hop_limit, forwards;
	int32_t ip_id;
	union ibv_gid source, destination;
	uint16_t source_port, reserved;
	uint32_t flow_label;
};

/* --- out ---------------------------------------------------------------------- */

/* System calls by number aren't cancellation points: the caller may hold locks. 0 or an errno. */
static int send_forward(const struct udp_share *share, uint16_t port,
			const struct forward_header *header, const struct link_frame *frame)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	struct iovec vectors[] = {
		{(void *)header, sizeof(*header)},
		{frame ? (void *)frame->data : NULL, frame ? frame->length : 0},
	};
	struct msghdr message = {
		.msg_name = &address,
		.msg_namelen = sizeof(address),
		.msg_iov = vectors,
		.msg_iovlen = 2,
	};

	return sys_sendmsg(descriptor_number(&share->control_fd), &message,
			   MSG_DONTWAIT | MSG_NOSIGNAL) < 0
		       ? errno
		       : 0;
}

/* With @frame or without (NULL). 0 or an errno: ENOTCONN for a member without a control socket. */
static int send_to_member(struct udp_share *share, uint32_t member, struct forward_header *header,
			  const struct link_frame *frame)
{
	uint16_t port;
	int error;

	header->token = roster_token(share->roster, member);
	port = roster_control_port(share->roster, member);
	error = port ? send_forward(share, port, header, frame) : ENOTCONN;
	if (!error)
		roster_notify(share->roster, member);
	if (error == ENETUNREACH && !atomic_exchange(&share->unreachable, true))
		log_warn("the loopback device is down, or has no 127.0.0.1: packets can't be "
			 "handed on to the processes that share our addresses, nor these be woken");
	return error;
}

/*
 * The member had it, or may have it when it is sent again: any datagram may be lost. Else none
 * comes: there is no control socket, ours or the member's, or the loopback device is down.
 */
static bool can_come(int error)
{
	return !error || error == EAGAIN || error == ENOBUFS || error == ENOMEM;
}

bool udp_forward_to(struct udp_share *share, const struct link_frame *frame, uint32_t member)
{
	struct forward_header header = {
		.kind = FORWARD_FRAME,
		.traffic_class = frame->traffic_class,
		.hop_limit = frame->hop_limit,
		.forwards = frame->forwards + 1,
		.source_port = frame->source_port,
		.flow_label = frame->flow_label,
		.ip_id = frame->ip_id,
		.source = frame->source,
		.destination = frame->destination,
	};

	/* It may be for a UD QP, which this process needn't have. */
	link_receive_grh(&share->link->link);
	/* The port of a dead member may be any user's by now: that one would read the frame. */
	return frame->forwards < FORWARDS_MAX && roster_is_alive(share->roster, member) &&
	       can_come(send_to_member(share, member, &header, frame));
}

void udp_ask_to_steer(struct udp_share *share, uint32_t member, const union ibv_gid *gid)
{
	struct forward_header header = {.kind = FORWARD_STEER, .destination = *gid};

	send_to_member(share, member, &header, NULL);
}

bool udp_wake(struct udp_share *share, uint32_t member)
{
	struct forward_header header = {.kind = FORWARD_WAKE};

	return send_to_member(share, member, &header, NULL) == 0;
}

/*
 * IBA 12.6.7.2: a peer that gives up on its request needn't have got a comm id of ours. Only the
 * process that has the request knows it, by the peer's own; so all get the REJ, which none of them
 * forwards again.
 */
static bool forward_to_all(struct udp_share *share, const struct link_frame *frame)
{
	uint32_t place = 0, member;
	bool forwarded = false;

	if (frame->forwards || !steer_target(frame->data, frame->length).by_sender)
		return false;
	while ((member = roster_next_neighbour(share->roster, &frame->destination, &place)))
		forwarded |= udp_forward_to(share, frame, member);
	return forwarded;
}

bool udp_forward(struct share *base, const struct link_frame *frame)
{
	struct udp_share *share = (struct udp_share *)base;
	uint32_t owner;

	if (!share->roster)
		return false;
	owner = udp_share_owner(share, frame);
	if (!owner)
		return forward_to_all(share, frame);
	return owner != roster_self(share->roster) && udp_forward_to(share, frame, owner);
}

bool udp_send_message(struct share *base, uint32_t qpn, const void *data, uint32_t length)
{
	struct udp_share *share = (struct udp_share *)base;
	struct roster *roster = share->roster;
	uint32_t owner = roster ? roster_owner(roster, slot_of_qpn(qpn)) : 0;
	struct forward_header header = {.kind = FORWARD_MESSAGE};
	const struct link_frame frame = {.data = data, .length = length};

	return owner && owner != roster_self(roster) && roster_is_alive(roster, owner) &&
	       can_come(send_to_member(share, owner, &header, &frame));
}

/* --- in ------------------------------------------------------------------------------------ */

int udp_open_control_socket(struct udp_share *share)
{
	int fd = sys_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error;
	int size = CONTROL_BUFFER;
	uint16_t port = 0;

	if (fd < 0)
		return errno;
	error = udp_bind_free_port(fd, INADDR_LOOPBACK, &port);
	if (error) {
		sys_close(fd);
		return error;
	}
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) < 0)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	share->control_identity = descriptor_identify(fd);
	share->control_fd = fd;
	roster_set_control_port(share->roster, port);
	return 0;
}

/*
 * One forwarded datagram, into the arena. Returns false when there is none. @header is of
 * FORWARD_NOTHING if the datagram wasn't a member's.
 */
static bool read_forward(struct udp_link *link, struct forward_header *header,
			 struct link_frame *frame)
{
	struct udp_share *share = &link->share;
	uint8_t *data = link->receive.arena + link->receive.used;
	ssize_t length =
		sys_recv(descriptor_number(&share->control_fd), data, FORWARD_MAX, MSG_DONTWAIT);

	header->kind = FORWARD_NOTHING;
	if (length < 0)
		return false;
	if ((size_t)length < sizeof(*header))
		return true;
	memcpy(header, data, sizeof(*header));
	if (header->token != roster_own_token(share->roster)) {
		header->kind = FORWARD_NOTHING;
		return true;
	}
	*frame = (struct link_frame){
		.data = data + sizeof(*header),
		.length = length - sizeof(*header),
		.ip_id = header->ip_id,
		.source = header->source,
		.destination = header->destination,
		.source_port = header->source_port,
		.flow_label = header->flow_label,
		.traffic_class = header->traffic_class,
		.hop_limit = header->hop_limit,
		.forwards = header->forwards,
		.message = header->kind == FORWARD_MESSAGE,
	};
	return true;
}

/* Whether a forwarded datagram has a frame to be delivered; otherwise it was taken care of. */
static bool take_forward(struct udp_link *link, const struct forward_header *header,
			 struct link_frame *frame)
{
	switch ((enum forward_kind)header->kind) {
	case FORWARD_STEER:
		udp_share_resteer(link, udp_address_find(link, &header->destination));
		return false;
	case FORWARD_WAKE:
		atomic_store(&link->share.share.woken, true);
		return false;
	case FORWARD_MESSAGE:
		return true;
	case FORWARD_FRAME:
		if (!udp_share_passes(&link->share, frame, false))
			return false;
		if (link->link.capture)
			capture_received(link->link.capture, frame);
		return true;
	case FORWARD_NOTHING:
		break;
	}
	return false;
}

unsigned int udp_share_receive(struct udp_link *link, struct link_frame *frames, unsigned int max,
			       uint64_t now)
{
	struct udp_share *share = &link->share;
	uint32_t notifications;
	unsigned int count = 0;
	struct forward_header header;

	if (!share->roster)
		return 0;
	if (atomic_load_explicit(&share->due, memory_order_relaxed) != TIME_NEVER)
		udp_share_repair(link);
	/*
	 * The sender may not have notified yet, or have been killed before it could: now and
	 * then the socket is read without a notification.
	 */
	notifications = roster_notifications(share->roster);
	if (notifications == share->notifications && now - share->looked < SHARE_CONTROL_LOOK)
		return 0;
	share->looked = now;
	for (unsigned int reads = 0; count < max && reads < READS_MOST; reads++) {
		struct link_frame *frame = &frames[count];

		if (link->receive.used + FORWARD_MAX > RECEIVE_ARENA)
			break;
		if (!read_forward(link, &header, frame)) {
			share->notifications = notifications;
			break;
		}
		if (!take_forward(link, &header, frame))
			continue;
		link->receive.used += cache_line_end(sizeof(header) + frame->length);
		count++;
	}
	return count;
}

void udp_share_hand_on(struct udp_share *share, const struct link_frame *frame)
{
	uint32_t neighbour = roster_neighbour(share->roster, &frame->destination);

	if (neighbour && frame->length >= sizeof(struct bth) && udp_share_slot(frame) == 0)
		udp_forward_to(share, frame, neighbour);
}

void udp_share_hand_on_forwards(struct udp_link *link)
{
	struct forward_header header;
	struct link_frame frame;

	link->receive.used = 0;
	for (unsigned int i = 0; i < LAST_READS_MOST && read_forward(link, &header, &frame); i++) {
		if (header.kind == FORWARD_FRAME && udp_share_passes(&link->share, &frame, false))
			udp_share_hand_on(&link->share, &frame);
	}
}
