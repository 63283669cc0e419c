/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/rsocket/rsocket_endpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "net/wire/gid.h"
#include "net/wire/wire.h"

/* As librdmacm's receives have space for: a datagram and its header. */
#define SENT_MOST 2048
/* As long as a UD packet can be: one that finds too little space ends the queue pair. */
#define SLOT (GRH_LENGTH + WIRE_PATH_MTU_MAX)
#define SLOTS_MOST 384

#define WR_SEND (UINT64_C(1) << 63)

bool endpoint_is_any(const struct sockaddr_storage *address)
{
	if (address->ss_family == AF_INET)
		return ((const struct sockaddr_in *)address)->sin_addr.s_addr == INADDR_ANY;
	return IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)address)->sin6_addr);
}

/* --- made and freed -------------------------------------------------------------------------- */

static int post_receive(struct endpoint *endpoint, uint32_t slot)
{
	struct ibv_sge sge = {.addr = (uintptr_t)endpoint->buffer + slot * SLOT,
			      .length = SLOT,
			      .lkey = endpoint->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1}, *bad;

	return ibv_post_recv(endpoint->qp, &wr, &bad);
}

static int make_queue_pair(struct endpoint *endpoint)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_UD,
		.sq_sig_all = 1,
		.cap = {.max_send_wr = endpoint->slots,
			.max_recv_wr = endpoint->slots,
			.max_send_sge = 1,
			.max_recv_sge = 1},
	};

	endpoint->completions = ibv_create_comp_channel(endpoint->id->verbs);
	if (!endpoint->completions)
		return errno;
	if (fcntl(endpoint->completions->fd, F_SETFL, O_NONBLOCK) < 0)
		return errno;
	endpoint->cq = ibv_create_cq(endpoint->id->verbs, 2 * endpoint->slots, NULL,
				     endpoint->completions, 0);
	if (!endpoint->cq)
		return errno;
	attr.send_cq = attr.recv_cq = endpoint->cq;
	if (rdma_create_qp(endpoint->id, NULL, &attr) != 0)
		return errno;
	endpoint->qp = endpoint->id->qp;
	return 0;
}

static int make_memory(struct endpoint *endpoint)
{
	size_t size = 2 * (size_t)endpoint->slots * SLOT;

	endpoint->buffer = malloc(size);
	endpoint->arrived = calloc(endpoint->slots, sizeof(*endpoint->arrived));
	endpoint->lengths = calloc(endpoint->slots, sizeof(*endpoint->lengths));
	if (!endpoint->buffer || !endpoint->arrived || !endpoint->lengths)
		return ENOMEM;
	endpoint->mr = ibv_reg_mr(endpoint->id->pd, endpoint->buffer, size, IBV_ACCESS_LOCAL_WRITE);
	return endpoint->mr ? 0 : errno;
}

/* IPv4's as such, in a socket of either family. */
static void set_header(struct endpoint *endpoint)
{
	struct rsocket_ud_header *header = &endpoint->header;
	union ibv_gid gid;

	header->port = ((const struct sockaddr_in *)&endpoint->local)->sin_port;
	gid_from_sockaddr(&gid, (const struct sockaddr *)&endpoint->local);
	if (gid_is_ipv4(&gid)) {
		header->version = 4;
		header->length = RSOCKET_UD_IPV4_LENGTH;
		memcpy(&header->address.ipv4, gid.raw + 12, 4);
	} else {
		header->version = 6;
		header->length = RSOCKET_UD_IPV6_LENGTH;
		memcpy(header->address.ipv6.address, gid.raw, 16);
	}
}

/* As long as the queue pair lives: one datagram that is longer would end its send queue. */
static void read_mtu(struct endpoint *endpoint)
{
	struct ibv_port_attr attr;

	if (ibv_query_port(endpoint->id->verbs, endpoint->id->port_num, &attr) == 0)
		endpoint->mtu = mtu_bytes(attr.active_mtu);
}

/* The device is the address's; the port stays with the socket. */
static int open_device(struct endpoint *endpoint)
{
	struct sockaddr_storage address = endpoint->local;

	((struct sockaddr_in *)&address)->sin_port = 0;
	if (rdma_create_id(NULL, &endpoint->id, endpoint, RDMA_PS_UDP) != 0)
		return errno;
	if (rdma_bind_addr(endpoint->id, (struct sockaddr *)&address) != 0)
		return errno;
	return endpoint->id->verbs ? 0 : ENODEV;
}

