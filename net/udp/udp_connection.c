/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/udp/udp_connection.h"

#include <errno.h>
#include <linux/net_tstamp.h>
#include <net/ethernet.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "net/log.h"
#include "net/spin.h"
#include "net/syscalls.h"
#include "net/tuning.h"
#include "net/udp/udp_link.h"

/* --- the identification ---------------------------------------------------------------- */

/*
 * The packet as it was about to leave, from its Ethernet header on (Linux
 * Documentation/networking/timestamping, 2.1). EAGAIN: the administrator has that forbidden
 * (net.core.tstamp_allow_data).
 */
static int read_sent(int fd, uint16_t *id)
{
	struct {
		struct ether_header ethernet;
		struct iphdr ip;
	} __attribute__((packed)) sent;
	struct iovec vector = {&sent, sizeof(sent)};
	struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
	ssize_t length = sys_recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT);

	if (length < 0)
		return errno;
	if (length < (ssize_t)sizeof(sent) || sent.ip.version != 4 || sent.ip.ihl != 5 ||
	    sent.ip.protocol != IPPROTO_UDP)
		return EPROTO;
	*id = ntohs(sent.ip.id);
	return 0;
}

static int set_timestamping(int fd, int flags)
{
	return setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &flags, sizeof(flags)) < 0 ? errno : 0;
}

/* What the next datagram will have. From an empty one: no receiver takes it for a packet. */
static int learn_id(int fd, uint16_t *next_id)
{
	int error = set_timestamping(fd, SOF_TIMESTAMPING_TX_SCHED | SOF_TIMESTAMPING_SOFTWARE);

	if (error)
		return error;
	if (sys_send(fd, "", 0, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		error = errno;
	set_timestamping(fd, 0);
	if (!error)
		error = read_sent(fd, next_id);
	++*next_id;
	return error;
}

/* --- connecting ------------------------------------------------------------------------- */

/* And there alone: a group that has a socket here may have members behind any interface. */
static bool is_on_this_machine(struct udp_link *link, const union ibv_gid *gid)
{
	struct sock_diag_socket socket;

	return link->diag && !gid_is_multicast(gid) &&
	       !IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *)gid) &&
	       sock_diag_find(link->diag, gid, ROCE_V2_UDP_PORT, NULL, 0, 0, &socket) == 0 &&
	       !socket.wildcard;
}

static int connect_and_learn(struct udp_connection *connection, int fd)
{
	struct sockaddr_storage to;
	socklen_t length = gid_to_sockaddr(&connection->destination, ROCE_V2_UDP_PORT, &to);

	if (sys_connect(fd, &to, length) < 0)
		return errno;
	return gid_is_ipv4(&connection->destination) ? learn_id(fd, &connection->next_id) : 0;
}

/* 0 before Linux 5.14. */
static uint64_t namespace_of(int fd)
{
	uint64_t cookie = 0;
	socklen_t length = sizeof(cookie);

	getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &length);
	return cookie;
}

/* A thread that has left the address's network namespace (unshare(2)) opens sockets in its own. */
static bool has_left(const struct udp_address *address, int fd)
{
	return namespace_of(fd) != namespace_of(descriptor_number(&address->send_fd));
}

static int open_connected(struct udp_connection *connection, const struct udp_address *address)
{
	int fd, error = udp_sender_open(address, &fd);

	if (error)
		return error;
	error = has_left(address, fd) ? EADDRNOTAVAIL : connect_and_learn(connection, fd);
	if (error) {
		sys_close(fd);
		return error;
	}
	connection->segment.length = 0; /* that was another socket's option */
	connection->identity = descriptor_identify(fd);
	__atomic_store_n(&connection->fd, fd, __ATOMIC_RELEASE);
	return 0;
}

static void back_off(struct udp_connection *connection)
{
	connection->state = UDP_REFUSED;
	connection->batches = 0;
	if (connection->backoff < UDP_CONNECT_BACKOFF_MOST)
		connection->backoff *= 2;
}

static void try_to_connect(struct udp_link *link, struct udp_address *address,
			   struct udp_connection *connection)
{
	char text[INET6_ADDRSTRLEN];
	int error = EADDRNOTAVAIL;

	if (is_on_this_machine(link, &connection->destination))
		error = open_connected(connection, address);
	if (error) {
		log_debug("sending to %s without a connection: %s",
			  gid_to_text(&connection->destination, text), strerror(error));
		back_off(connection);
		return;
	}
	connection->state = UDP_CONNECTED;
}

static void disconnect(struct udp_connection *connection)
{
	int fd = descriptor_take(&connection->fd);

	descriptor_close(fd, &connection->identity);
	back_off(connection);
}

void udp_connection_renumber(struct udp_connection *connection)
{
	if (gid_is_ipv4(&connection->destination) && connection->state == UDP_CONNECTED &&
	    learn_id(descriptor_number(&connection->fd), &connection->next_id) != 0)
		connection->state = UDP_REFUSED;
}

