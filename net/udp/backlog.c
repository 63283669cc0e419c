/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/udp/backlog.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/syscalls.h"
#include "net/tuning.h"
#include "net/wire/gid.h"
#include "net/wire/wire.h"

/*
 * Among sockets that share a port the kernel looks one up by a hash of the remote
 * address and port: one port or another leads to the socket in question, and does so
 * until one comes or goes.
 */
#define CACHE 64
#define TRIES 256

struct cached {
	uint64_t cookie;
	uint16_t port;
};

struct backlog {
	pthread_mutex_t lock; /* the rest: a request and its answer belong together */
	int fd;
	uint32_t sequence;
	struct cached cache[CACHE];
	uint8_t answer[1024] __attribute__((aligned(NLMSG_ALIGNTO)));
};

struct found {
	uint64_t cookie;
	uint32_t space, used; /* in the kernel's accounting */
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

static void set_socket_address(__be32 *address, const union ibv_gid *gid)
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
static void make_request(struct request *request, const union ibv_gid *gid, uint16_t port,
			 uint32_t sequence)
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
			 .id = {.idiag_sport = htobe16(port),
				.idiag_dport = htobe16(ROCE_V2_UDP_PORT),
				.idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}},
	};
	set_socket_address(request->body.id.idiag_dst, gid);
}

/* Returns whether it is a socket at @gid, and how much is known of it. */
static bool parse_answer(const struct nlmsghdr *header, const union ibv_gid *gid,
			 struct found *found)
{
	const struct inet_diag_msg *body = NLMSG_DATA(header);
	const struct rtattr *attribute = (const struct rtattr *)(body + 1);
	int left = header->nlmsg_len - NLMSG_LENGTH(sizeof(*body));
	__be32 address[4] = {};

	set_socket_address(address, gid);
	if (memcmp(body->id.idiag_src, address, gid_is_ipv4(gid) ? 4 : 16) != 0)
		return false; /* a wildcard socket, which isn't one of urxe */
	memcpy(&found->cookie, body->id.idiag_cookie, sizeof(found->cookie));

	for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left)) {
		const uint32_t *memory = RTA_DATA(attribute);
		uint32_t size;

		if (attribute->rta_type != INET_DIAG_SKMEMINFO ||
		    RTA_PAYLOAD(attribute) < (SK_MEMINFO_RCVBUF + 1) * sizeof(*memory))
			continue;
		size = memory[SK_MEMINFO_RCVBUF] < BACKLOG_MAX ? memory[SK_MEMINFO_RCVBUF]
							       : BACKLOG_MAX;
		found->used = memory[SK_MEMINFO_RMEM_ALLOC];
		found->space = found->used < size ? size - found->used : 0;
		return true;
	}
	return false;
}

/* The kernel answers within our send(), so there is never anything to wait for. */
static bool ask(struct backlog *backlog, const union ibv_gid *gid, uint16_t port,
		struct found *found)
{
	const struct nlmsghdr *header = (const struct nlmsghdr *)backlog->answer;
	struct request request;

	make_request(&request, gid, port, ++backlog->sequence);
	if (sys_send(backlog->fd, &request, sizeof(request), 0) < 0)
		return false;
	for (;;) {
		ssize_t length = sys_recv(backlog->fd, backlog->answer, sizeof(backlog->answer),
					  MSG_DONTWAIT);

		if (length < 0 || !NLMSG_OK(header, length))
			return false;
		if (header->nlmsg_seq != backlog->sequence)
			continue;
		if (header->nlmsg_type != SOCK_DIAG_BY_FAMILY ||
		    header->nlmsg_len < NLMSG_LENGTH(sizeof(struct inet_diag_msg)))
			return false;
		return parse_answer(header, gid, found);
	}
}

/* The one with @cookie, if the kernel can be made to show it. */
static bool search(struct backlog *backlog, const union ibv_gid *gid, uint64_t cookie,
		   struct found *found)
{
	struct cached *cached = &backlog->cache[cookie % CACHE];

	if (cached->cookie != cookie)
		*cached = (struct cached){.cookie = cookie};
	for (int i = 0; i < TRIES; i++) {
		if (!ask(backlog, gid, cached->port, found))
			return false;
		if (found->cookie == cookie)
			return true;
		cached->port++;
	}
	return false;
}

static bool find(struct backlog *backlog, const union ibv_gid *gid, uint64_t cookie,
		 struct found *found)
{
	bool known;

	pthread_mutex_lock(&backlog->lock);
	known = cookie ? search(backlog, gid, cookie, found) : ask(backlog, gid, 0, found);
	pthread_mutex_unlock(&backlog->lock);
	return known;
}

uint32_t backlog_rcvbuf_space(struct backlog *backlog, const union ibv_gid *gid, uint64_t cookie)
{
	struct found found;

	return find(backlog, gid, cookie, &found) ? found.space / BACKLOG_CHARGE : BACKLOG_UNKNOWN;
}

uint32_t backlog_unread(struct backlog *backlog, const union ibv_gid *gid, uint64_t cookie)
{
	struct found found;

	return find(backlog, gid, cookie, &found) ? found.used : 0;
}