struct endpoint *endpoint_create(const struct rsocket_options *options,
				 const struct sockaddr_storage *local)
{
	struct endpoint *endpoint = calloc(1, sizeof(*endpoint));
	int error;

	if (!endpoint)
		return NULL;
	endpoint->local = *local;
	set_header(endpoint);
	endpoint->slots = options->rq_size < SLOTS_MOST ? options->rq_size : SLOTS_MOST;
	endpoint->sends_free = endpoint->slots;
	error = open_device(endpoint);
	if (!error)
		error = make_queue_pair(endpoint);
	if (!error)
		error = make_memory(endpoint);
	if (!error)
		read_mtu(endpoint);
	for (uint32_t slot = 0; !error && slot < endpoint->slots; slot++)
		error = post_receive(endpoint, slot);
	if (!error)
		return endpoint;
	endpoint_destroy(endpoint);
	return NULL;
}

void endpoint_set_port(struct endpoint *endpoint, __be16 port)
{
	((struct sockaddr_in *)&endpoint->local)->sin_port = port;
	endpoint->header.port = port;
}

void endpoint_destroy(struct endpoint *endpoint)
{
	if (endpoint->qp)
		rdma_destroy_qp(endpoint->id);
	if (endpoint->mr)
		ibv_dereg_mr(endpoint->mr);
	if (endpoint->cq)
		ibv_destroy_cq(endpoint->cq);
	if (endpoint->completions)
		ibv_destroy_comp_channel(endpoint->completions);
	if (endpoint->id)
		rdma_destroy_id(endpoint->id);
	free(endpoint->buffer);
	free(endpoint->arrived);
	free(endpoint->lengths);
	free(endpoint);
}

/* --- address handles ------------------------------------------------------------------------- */

static int gid_index(struct ibv_context *verbs, uint8_t port, const union ibv_gid *gid)
{
	struct ibv_port_attr attr;
	union ibv_gid entry;

	if (ibv_query_port(verbs, port, &attr) != 0)
		return -1;
	/* Of the same addresses the last is RoCE v2's, as the kernel lists them. */
	for (int i = attr.gid_tbl_len - 1; i >= 0; i--) {
		if (ibv_query_gid(verbs, port, i, &entry) == 0 &&
		    memcmp(&entry, gid, sizeof(entry)) == 0)
			return i;
	}
	return -1;
}

/* By the addresses that @id was resolved with. */
static struct ibv_ah *create_ah(const struct endpoint *endpoint, const struct rdma_cm_id *id)
{
	const struct rdma_ib_addr *path = &id->route.addr.addr.ibaddr;
	int index = gid_index(endpoint->id->verbs, id->port_num, &path->sgid);
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = id->port_num,
		.grh = {.dgid = path->dgid, .sgid_index = index, .hop_limit = 64},
	};

	return index < 0 ? NULL : ibv_create_ah(endpoint->id->pd, &attr);
}

static void destroy_id(void *id)
{
	rdma_destroy_id(id);
}

struct ibv_ah *endpoint_create_ah(const struct endpoint *endpoint,
				  const struct sockaddr_storage *local,
				  const struct sockaddr_storage *remote)
{
	struct sockaddr_storage source = *local;
	struct rdma_cm_id *id;
	struct ibv_ah *ah = NULL;

	((struct sockaddr_in *)&source)->sin_port = 0;
	if (rdma_create_id(NULL, &id, NULL, RDMA_PS_UDP) != 0)
		return NULL;
	pthread_cleanup_push(destroy_id, id);
	if (rdma_resolve_addr(id, (struct sockaddr *)&source, (struct sockaddr *)remote,
			      RSOCKET_RESOLVE_TIMEOUT) == 0)
		ah = create_ah(endpoint, id);
	pthread_cleanup_pop(1);
	return ah;
}

/* --- sending --------------------------------------------------------------------------------- */

bool endpoint_mtu_exceeded(const struct endpoint *endpoint, size_t length)
{
	const size_t header = endpoint->header.length;

	return length <= SENT_MOST - header && header + length > endpoint->mtu;
}

ssize_t endpoint_gather(uint8_t *to, size_t most, const struct iovec *vectors, size_t count)
{
	size_t length = 0;

	for (size_t i = 0; i < count; i++) {
		if (vectors[i].iov_len > most - length)
			return rsocket_return(EMSGSIZE);
		if (vectors[i].iov_len) /* else it may be NULL */
			memcpy(to + length, vectors[i].iov_base, vectors[i].iov_len);
		length += vectors[i].iov_len;
	}
	return length;
}

