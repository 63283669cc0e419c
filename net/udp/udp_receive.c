/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receiving. With UDP_GRO the kernel hands over what a sender put into one
 * super-packet as one datagram of equal segments (the last may be shorter):
 * a fifth of the cost of receiving them one by one. Of a stream several are read
 * with one call. Called by the core, one thread at a time.
 */
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#include "net/cache_line.h"
#include "net/syscalls.h"
#include "net/udp/udp_link.h"
#include "net/wire/icrc.h"

#define STREAK 3      /* calls that find something before we believe in a stream */
#define READ_AHEAD 16 /* reads from one socket when streaming, of several datagrams each */
/* A datagram up to this length is moved, so that there is space for more behind it. */
#define RECEIVE_MOVED (RECEIVE_SPACE / 8)

/*
 * With its identification, which follows from the ICRC: others than the expected one are captured.
 */
static void capture_frame(struct udp_link *link, struct link_frame *frame)
{
	int32_t expected = frame->ip_id;

	icrc_check(frame);
	capture_received(link->link.capture, frame);
	frame->ip_id = expected;
}

/* Cut frames off a super-packet. Returns how many. */
static unsigned int cut(struct udp_link *link, struct udp_split *split, struct link_frame *frames,
			unsigned int max)
{
	unsigned int count = 0;

	while (split->left && count < max) {
		struct link_frame *frame = &frames[count++];

		*frame = split->frame;
		frame->data = split->data;
		frame->length =
			split->left < split->segment_length ? split->left : split->segment_length;
		split->data += frame->length;
		split->left -= frame->length;
		if (frame->ip_id != IP_ID_UNKNOWN)
			frame->ip_id = split->index++; /* segmentation numbers what it makes */
		if (!udp_share_passes(&link->share, frame, !split->begun))
			count--;
		else if (link->link.capture)
			capture_frame(link, frame);
		split->begun = true;
	}
	return count;
}

unsigned int udp_receive_rest(struct udp_link *link, struct link_frame *frames, unsigned int max)
{
	struct udp_receive *receive = &link->receive;
	unsigned int count = 0;

	while (receive->next < receive->count && count < max) {
		struct udp_split *split = &receive->splits[receive->next];

		count += cut(link, split, frames + count, max - count);
		receive->next += split->left == 0;
	}
	return count;
}

static void parse_control(struct udp_split *split, struct msghdr *message)
{
	struct cmsghdr *control;

	for (control = CMSG_FIRSTHDR(message); control; control = CMSG_NXTHDR(message, control)) {
		const void *data = CMSG_DATA(control);
		int value = 0;

		/* IP_TOS comes as one byte, all others as an int. */
		if (control->cmsg_len >= CMSG_LEN(sizeof(value)))
			memcpy(&value, data, sizeof(value));
		else if (control->cmsg_len >= CMSG_LEN(1))
			value = *(const uint8_t *)data;

		if (control->cmsg_level == IPPROTO_UDP && control->cmsg_type == UDP_GRO)
			split->segment_length = value;
		else if ((control->cmsg_level == IPPROTO_IP && control->cmsg_type == IP_TOS) ||
			 (control->cmsg_level == IPPROTO_IPV6 && control->cmsg_type == IPV6_TCLASS))
			split->frame.traffic_class = value;
		/* With the traffic class before it. */
		else if (control->cmsg_level == IPPROTO_IPV6 && control->cmsg_type == IPV6_FLOWINFO)
			split->frame.flow_label = be32toh(value) & FLOW_LABEL_MASK;
		else if ((control->cmsg_level == IPPROTO_IP && control->cmsg_type == IP_TTL) ||
			 (control->cmsg_level == IPPROTO_IPV6 &&
			  control->cmsg_type == IPV6_HOPLIMIT))
			split->frame.hop_limit = value;
		else if (control->cmsg_level == IPPROTO_IP && control->cmsg_type == IP_PKTINFO)
			split->frame.interface = ((const struct in_pktinfo *)data)->ipi_ifindex;
		else if (control->cmsg_level == IPPROTO_IPV6 && control->cmsg_type == IPV6_PKTINFO)
			split->frame.interface = ((const struct in6_pktinfo *)data)->ipi6_ifindex;
	}
}

/* A datagram as the kernel gives it, with the space that it may need. */
struct received {
	union {
		struct sockaddr any;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	} source;
	struct iovec vector;
	uint8_t control[4 * CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(struct in6_pktinfo))]
		__attribute__((aligned(__alignof__(struct cmsghdr))));
};

static int read_messages(int fd, struct mmsghdr *messages, unsigned int count)
{
	ssize_t length;

	if (count > 1)
		return sys_recvmmsg(fd, messages, count, MSG_DONTWAIT);
	length = sys_recvmsg(fd, &messages->msg_hdr, MSG_DONTWAIT);
	messages->msg_len = length;
	return length < 0 ? -1 : 1;
}

/* Its bytes are where the next one is to begin, or brought there if they are few. */
static void add_split(struct udp_receive *receive, const struct udp_address *address,
		      struct msghdr *message, const struct received *received, uint32_t length)
{
	bool ipv4 = received->source.any.sa_family == AF_INET;
	uint8_t *data = received->vector.iov_base, *to = receive->arena + receive->used;
	struct udp_split *split = &receive->splits[receive->count];

