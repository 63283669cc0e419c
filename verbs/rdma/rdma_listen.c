/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Listening (rdma_listen(3)). Ports belong to the node, not to the process: so an
 * id that is bound claims its service among all processes on its addresses, before
 * it listens, and another process that wants the port hears so when it binds.
 */
#include <stdlib.h>

#include "net/cause/cause.h"
#include "net/clock.h"
#include "net/log.h"
#include "net/share/share.h"
#include "net/udp/udp_holder.h"
#include "verbs/context.h"
#include "verbs/devices.h"
#include "verbs/rdma/rdma.h"

#define DEFAULT_BACKLOG 1024 /* Linux: net.rdma_ucm.max_backlog */

static void set_listen(const struct rdma_id *id, struct cm_listen *listen)
{
	const struct sockaddr *address = &id->ibv.route.addr.src_addr;
	bool ipv4 = address->sa_family == AF_INET;

	*listen = (struct cm_listen){
		.service_id = rdma_service_id(id, address),
		.ipv4 = ipv4 || address->sa_family == AF_IB || !id->address_family_only,
		.ipv6 = !ipv4,
		.datagram = id->ibv.qp_type == IBV_QPT_UD,
	};
	if (!rdma_sockaddr_is_any(address))
		rdma_sockaddr_gid(address, &listen->gid);
}

/* Returns 0 or an errno. */
static int make_listener(struct rdma_id *id, struct device *device)
{
	int error = cm_id_create(device->hca->cm, id, &id->listeners[id->listener_count]);

	if (!error)
		id->listener_count++;
	return error;
}

int rdma_make_listeners(struct rdma_id *id)
{
	struct device *devices;
	unsigned int count = rdma_open_devices(&devices);
	int error = 0;

	if (id->listeners)
		return 0;
	id->listeners = calloc(count, sizeof(*id->listeners));
	if (!id->listeners)
		return refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for listeners");
	for (unsigned int i = 0; i < count && !error; i++) {
		if (devices[i].hca && (!id->device || id->device == &devices[i]))
			error = make_listener(id, &devices[i]);
	}
	return error;
}

int rdma_claim(const struct rdma_id *id)
{
	struct cm_listen listen;
	int error = 0;

	set_listen(id, &listen);
	for (unsigned int i = 0; i < id->listener_count && !error; i++)
		error = cm_id_claim(id->listeners[i], &listen);
	return error;
}

int rdma_claim_error(int error)
{
	if (error != ENOSPC)
		return error;
	return refuse(EADDRNOTAVAIL, CAUSE_CM_NO_PORT_LEFT, "the processes of this user have all");
}

bool rdma_is_taken(int error)
{
	return error == EADDRINUSE || error == EADDRNOTAVAIL;
}

static pid_t claimant_on(struct port *port, const struct rdma_id *id,
			 const struct sockaddr *address)
{
	struct link *link = port->device->link;
	struct share *share = link ? link->share : NULL;
	const uint64_t service_id = rdma_service_id(id, address);
	struct gid_entry entry;
	union ibv_gid wanted;
	pid_t pid = 0;

	if (!share)
		return 0;
	rdma_sockaddr_gid(address, &wanted);
	for (unsigned int i = 0; gid_table_next(&port->gids, &i, &entry) && !pid; i++) {
		if (rdma_sockaddr_is_any(address) || gid_equal(&entry.gid, &wanted))
			pid = share->ops->claimant(share, &entry.gid, service_id);
	}
	return pid;
}

void rdma_tell_claimant(const struct rdma_id *id, const struct sockaddr *address)
{
	char process[64], text[RDMA_ADDRESS_TEXT];
	struct device *devices;
	unsigned int count;
	struct port *port;
	pid_t pid = 0;

	count = devices_all(&devices); /* those that rdma_cm opened stay open */
	for (unsigned int i = 0; i < count; i++) {
		for (unsigned int j = 1; !pid && (port = device_port(&devices[i], j)); j++)
			pid = claimant_on(port, id, address);
	}
	if (pid)
		udp_process_text(pid, process, sizeof(process));
	refuse(EADDRINUSE, CAUSE_CM_PORT_IN_USE, "%s: %s has it", rdma_address_text(address, text),
	       pid ? process : "another process");
}

/* The connection manager is told without the lock; the progress thread looks for them with it. */
void rdma_stop_listening(struct rdma_id *id)
{
	struct cm_id **listeners;
	unsigned int count;

	rdma_enter();
	listeners = id->listeners;
	count = id->listener_count;
	id->listeners = NULL;
	id->listener_count = 0;
	rdma_leave();
	for (unsigned int i = 0; i < count; i++)
		cm_id_destroy(listeners[i], clock_now());
	free(listeners);
}

static int listen_everywhere(struct rdma_id *id)
{
	struct cm_listen listen;
	int error = 0;

	set_listen(id, &listen);
	for (unsigned int i = 0; i < id->listener_count && !error; i++)
		error = cm_id_listen(id->listeners[i], &listen);
	return error;
}

/* Each returns 0 or an errno; rdma.lock is held. */

static int check_listen(const struct rdma_id *id)
{
	return id->state == RDMA_STATE_ADDRESS_BOUND
		       ? rdma_port_check_listen(id)
		       : rdma_refuse_state(id, "rdma_listen()", "bound to an address");
}

static int prepare_listen(struct rdma_id *id)
{
	int error = check_listen(id);

	return error ? error : rdma_make_listeners(id);
}

static int begin_listening(struct rdma_id *id, int backlog)
{
	int error = check_listen(id);

	if (error)
		return error;
	id->backlog = backlog > 0 && backlog < DEFAULT_BACKLOG ? backlog : DEFAULT_BACKLOG;
	/* Before requests can come. */
	id->state = RDMA_STATE_LISTEN;
	error = listen_everywhere(id);
	if (error)
		id->state = RDMA_STATE_ADDRESS_BOUND;
	return error;
}

int urxe_rdma_listen(struct rdma_cm_id *ibv, int backlog)
{
	static const struct sockaddr_in any = {.sin_family = AF_INET};
	struct rdma_id *id = to_rdma_id(ibv);
	int error, taken = 0;
	bool claimed;

	if (id->state == RDMA_STATE_IDLE && urxe_rdma_bind_addr(ibv, (struct sockaddr *)&any) != 0)
		return -1;
	rdma_enter();
	claimed = id->listeners; /* when it was bound, and for as long as it is */
	error = prepare_listen(id);
	rdma_leave();
	if (!error)
		error = taken = rdma_claim(id);
	rdma_enter();
	if (!error)
		error = begin_listening(id, backlog);
	rdma_leave();
	if (!error) {
		log_info("rdma_cm: listening on port %u",
			 rdma_sockaddr_port(&ibv->route.addr.src_addr));
		return 0;
	}
	if (error == EADDRINUSE || rdma_is_taken(taken))
		rdma_tell_claimant(id, &ibv->route.addr.src_addr);
	if (!claimed && id->state != RDMA_STATE_LISTEN)
		rdma_stop_listening(id);
	return rdma_fail(rdma_claim_error(error));
}
