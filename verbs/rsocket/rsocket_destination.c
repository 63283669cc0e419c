/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The addresses that datagrams go to or came from: from which of ours they are reached, and by
 * which queue pair of theirs, once that is known.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "net/cause/cause.h"
#include "net/route.h"
#include "verbs/rsocket/rsocket_datagram_internal.h"

/*
 * So many addresses are remembered, for any host may send from as many as it likes. Datagrams to
 * one that was forgotten go by UDP again, until its queue pair is known anew.
 */
#define DESTINATIONS_MOST 1024

static bool same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	if (a->ss_family != b->ss_family)
		return false;
	if (a->ss_family == AF_INET)
		return ((const struct sockaddr_in *)a)->sin_addr.s_addr ==
		       ((const struct sockaddr_in *)b)->sin_addr.s_addr;
	return memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr,
		      &((const struct sockaddr_in6 *)b)->sin6_addr, 16) == 0;
}

bool rsocket_destination_is(const struct destination_address *destination,
			    const struct sockaddr_storage *address)
{
	return same_host(&destination->address, address) &&
	       datagram_port(&destination->address) == datagram_port(address);
}

static struct destination_address *find_destination(struct rsocket *rs,
						    const struct sockaddr_storage *address)
{
	struct destination_address *destination;

	DL_FOREACH (rs->datagram->destinations, destination) {
		if (rsocket_destination_is(destination, address))
			break;
	}
	if (destination) {
		DL_DELETE(rs->datagram->destinations, destination);
		DL_PREPEND(rs->datagram->destinations, destination);
	}
	return destination;
}

void rsocket_destination_forget(struct rsocket_datagram *datagram,
				struct destination_address *destination)
{
	DL_DELETE(datagram->destinations, destination);
	datagram->destination_count--;
	if (destination->ah)
		ibv_destroy_ah(destination->ah);
	free(destination);
}

/* The one that was looked for longest ago, if there are too many. */
static void forget_oldest(struct rsocket_datagram *datagram)
{
	struct destination_address *oldest = datagram->destinations->prev;

	if (datagram->destination_count <= DESTINATIONS_MOST)
		return;
	while (oldest->users && oldest != datagram->destinations)
		oldest = oldest->prev;
	if (oldest != datagram->destinations)
		rsocket_destination_forget(datagram, oldest);
}

/* The endpoint of our address @local, whose port is the socket's. NULL: no device has it. */
static struct endpoint *find_endpoint(struct rsocket *rs, const struct sockaddr_storage *local)
{
	struct rsocket_datagram *datagram = rs->datagram;
	struct endpoint *endpoint;

	for (unsigned int i = 0; i < datagram->count; i++) {
		if (same_host(&datagram->endpoints[i]->local, local))
			return datagram->endpoints[i];
	}
	if (datagram->count == RSOCKET_ENDPOINTS)
		return NULL;
	endpoint = endpoint_create(&rs->options, local);
	if (endpoint)
		datagram->endpoints[datagram->count++] = endpoint;
	return endpoint;
}

/* The address that the kernel would send to @remote from: *@local. */
static int find_local(const struct rsocket *rs, const struct sockaddr_storage *remote,
		      struct sockaddr_storage *local)
{
	struct sockaddr_storage bound;
	socklen_t length = sizeof(bound);
	int error;

	if (getsockname(rs->fd, (struct sockaddr *)&bound, &length) < 0)
		return errno;
	*local = (struct sockaddr_storage){0};
	error = route_ask((const struct sockaddr *)remote, local, NULL);
	if (error)
		return error;
	/* It was bound to one, perhaps another than the kernel would choose. */
	if (!endpoint_is_any(&bound))
		*local = bound;
	((struct sockaddr_in *)local)->sin_port = datagram_port(&bound);
	return 0;
}

int rsocket_destination_add(struct rsocket *rs, const struct sockaddr_storage *address,
			    struct destination_address **result)
{
	struct destination_address *destination = find_destination(rs, address);
	struct sockaddr_storage local;
	int error;

	*result = destination;
	if (destination)
		return 0;
	error = find_local(rs, address, &local);
	if (error)
		return error;
	destination = calloc(1, sizeof(*destination));
	if (!destination)
		return refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for an address of an rsocket");
	destination->address = *address;
	destination->local = local;
	destination->endpoint = find_endpoint(rs, &local);
	DL_PREPEND(rs->datagram->destinations, destination);
	rs->datagram->destination_count++;
	forget_oldest(rs->datagram);
	*result = destination;
	return 0;
}