ssize_t endpoint_send(struct endpoint *endpoint, struct ibv_ah *ah, uint32_t qpn,
		      const struct iovec *vectors, size_t count)
{
	uint32_t slot = endpoint->slots + endpoint->next_send;
	uint8_t *memory = endpoint->buffer + (size_t)slot * SLOT;
	size_t header = endpoint->header.length;
	struct ibv_sge sge = {.addr = (uintptr_t)memory, .lkey = endpoint->mr->lkey};
	struct ibv_send_wr wr = {
		.wr_id = WR_SEND,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.wr.ud = {.ah = ah, .remote_qpn = qpn, .remote_qkey = RDMA_UDP_QKEY},
	};
	struct ibv_send_wr *bad;
	ssize_t length;
	int error;

	if (!endpoint->sends_free)
		endpoint_progress(endpoint);
	if (!endpoint->sends_free)
		return rsocket_return(EAGAIN);
	memcpy(memory, &endpoint->header, header);
	length = endpoint_gather(memory + header, SENT_MOST - header, vectors, count);
	if (length < 0)
		return length;
	sge.length = header + length;
	error = ibv_post_send(endpoint->qp, &wr, &bad);
	if (error)
		return rsocket_return(error);
	endpoint->next_send = (endpoint->next_send + 1) % endpoint->slots;
	endpoint->sends_free--;
	return length;
}

/* --- receiving ------------------------------------------------------------------------------- */

bool endpoint_progress(struct endpoint *endpoint)
{
	struct ibv_wc wcs[16];
	bool any = false;
	int count;

	do {
		count = ibv_poll_cq(endpoint->cq, sizeof(wcs) / sizeof(*wcs), wcs);
		for (int i = 0; i < count; i++) {
			uint32_t at = (endpoint->first + endpoint->count) % endpoint->slots;

			if (wcs[i].wr_id & WR_SEND) {
				endpoint->sends_free++;
			} else if (wcs[i].status == IBV_WC_SUCCESS) {
				endpoint->arrived[at] = wcs[i].wr_id;
				endpoint->lengths[at] = wcs[i].byte_len;
				endpoint->count++;
			}
		}
		any |= count > 0;
	} while (count == sizeof(wcs) / sizeof(*wcs));
	return any;
}

bool endpoint_has_any(const struct endpoint *endpoint)
{
	return endpoint->count > 0;
}

void endpoint_release(struct endpoint *endpoint)
{
	post_receive(endpoint, endpoint->arrived[endpoint->first]);
	endpoint->first = (endpoint->first + 1) % endpoint->slots;
	endpoint->count--;
}

/* As a socket of @family has it: for one of IPv6 those of IPv4 are mapped. False: it has none. */
static bool set_source(struct sockaddr_storage *source, const union ibv_gid *gid, __be16 port,
		       int family)
{
	struct sockaddr_in6 *ipv6 = (struct sockaddr_in6 *)source;

	if (family == AF_INET) {
		gid_to_sockaddr(gid, be16toh(port), source);
		return source->ss_family == AF_INET;
	}
	*ipv6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = port};
	memcpy(&ipv6->sin6_addr, gid->raw, sizeof(gid->raw));
	return true;
}

static bool parse(const struct endpoint *endpoint, const uint8_t *slot, uint32_t length,
		  struct endpoint_message *message)
{
	struct rsocket_ud_header header;
	struct in_addr ipv4;
	union ibv_gid gid;

	memset(&header, 0, sizeof(header));
	if (length < GRH_LENGTH + RSOCKET_UD_IPV4_LENGTH)
		return false;
	length -= GRH_LENGTH;
	memcpy(&header, slot + GRH_LENGTH, length < sizeof(header) ? length : sizeof(header));
	if (header.length > length)
		return false;
	*message = (struct endpoint_message){.data = slot + GRH_LENGTH + header.length,
					     .length = length - header.length};
	if (header.version == 4 && header.length >= RSOCKET_UD_IPV4_LENGTH) {
		ipv4.s_addr = header.address.ipv4;
		gid_from_ipv4(&gid, &ipv4);
	} else if (header.version == 6 && header.length >= RSOCKET_UD_IPV6_LENGTH) {
		memcpy(gid.raw, header.address.ipv6.address, sizeof(gid.raw));
	} else {
		return false;
	}
	return set_source(&message->source, &gid, header.port, endpoint->local.ss_family);
}

bool endpoint_first(struct endpoint *endpoint, struct endpoint_message *message)
{
	while (endpoint->count) {
		uint32_t slot = endpoint->arrived[endpoint->first];

		if (parse(endpoint, endpoint->buffer + (size_t)slot * SLOT,
			  endpoint->lengths[endpoint->first], message))
			return true;
		endpoint_release(endpoint);
	}
	return false;
}
