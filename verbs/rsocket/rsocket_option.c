/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Options, names and flags of an rsocket. Options are kept in struct rsocket_options and take
 * effect when the connection is made: one table has where each is. What an option's default is the
 * administrator may say (rsocket(7), /etc/rdma/rsocket).
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <rdma/rsocket.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "net/number_file.h"
#include "verbs/rsocket/rsocket.h"
#include "verbs/rsocket/rsocket_calls.h"

#define BUFFER_LEAST 4096
#define BUFFER_MOST (1u << 30)
#define QUEUE_LEAST 16
#define QUEUE_MOST (1 << 14)
#define INLINE_LEAST 16
#define INLINE_MOST 256

/*
 * How long to poll: half a round trip between processes of a machine is some microseconds, and
 * being woken takes several times that.
 */
#define POLLING_TIME 50 /* us */

#define WAKE_UP_INTERVAL 5000 /* ms */

/* --- defaults -------------------------------------------------------------------------------- */

static uint32_t configured(const char *name, uint32_t otherwise)
{
	char path[64];

	snprintf(path, sizeof(path), "/etc/rdma/rsocket/%s", name);
	return number_file_read(path, otherwise);
}

static struct {
	pthread_once_t once;
	struct rsocket_options options;
	uint64_t polling_time;	   /* ns */
	uint32_t wake_up_interval; /* ms */
} defaults = {.once = PTHREAD_ONCE_INIT};

static uint32_t within(uint32_t value, uint32_t least, uint32_t most)
{
	return value < least ? least : value > most ? most : value;
}

/* A multiple of two pages: it is granted in halves. */
static uint32_t buffer_size(uint32_t value)
{
	return (within(value, BUFFER_LEAST, BUFFER_MOST) + 8191) & ~8191u;
}

/* As many as a hello can tell. */
static uint32_t mapping_count(uint32_t value)
{
	return rsocket_iomap_entries(rsocket_iomap_scale(within(value, 0, RSOCKET_IOMAP_MOST)));
}

