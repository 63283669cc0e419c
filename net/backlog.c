/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/backlog.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/gid.h"
#include "net/wire.h"

struct backlog {
	pthread_mutex_t lock; /* the socket: a request and its answer belong together */
	int fd;
	uint32_t sequence;
};

struct request {
	struct nlmsghdr header;
	struct inet_diag_req_v2 body;
};

struct backlog *backlog_create(void)
{
	struct backlog *backlog = calloc(1, sizeof(*backlog));

	if (!backlog)
		return NULL;
	backlog->fd =
		socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG);
	if (backlog->fd < 0) {
		free(backlog);
		return NULL;
	}
	pthread_mutex_init(&backlog->lock, NULL);
	return backlog;
}

void backlog_destroy(struct backlog *backlog)
{
	if (!backlog)
		return;
	close(backlog->fd);
	pthread_mutex_destroy(&backlog->lock);
	free(backlog);
}

static void set_address(__be32 *address, const union ibv_gid *gid)
{
	if (gid_is_ipv4(gid))
		memcpy(address, gid->raw + 12, 4);
	else
		memcpy(address, gid->raw, 16);
}

/*
 * Look up one socket as if a packet arrived for it: the kernel takes the socket's
 * own address as the destination here, other than in inet_diag for TCP.
 */
static void make_request(struct request *request, const union ibv_gid *gid, uint32_t sequence)
{
	*request = (struct request){
		.header = {.nlmsg_len = sizeof(*request),
			   .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			   .nlmsg_flags = NLM_F_REQUEST,
			   .nlmsg_seq = sequence},
		.body = {.sdiag_family = gid_is_ipv4(gid) ? AF_INET : AF_INET6,
			 .sdiag_protocol = IPPROTO_UDP,
			 .idiag_ext = 1 << (INET_DIAG_SKMEMINFO - 1),
			 .idiag_states = UINT32_MAX,
			 .id = {.idiag_dport = htobe16(ROCE_V2_UDP_PORT),
				.idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}},
	};
	set_address(request->body.id.idiag_dst, gid);
}

/* What is left of the receive buffer, in the kernel's accounting. */
static uint32_t parse_answer(const struct nlmsghdr *header, const union ibv_gid *gid)
{
	const struct inet_diag_msg *body = NLMSG_DATA(header);
	const struct rtattr *attribute = (const struct rtattr *)(body + 1);
	int left = header->nlmsg_len - NLMSG_LENGTH(sizeof(*body));
	__be32 address[4] = {};

	set_address(address, gid);
	if (memcmp(body->id.idiag_src, address, gid_is_ipv4(gid) ? 4 : 16) != 0)
		return BACKLOG_UNKNOWN; /* somebody's wildcard socket */

	for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left)) {
		const uint32_t *memory = RTA_DATA(attribute);

		if (attribute->rta_type != INET_DIAG_SKMEMINFO ||
		    RTA_PAYLOAD(attribute) < (SK_MEMINFO_RCVBUF + 1) * sizeof(*memory))
			continue;
		if (memory[SK_MEMINFO_RMEM_ALLOC] >= memory[SK_MEMINFO_RCVBUF])
			return 0;
		return memory[SK_MEMINFO_RCVBUF] - memory[SK_MEMINFO_RMEM_ALLOC];
	}
	return BACKLOG_UNKNOWN;
}

/* The kernel answers within our send(), so there is never anything to wait for. */
static uint32_t ask(struct backlog *backlog, const union ibv_gid *gid)
{
	uint8_t answer[1024] __attribute__((aligned(NLMSG_ALIGNTO)));
	const struct nlmsghdr *header = (const struct nlmsghdr *)answer;
	struct request request;

	make_request(&request, gid, ++backlog->sequence);
	if (send(backlog->fd, &request, sizeof(request), 0) < 0)
		return BACKLOG_UNKNOWN;
	for (;;) {
		ssize_t length = recv(backlog->fd, answer, sizeof(answer), MSG_DONTWAIT);

		if (length < 0 || !NLMSG_OK(header, length))
			return BACKLOG_UNKNOWN;
		if (header->nlmsg_seq != backlog->sequence)
			continue;
		if (header->nlmsg_type != SOCK_DIAG_BY_FAMILY ||
		    header->nlmsg_len < NLMSG_LENGTH(sizeof(struct inet_diag_msg)))
			return BACKLOG_UNKNOWN;
		return parse_answer(header, gid);
	}
}

uint32_t backlog_room(struct backlog *backlog, const union ibv_gid *gid)
{
	uint32_t room;

	pthread_mutex_lock(&backlog->lock);
	room = ask(backlog, gid);
	pthread_mutex_unlock(&backlog->lock);
	return room == BACKLOG_UNKNOWN ? room : room / BACKLOG_CHARGE;
}
