/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Letters between those who share an address: frames that came to the wrong one,
 * and requests to write the program. Each link takes them at its door, a UDP port
 * of the loopback device, where nobody but this machine's processes can knock; who
 * doesn't know the roster's secret isn't heard.
 *
 * Letters are taken by the one caller of receive(), and posted by anybody.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "net/tuning.h"
#include "net/udp/udp_link.h"

#define FORWARDS_MAX 3
#define DOOR_BUFFER (4 << 20)
#define LETTER_MAX (WIRE_PACKET_MAX + 256)

enum letter_kind { LETTER_FRAME, LETTER_STEER };

/* What a frame was received with; the frame follows. */
struct letter {
	struct steer_signal secret;
	uint8_t kind, traffic_class, hop_limit, forwards;
	uint16_t source_port;
	int32_t ip_id;
	union ibv_gid source, destination;
};

bool udp_is_secret(const struct udp_share *share, const void *data, uint32_t length)
{
	struct steer_signal good, signal;

	if (length < sizeof(signal))
		return false;
	memcpy(&signal, data, sizeof(signal));
	steer_fill(&good, roster_secret(share->roster), 0);
	return memcmp(&good, &signal, offsetof(struct steer_signal, index)) == 0;
}

/* --- out ---------------------------------------------------------------------- */

/* System calls by number aren't cancellation points: the caller may hold locks. */
static void post_letter(const struct udp_share *share, uint16_t door, struct letter *letter,
			const struct link_frame *frame)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons(door),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	struct iovec vectors[] = {
		{letter, sizeof(*letter)},
		{frame ? (void *)frame->data : NULL, frame ? frame->length : 0},
	};
	struct msghdr message = {
		.msg_name = &address,
		.msg_namelen = sizeof(address),
		.msg_iov = vectors,
		.msg_iovlen = 2,
	};

	steer_fill(&letter->secret, roster_secret(share->roster), 0);
	/* A refusal may be an earlier letter's, whose addressee was gone. */
	if (syscall(SYS_sendmsg, share->door_fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 &&
	    errno == ECONNREFUSED)
		syscall(SYS_sendmsg, share->door_fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void udp_forward_to(const struct udp_share *share, const struct link_frame *frame, uint32_t member)
{
	uint16_t door = roster_door(share->roster, member);
	struct letter letter = {
		.kind = LETTER_FRAME,
		.traffic_class = frame->traffic_class,
		.hop_limit = frame->hop_limit,
		.forwards = frame->forwards + 1,
		.source_port = frame->source_port,
		.ip_id = frame->ip_id,
		.source = frame->source,
		.destination = frame->destination,
	};

	if (!door)
		return;
	post_letter(share, door, &letter, frame);
	roster_announce(share->roster, member);
}

void udp_ask_to_steer(const struct udp_share *share, uint32_t member, const union ibv_gid *gid)
{
	uint16_t door = roster_door(share->roster, member);
	struct letter letter = {.kind = LETTER_STEER, .destination = *gid};

	if (!door)
		return;
	post_letter(share, door, &letter, NULL);
	roster_announce(share->roster, member);
}

bool udp_forward(struct link *base, const struct link_frame *frame, uint32_t slot)
{
	const struct udp_share *share = &((struct udp_link *)base)->share;
	uint32_t owner = share->roster ? roster_owner(share->roster, slot) : 0;

	if (!owner || owner == roster_self(share->roster) || frame->forwards >= FORWARDS_MAX)
		return false;
	udp_forward_to(share, frame, owner);
	return true;
}

/* --- in ------------------------------------------------------------------------------------ */

void udp_open_door(struct udp_share *share)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(address);
	int size = DOOR_BUFFER;

	share->door_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (share->door_fd < 0)
		return;
	if (setsockopt(share->door_fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) < 0)
		setsockopt(share->door_fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	if (bind(share->door_fd, (struct sockaddr *)&address, length) == 0 &&
	    getsockname(share->door_fd, (struct sockaddr *)&address, &length) == 0)
		roster_set_door(share->roster, ntohs(address.sin_port));
}

/* One letter, with a frame to be delivered or without. Returns false when there is none. */
static bool take_letter(struct udp_link *link, struct link_frame *frame, bool *delivered)
{
	struct udp_share *share = &link->share;
	uint8_t *data = link->receive.arena + link->receive.used;
	ssize_t length =
		syscall(SYS_recvfrom, share->door_fd, data, LETTER_MAX, MSG_DONTWAIT, NULL, NULL);
	struct letter letter;

	*delivered = false;
	if (length < 0)
		return errno == ECONNREFUSED; /* of one that we sent */
	if ((size_t)length < sizeof(letter) || !udp_is_secret(share, data, length))
		return true;
	memcpy(&letter, data, sizeof(letter));
	if (letter.kind == LETTER_STEER) {
		udp_share_resteer(link, udp_address_find(link, &letter.destination));
		return true;
	}
	*frame = (struct link_frame){
		.data = data + sizeof(letter),
		.length = length - sizeof(letter),
		.ip_id = letter.ip_id,
		.source = letter.source,
		.destination = letter.destination,
		.source_port = letter.source_port,
		.traffic_class = letter.traffic_class,
		.hop_limit = letter.hop_limit,
		.forwards = letter.forwards,
	};
	if (udp_share_passes(link, frame, false)) {
		*delivered = true;
		link->receive.used += (length + 63) & ~63u;
		if (link->capture)
			capture_received(link->capture, frame);
	}
	return true;
}

unsigned int udp_share_receive(struct udp_link *link, struct link_frame *frames, unsigned int max)
{
	struct udp_share *share = &link->share;
	uint32_t announced;
	unsigned int count = 0;
	bool delivered;

	if (!share->roster)
		return 0;
	if (__atomic_load_n(&share->due, __ATOMIC_RELAXED) != TIME_NEVER)
		udp_share_repair(link);
	/* An announcement may be late, or its author dead: now and then the door itself is asked.
	 */
	announced = roster_announced(share->roster);
	if (announced == share->announced && ++share->rounds < SHARE_DOOR_ROUNDS)
		return 0;
	share->rounds = 0;
	while (count < max && link->receive.used + LETTER_MAX <= RECEIVE_ARENA) {
		if (!take_letter(link, &frames[count], &delivered)) {
			share->announced = announced;
			break;
		}
		count += delivered;
	}
	return count;
}