static void read_defaults(void)
{
	int state;

	/* Reading files is a cancellation point, and this is done once. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	defaults.options = (struct rsocket_options){
		.send_buffer = buffer_size(configured("wmem_default", 1 << 17)),
		.receive_buffer = buffer_size(configured("mem_default", 1 << 17)),
		.sq_size = within(configured("sqsize_default", 384), QUEUE_LEAST, QUEUE_MOST),
		.rq_size = within(configured("rqsize_default", 384), QUEUE_LEAST, QUEUE_MOST),
		.inline_size = within(configured("inline_default", 64), INLINE_LEAST, INLINE_MOST),
		.iomap_size = mapping_count(configured("iomap_size", 0)),
		.keepalive_time = number_file_read("/proc/sys/net/ipv4/tcp_keepalive_time", 7200),
	};
	defaults.wake_up_interval =
		within(configured("wake_up_interval", WAKE_UP_INTERVAL), 1, INT32_MAX);
	defaults.polling_time = (uint64_t)configured("polling_time", POLLING_TIME) * 1000;
	pthread_setcancelstate(state, NULL);
}

void rsocket_default_options(struct rsocket_options *options)
{
	pthread_once(&defaults.once, read_defaults);
	*options = defaults.options;
}

uint64_t rsocket_polling_time(void)
{
	pthread_once(&defaults.once, read_defaults);
	return defaults.polling_time;
}

uint32_t rsocket_wake_up_interval(void)
{
	pthread_once(&defaults.once, read_defaults);
	return defaults.wake_up_interval;
}

/* --- options --------------------------------------------------------------------------------- */

enum option_kind {
	OPTION_SWITCH,	 /* an int, into a bool */
	OPTION_BUFFER,	 /* an int, bytes of a buffer */
	OPTION_NUMBER,	 /* an int, made to be within limits */
	OPTION_MAPPINGS, /* an int, entries of a table of mappings */
	OPTION_PERIOD,	 /* an int, seconds, more than 0 */
	OPTION_LINGER,
	OPTION_SEGMENT, /* taken, and without effect: what a packet carries at most */
	OPTION_IGNORED, /* likewise; 1 when got, as librdmacm has it */
};

struct option {
	int level, name;
	enum option_kind kind;
	size_t offset;	      /* in struct rsocket_options */
	uint32_t least, most; /* of a number */
	bool later;	      /* may be set once there is a connection, too */
};

#define AT(member) offsetof(struct rsocket_options, member)

static const struct option options[] = {
	{SOL_SOCKET, SO_RCVBUF, OPTION_BUFFER, AT(receive_buffer)},
	{SOL_SOCKET, SO_SNDBUF, OPTION_BUFFER, AT(send_buffer)},
	{SOL_SOCKET, SO_REUSEADDR, OPTION_SWITCH, AT(reuse_address), .later = true},
	{SOL_SOCKET, SO_KEEPALIVE, OPTION_SWITCH, AT(keepalive), .later = true},
	{SOL_SOCKET, SO_OOBINLINE, OPTION_SWITCH, AT(oob_inline), .later = true},
	{SOL_SOCKET, SO_LINGER, OPTION_LINGER, AT(linger), .later = true},
	{IPPROTO_TCP, TCP_NODELAY, OPTION_SWITCH, AT(no_delay), .later = true},
	{IPPROTO_TCP, TCP_KEEPIDLE, OPTION_PERIOD, AT(keepalive_time), .later = true},
	{IPPROTO_TCP, TCP_KEEPINTVL, OPTION_IGNORED, 0, .later = true},
	{IPPROTO_TCP, TCP_KEEPCNT, OPTION_IGNORED, 0, .later = true},
	{IPPROTO_TCP, TCP_MAXSEG, OPTION_SEGMENT, 0, .later = true},
	{IPPROTO_IPV6, IPV6_V6ONLY, OPTION_SWITCH, AT(ipv6_only)},
	{SOL_RDMA, RDMA_SQSIZE, OPTION_NUMBER, AT(sq_size), QUEUE_LEAST, QUEUE_MOST},
	{SOL_RDMA, RDMA_RQSIZE, OPTION_NUMBER, AT(rq_size), QUEUE_LEAST, QUEUE_MOST},
	{SOL_RDMA, RDMA_INLINE, OPTION_NUMBER, AT(inline_size), INLINE_LEAST, INLINE_MOST},
	{SOL_RDMA, RDMA_IOMAPSIZE, OPTION_MAPPINGS, AT(iomap_size)},
};

static const struct option *find_option(int level, int name)
{
	for (unsigned int i = 0; i < sizeof(options) / sizeof(*options); i++) {
		if (options[i].level == level && options[i].name == name)
			return &options[i];
	}
	return NULL;
}

static int read_number(const void *value, socklen_t length, uint32_t *number)
{
	int given;

	if (!value)
		return EFAULT;
	if (length < sizeof(given))
		return EINVAL;
	memcpy(&given, value, sizeof(given));
	*number = given < 0 ? 0 : given;
	return 0;
}

static bool is_keepalive(const struct option *option)
{
	return (option->level == SOL_SOCKET && option->name == SO_KEEPALIVE) ||
	       (option->level == IPPROTO_TCP && option->name == TCP_KEEPIDLE);
}

/*
 * With rs->lock. The options that rdma_cm was told of when the socket was bound. As with librdmacm
 * it is no error to allow others the port of one that listens.
 */
static int tell_id(struct rsocket *rs, const struct option *option, int on)
{
	if (option->level == SOL_SOCKET && option->name == SO_REUSEADDR)
		rdma_set_option(rs->id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof(on));
	else if (option->level == IPPROTO_IPV6 && option->name == IPV6_V6ONLY &&
		 rdma_set_option(rs->id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof(on)) <
			 0)
		return errno;
	return 0;
}

/* Of an option that is an int: what number_of() reads. */
static void store_number(const struct option *option, void *at, uint32_t number)
{
	if (option->kind == OPTION_SWITCH)
		*(bool *)at = number != 0;
	else if (option->kind == OPTION_BUFFER) /* doubled, as Linux and librdmacm do */
		*(uint32_t *)at = buffer_size(2 * number);
	else if (option->kind == OPTION_NUMBER)
		*(uint32_t *)at = within(number, option->least, option->most);
	else if (option->kind == OPTION_MAPPINGS)
		*(uint32_t *)at = mapping_count(number);
	else if (option->kind == OPTION_PERIOD)
		*(uint32_t *)at = number;
}

/* With rs->lock. */
static int set_option(struct rsocket *rs, const struct option *option, const void *value,
		      socklen_t length)
{
	void *at = (uint8_t *)&rs->options + option->offset;
	uint32_t number = 0;
	int error;

	/* Sockets take what has no effect any more. */
	if (rs->state > RSOCKET_LISTENING && !option->later)
		return option->level == SOL_RDMA ? EINVAL : 0;
	if (option->kind == OPTION_LINGER) {
		if (!value || length < sizeof(struct linger))
			return value ? EINVAL : EFAULT;
		memcpy(at, value, sizeof(struct linger));
		return 0;
	}
	error = read_number(value, length, &number);
	if (!error && option->kind == OPTION_PERIOD && !number)
		error = EINVAL;
	if (!error && rs->state != RSOCKET_NEW)
		error = tell_id(rs, option, number != 0);
	if (error)
		return error;
	store_number(option, at, number);
	if (is_keepalive(option))
		rs->options.keepalive ? rsocket_keepalive_start(rs) : rsocket_keepalive_stop(rs);
	return 0;
}

int urxe_rsetsockopt(int socket, int level, int name, const void *value, socklen_t length)
{
	const struct option *option = find_option(level, name);
	struct rsocket *rs = rsocket_get(socket);
	int error = 0;

	if (!rs)
		return -1;
	if (rs->datagram && level != SOL_RDMA) {
		error = setsockopt(rs->fd, level, name, value, length) < 0 ? errno : 0;
	} else if (!option && (level != SOL_RDMA || name != RDMA_ROUTE)) {
		error = ENOTSUP;
	} else {
		pthread_mutex_lock(&rs->lock);
		error = option ? set_option(rs, option, value, length)
			       : rsocket_route_set(rs, value, length);
		pthread_mutex_unlock(&rs->lock);
	}
	rsocket_put(rs);
	return rsocket_return(error);
}

static int put_value(void *to, socklen_t *length, const void *value, socklen_t size)
{
	if (!to || !length)
		return EFAULT;
	if (*length > size)
		*length = size;
	memcpy(to, value, *length);
	return 0;
}

/* With rs->lock. What isn't kept but found out. */
static int special_option(struct rsocket *rs, int level, int name, int *number)
{
	if (level == SOL_SOCKET && name == SO_ERROR) {
		rsocket_progress(rs);
		*number = rs->error;
		rs->error = 0;
	} else if (level == SOL_SOCKET && name == SO_TYPE) {
		*number = rs->type;
	} else if (level == SOL_SOCKET && name == SO_DOMAIN) {
		*number = rs->domain;
	} else if (level == SOL_SOCKET && name == SO_PROTOCOL) {
		*number = rs->datagram ? IPPROTO_UDP : IPPROTO_TCP;
	} else if (level == SOL_SOCKET && name == SO_ACCEPTCONN) {
		*number = rs->state == RSOCKET_LISTENING;
	} else {
		return ENOTSUP;
	}
	return 0;
}

/* With rs->lock. Of a path that isn't known yet what librdmacm says. */
static int segment_size(const struct rsocket *rs)
{
	const struct rdma_route *route = rs->id ? &rs->id->route : NULL;

	return route && route->num_paths ? 128 << route->path_rec->mtu : 2048;
}

/* With rs->lock. Of an option that is an int. */
static int number_of(const struct rsocket *rs, const struct option *option, const void *at)
{
	switch (option->kind) {
	case OPTION_SWITCH:
		return *(const bool *)at;
	case OPTION_SEGMENT:
		return segment_size(rs);
	case OPTION_IGNORED:
		return 1;
	default:
		return *(const uint32_t *)at;
	}
}

/* With rs->lock. */
static int get_option(struct rsocket *rs, int level, int name, void *value, socklen_t *length)
{
	const struct option *option = find_option(level, name);
	const void *at;
	int number = 0;

	if (level == SOL_RDMA && name == RDMA_ROUTE)
		return rsocket_route_get(rs, value, length);
	if (!option) {
		int error = special_option(rs, level, name, &number);

		return error ? error : put_value(value, length, &number, sizeof(number));
	}
	at = (const uint8_t *)&rs->options + option->offset;
	if (option->kind == OPTION_LINGER)
		return put_value(value, length, at, sizeof(struct linger));
	number = number_of(rs, option, at);
	return put_value(value, length, &number, sizeof(number));
}

/* Options of datagrams are their UDP socket's, but what has failed was read from that already. */
static bool is_of_udp(const struct rsocket *rs, int level, int name)
{
	return rs->datagram && level != SOL_RDMA && !(level == SOL_SOCKET && name == SO_ERROR);
}

int urxe_rgetsockopt(int socket, int level, int name, void *value, socklen_t *length)
{
	struct rsocket *rs = rsocket_get(socket);
	int error;

	if (!rs)
		return -1;
	if (is_of_udp(rs, level, name)) {
		error = getsockopt(rs->fd, level, name, value, length) < 0 ? errno : 0;
	} else {
		pthread_mutex_lock(&rs->lock);
		error = get_option(rs, level, name, value, length);
		pthread_mutex_unlock(&rs->lock);
	}
	rsocket_put(rs);
	return rsocket_return(error);
}

/* --- names ----------------------------------------------------------------------------------- */

socklen_t rsocket_address_size(int family)
{
	switch (family) {
	case AF_INET:
		return sizeof(struct sockaddr_in);
	case AF_INET6:
		return sizeof(struct sockaddr_in6);
	case AF_IB:
		return sizeof(struct sockaddr_ib);
	default:
		return 0;
	}
}

static int put_address(struct sockaddr *to, socklen_t *length, const struct sockaddr *address)
{
	socklen_t size = rsocket_address_size(address->sa_family);

	/* As getsockname(2): librspreload asks for the length alone. */
	if (!length || (!to && *length))
		return EFAULT;
	if (to)
		memcpy(to, address, *length < size ? *length : size);
	*length = size;
	return 0;
}

int urxe_rgetpeername(int socket, struct sockaddr *address, socklen_t *length)
{
	struct rsocket *rs = rsocket_get(socket);
	int error;

	if (!rs)
		return -1;
	if (rs->datagram) {
		error = getpeername(rs->fd, address, length) < 0 ? errno : 0;
	} else {
		pthread_mutex_lock(&rs->lock);
		error = rs->state < RSOCKET_ACCEPTING || rs->state == RSOCKET_FAILED
				? ENOTCONN
				: put_address(address, length, rdma_get_peer_addr(rs->id));
		pthread_mutex_unlock(&rs->lock);
	}
	rsocket_put(rs);
	return rsocket_return(error);
}

int urxe_rgetsockname(int socket, struct sockaddr *address, socklen_t *length)
{
	struct rsocket *rs = rsocket_get(socket);
	struct sockaddr_storage name;
	int error;

	if (!rs)
		return -1;
	if (rs->datagram) {
		error = getsockname(rs->fd, address, length) < 0 ? errno : 0;
	} else {
		pthread_mutex_lock(&rs->lock);
		name = rs->bound;
		name.ss_family = rs->domain;
		error = put_address(address, length,
				    rs->state == RSOCKET_NEW ? (struct sockaddr *)&name
							     : rdma_get_local_addr(rs->id));
		pthread_mutex_unlock(&rs->lock);
	}
	rsocket_put(rs);
	return rsocket_return(error);
}

/* --- flags ----------------------------------------------------------------------------------- */

/* The descriptors below never block: whether a call does is the rsocket's. */
int urxe_rfcntl(int socket, int command, long argument)
{
	struct rsocket *rs = rsocket_get(socket);
	int result = 0;

	if (!rs)
		return -1;
	switch (command) {
	case F_GETFL:
		result = O_RDWR | (rs->nonblocking ? O_NONBLOCK : 0);
		break;
	case F_SETFL:
		rs->nonblocking = argument & O_NONBLOCK;
		break;
	case F_GETFD:
	case F_SETFD:
		result = fcntl(rs->fd, command, argument);
		break;
	default:
		result = rsocket_return(ENOTSUP);
	}
	rsocket_put(rs);
	return result;
}