/* As Linux translates types and codes of ICMP (net/ipv4/icmp.c, net/ipv6/icmp.c). */
bool udp_is_icmp_error(int error)
{
	switch (error) {
	case ECONNREFUSED:
	case EHOSTUNREACH:
	case ENETUNREACH:
	case EHOSTDOWN:
	case ENONET:
	case ENOPROTOOPT:
	case EOPNOTSUPP:
	case EMSGSIZE:
	case EACCES:
	case EPROTO:
		return true;
	default:
		return false;
	}
}

/* --- segmentation ------------------------------------------------------------------------- */

bool udp_connection_set_segment(struct udp_connection *connection, uint16_t length)
{
	int value = length;

	connection->segment.differing = 0;
	if (connection->segment.length == length)
		return true;
	if (setsockopt(descriptor_number(&connection->fd), IPPROTO_UDP, UDP_SEGMENT, &value,
		       sizeof(value)) < 0)
		return false;
	connection->segment.length = length;
	return true;
}

bool udp_connection_segments_by(struct udp_connection *connection, uint16_t length)
{
	if (connection->segment.length == length) {
		connection->segment.differing = 0;
		return true;
	}
	if (connection->segment.latest != length) {
		connection->segment.latest = length;
		connection->segment.differing = 0;
	}
	return ++connection->segment.differing >= UDP_SEGMENT_AFTER &&
	       udp_connection_set_segment(connection, length);
}

/* --- finding ------------------------------------------------------------------------------ */

static struct udp_connection *find_connection(const struct udp_address *address,
					      const union ibv_gid *destination)
{
	unsigned int count = atomic_load_explicit(&address->connection_count, memory_order_acquire);

	for (unsigned int i = 0; i < count; i++) {
		if (gid_equal(&address->connections[i]->destination, destination))
			return address->connections[i];
	}
	return NULL;
}

static struct udp_connection *add_connection(struct udp_link *link, struct udp_address *address,
					     const union ibv_gid *destination)
{
	unsigned int count = atomic_load_explicit(&address->connection_count, memory_order_acquire);
	struct udp_connection *connection;

	if (count == UDP_CONNECTIONS || pthread_mutex_trylock(&link->lock) != 0)
		return NULL;
	connection = find_connection(address, destination);
	if (!connection && address->connection_count < UDP_CONNECTIONS &&
	    (connection = calloc(1, sizeof(*connection)))) {
		connection->destination = *destination;
		connection->fd = -1;
		connection->backoff = UDP_CONNECT_AFTER;
		spin_init(&connection->lock);
		udp_splice_init(&connection->splice);
		address->connections[address->connection_count] = connection;
		atomic_fetch_add(&address->connection_count, 1);
	}
	pthread_mutex_unlock(&link->lock);
	return connection;
}

struct udp_connection *udp_connection_take(struct udp_link *link, struct udp_address *address,
					   const union ibv_gid *destination)
{
	struct udp_connection *connection = find_connection(address, destination);

	if (!connection)
		connection = add_connection(link, address, destination);
	if (!connection || pthread_spin_trylock(&connection->lock) != 0)
		return NULL;
	if (connection->state != UDP_CONNECTED && ++connection->batches == connection->backoff)
		try_to_connect(link, address, connection);
	if (connection->state == UDP_CONNECTED)
		return connection;
	pthread_spin_unlock(&connection->lock);
	return NULL;
}

void udp_connection_put(struct udp_connection *connection)
{
	if (connection->state == UDP_REFUSED)
		disconnect(connection);
	pthread_spin_unlock(&connection->lock);
}

/* --- all of an address -------------------------------------------------------------------- */

bool udp_connections_verify(struct udp_address *address)
{
	unsigned int count = atomic_load_explicit(&address->connection_count, memory_order_acquire);
	bool intact = true;

	for (unsigned int i = 0; i < count; i++) {
		struct udp_connection *connection = address->connections[i];

		intact &= descriptor_verify(&connection->fd, &connection->identity);
		intact &= udp_splice_verify(&connection->splice);
	}
	return intact;
}

void udp_connections_close(struct udp_address *address)
{
	for (unsigned int i = 0; i < address->connection_count; i++) {
		struct udp_connection *connection = address->connections[i];

		if (connection->fd >= 0)
			sys_close(connection->fd);
		udp_splice_destroy(&connection->splice);
		pthread_spin_destroy(&connection->lock);
		free(connection);
	}
}

void udp_connections_after_fork_child(struct udp_address *address)
{
	for (unsigned int i = 0; i < address->connection_count; i++) {
		struct udp_connection *connection = address->connections[i];

		descriptor_close(descriptor_take(&connection->fd), &connection->identity);
		udp_splice_after_fork_child(&connection->splice);
	}
}