	if (data != to && length <= RECEIVE_MOVED)
		data = memmove(to, data, length);
	*split = (struct udp_split){
		.frame = {.ip_id = ipv4 ? 0 : IP_ID_UNKNOWN,
			  .destination = address->gid,
			  .source_port = ntohs(ipv4 ? received->source.in.sin_port
						    : received->source.in6.sin6_port)},
		.data = data,
		.left = length,
		.segment_length = length,
	};
	gid_from_sockaddr(&split->frame.source, &received->source.any);
	parse_control(split, message);
	if (address->group && !ipv4 && !udp_group_is_on(address->group, split->frame.interface))
		return;
	receive->count++;
	if (split->segment_length == 0)
		split->segment_length = length;
	receive->used = data + cache_line_end(length) - receive->arena;
}

/* Up to @most datagrams, to be cut. Returns how many there were. */
static unsigned int receive_datagrams(struct udp_link *link, const struct udp_address *address,
				      unsigned int most)
{
	struct udp_receive *receive = &link->receive;
	struct received received[RECEIVE_DATAGRAMS];
	struct mmsghdr messages[RECEIVE_DATAGRAMS];
	uint8_t *data = receive->arena + receive->used;
	int count;

	for (unsigned int i = 0; i < most; i++, data += RECEIVE_SPACE) {
		received[i].vector = (struct iovec){data, RECEIVE_SPACE};
		messages[i].msg_hdr = (struct msghdr){
			.msg_name = &received[i].source,
			.msg_namelen = sizeof(received[i].source),
			.msg_iov = &received[i].vector,
			.msg_iovlen = 1,
			.msg_control = received[i].control,
			.msg_controllen = sizeof(received[i].control),
		};
	}
	count = read_messages(descriptor_number(&address->receive_fd), messages, most);
	receive->next = receive->count = 0;
	for (int i = 0; i < count; i++) {
		/* An empty one precedes the packets of a new connection: learn_id() */
		if (messages[i].msg_len)
			add_split(receive, address, &messages[i].msg_hdr, &received[i],
				  messages[i].msg_len);
	}
	return count < 0 ? 0 : count;
}

/* How many the arena has space for. */
static unsigned int arena_left(const struct udp_receive *receive)
{
	return (RECEIVE_ARENA - receive->used) / RECEIVE_SPACE;
}

/*
 * A read that finds nothing costs half of one that finds something, so when
 * packets come one at a time (ping-pong) it stops after the first. In a stream it asks for
 * several at once, and that it gets fewer says that there are no more.
 */
unsigned int udp_receive_from(struct udp_link *link, const struct udp_address *address,
			      struct link_frame *frames, unsigned int max)
{
	struct udp_receive *receive = &link->receive;
	bool stream = receive->streak >= STREAK;
	unsigned int count = 0, calls = READ_AHEAD, left;

	while (calls-- && count < max && (left = arena_left(receive)) > 0) {
		unsigned int most = stream ? left : 1;
		unsigned int read = receive_datagrams(link, address, most);

		if (receive->count)
			count += udp_receive_rest(link, frames + count, max - count);
		if (read < most || (!stream && receive->count))
			return count;
	}
	link->link.more = true;
	return count;
}

bool udp_ready(int epoll_fd, struct epoll_event *event)
{
	return sys_epoll_look(epoll_fd, event, 1) == 1;
}

/*
 * One event a call: the kernel moves what it reported to the end of its list, so
 * that all sockets get their turn even if each fills @frames.
 */
static unsigned int receive_from_ready(struct udp_link *link, struct link_frame *frames,
				       unsigned int max)
{
	unsigned int sockets = link->receive.streak >= STREAK ? FAIR_ROUNDS : 1;
	unsigned int count = 0;
	struct epoll_event event;

	link->receive.rounds = 0;
	while (sockets-- && count < max && udp_ready(descriptor_number(&link->epoll_fd), &event) &&
	       event.data.u32 < udp_address_count(link)) {
		unsigned int got = udp_receive_from(link, link->addresses[event.data.u32],
						    frames + count, max - count);

		if (got)
			link->receive.recent = event.data.u32;
		count += got;
	}
	return count;
}

/*
 * The socket that delivered last is the likeliest to deliver next: it is read
 * first, and the other sockets are asked when it has nothing, and after FAIR_ROUNDS.
 */
static unsigned int receive_from_all(struct udp_link *link, unsigned int addresses,
				     struct link_frame *frames, unsigned int max)
{
	struct udp_receive *receive = &link->receive;
	unsigned int count = 0;

	if (addresses == 1 || ++receive->rounds < FAIR_ROUNDS)
		count = udp_receive_from(link, link->addresses[receive->recent], frames, max);
	if (addresses > 1 && count == 0)
		count = receive_from_ready(link, frames, max);
	return count;
}

unsigned int udp_receive(struct link *base, struct link_frame *frames, unsigned int max,
			 uint64_t now)
{
	struct udp_link *link = (struct udp_link *)base;
	struct udp_receive *receive = &link->receive;
	unsigned int addresses = udp_address_count(link);
	bool groups = udp_has_groups(link);
	unsigned int count = 0;

	base->more = false;
	if (!udp_is_intact(link, now))
		return 0;
	/* What is left of the last super-packets keeps its place in the arena. */
	if (receive->next < receive->count) {
		count = udp_receive_rest(link, frames, max);
		receive->rounds++;
	} else {
		receive->used = 0;
	}
	if (count < max)
		count += udp_share_receive(link, frames + count, max - count, now);
	if (groups && count < max)
		count += udp_multicast_receive(link, frames + count, max - count, false);
	if (addresses && count < max)
		count += receive_from_all(link, addresses, frames + count, max - count);
	if (groups && count == 0)
		count = udp_multicast_receive(link, frames, max, true);

	if (count && base->capture)
		capture_flush(base->capture);
	receive->streak = count ? receive->streak + 1 : 0;
	return count;
}
