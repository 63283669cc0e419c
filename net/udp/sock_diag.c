/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/udp/sock_diag.h"

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

#include "net/descriptor.h"
#include "net/syscalls.h"
#include "net/udp/udp_link.h"
#include "net/wire/gid.h"

struct sock_diag {
	pthread_mutex_t lock; /* the rest: a request and its answer belong together */
	int fd;
	struct descriptor_identity identity;
	uint32_t sequence;
	uint8_t answer[1024] __attribute__((aligned(NLMSG_ALIGNTO)));
};

struct request {
	struct nlmsghdr header;
	struct inet_diag_req_v2 body;
};

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
static void make_request(struct request *request, const union ibv_gid *local, uint16_t port,
			 const union ibv_gid *remote, uint16_t remote_port, unsigned int interface,
			 uint32_t sequence)
{
	*request = (struct request){
		.header = {.nlmsg_len = sizeof(*request),
			   .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			   .nlmsg_flags = NLM_F_REQUEST,
			   .nlmsg_seq = sequence},
		.body = {.sdiag_family = gid_is_ipv4(local) ? AF_INET : AF_INET6,
			 .sdiag_protocol = IPPROTO_UDP,
			 .idiag_ext = 1 << (INET_DIAG_SKMEMINFO - 1),
			 .idiag_states = UINT32_MAX,
			 .id = {.idiag_sport = htobe16(remote_port),
				.idiag_dport = htobe16(port),
				.idiag_if = interface,
				.idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}},
	};
	set_socket_address(request->body.id.idiag_dst, local);
	if (remote)
		set_socket_address(request->body.id.idiag_src, remote);
}

static void parse_answer(const struct nlmsghdr *header, const union ibv_gid *local,
			 struct sock_diag_socket *found)
{
	const struct inet_diag_msg *body = NLMSG_DATA(header);
	const struct rtattr *attribute = (const struct rtattr *)(body + 1);
	int left = header->nlmsg_len - NLMSG_LENGTH(sizeof(*body));
	__be32 address[4] = {};

	set_socket_address(address, local);
	*found = (struct sock_diag_socket){
		.uid = body->idiag_uid,
		.cookie = (uint64_t)body->id.idiag_cookie[1] << 32 | body->id.idiag_cookie[0],
		.wildcard = memcmp(body->id.idiag_src, address, gid_is_ipv4(local) ? 4 : 16) != 0,
	};
	for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left)) {
		const uint32_t *memory = RTA_DATA(attribute);

		if (attribute->rta_type != INET_DIAG_SKMEMINFO ||
		    RTA_PAYLOAD(attribute) < (SK_MEMINFO_RCVBUF + 1) * sizeof(*memory))
			continue;
		found->receive_buffer = memory[SK_MEMINFO_RCVBUF];
		found->received = memory[SK_MEMINFO_RMEM_ALLOC];
	}
}

/* The kernel answers within our send(), so there is never anything to wait for. */
static int ask(struct sock_diag *diag, const struct request *request, const union ibv_gid *local,
	       struct sock_diag_socket *found)
{
	const struct nlmsghdr *header = (const struct nlmsghdr *)diag->answer;

	if (sys_send(descriptor_number(&diag->fd), request, sizeof(*request), 0) < 0)
		return errno;
	for (;;) {
		ssize_t length = sys_recv(descriptor_number(&diag->fd), diag->answer,
					  sizeof(diag->answer), MSG_DONTWAIT);

		if (length < 0)
			return errno;
		if (!NLMSG_OK(header, length))
			return EPROTO;
		if (header->nlmsg_seq != request->header.nlmsg_seq)
			continue;
		if (header->nlmsg_type == NLMSG_ERROR &&
		    header->nlmsg_len >= NLMSG_LENGTH(sizeof(struct nlmsgerr)))
			return -((const struct nlmsgerr *)NLMSG_DATA(header))->error;
		if (header->nlmsg_type != SOCK_DIAG_BY_FAMILY ||
		    header->nlmsg_len < NLMSG_LENGTH(sizeof(struct inet_diag_msg)))
			return EPROTO;
		parse_answer(header, local, found);
		return 0;
	}
}

int sock_diag_find(struct sock_diag *diag, const union ibv_gid *local, uint16_t port,
		   const union ibv_gid *remote, uint16_t remote_port, unsigned int interface,
		   struct sock_diag_socket *found)
{
	struct request request;
	int error;

	pthread_mutex_lock(&diag->lock);
	make_request(&request, local, port, remote, remote_port, interface, ++diag->sequence);
	error = ask(diag, &request, local, found);
	pthread_mutex_unlock(&diag->lock);
	return error;
}

/*
 * Have the kernel find a socket that is there. Where it lacks udp_diag (CONFIG_INET_UDP_DIAG)
 * it runs modprobe for each request, waits for that, and answers as if there were no socket.
 * Returns 0 or an errno.
 */
static int try_udp(struct sock_diag *diag)
{
	const struct in_addr loopback = {htonl(INADDR_LOOPBACK)};
	int fd = sys_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct sock_diag_socket found;
	union ibv_gid gid;
	uint16_t port;
	int error;

	if (fd < 0)
		return errno;
	gid_from_ipv4(&gid, &loopback);
	/* At all addresses: the loopback device may be down. */
	error = udp_bind_free_port(fd, INADDR_ANY, &port);
	if (!error)
		error = sock_diag_find(diag, &gid, port, NULL, 0, 0, &found);
	sys_close(fd);
	return error;
}

int sock_diag_create(struct sock_diag **created)
{
	struct sock_diag *diag = calloc(1, sizeof(*diag));
	int error;

	if (!diag)
		return ENOMEM;
	diag->fd = sys_socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
			      NETLINK_SOCK_DIAG);
	if (diag->fd < 0) {
		error = errno;
		free(diag);
		return error;
	}
	diag->identity = descriptor_identify(diag->fd);
	pthread_mutex_init(&diag->lock, NULL);
	error = try_udp(diag);
	if (error) {
		sock_diag_destroy(diag);
		return error;
	}
	*created = diag;
	return 0;
}

bool sock_diag_verify(struct sock_diag *diag)
{
	return descriptor_verify(&diag->fd, &diag->identity);
}

void sock_diag_destroy(struct sock_diag *diag)
{
	if (!diag)
		return;
	close(diag->fd);
	pthread_mutex_destroy(&diag->lock);
	free(diag);
}
