/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/device.h"

#include <errno.h>
#include <inttypes.h>
#include <net/if_arp.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>
#include <utlist.h>

#include "emu/hca.h"
#include "emu/inject/event.h"
#include "emu/transport/placement.h"
#include "net/cause/cause.h"
#include "net/clock.h"
#include "net/descriptor.h"
#include "net/fault/fault.h"
#include "net/log.h"
#include "net/netdev.h"
#include "net/shm/shm.h"
#include "net/tuning.h"
#include "net/udp/udp.h"
#include "net/udp/udp_holder.h"
#include "verbs/check/work.h"
#include "verbs/context.h"
#include "verbs/event.h"
#include "verbs/host.h"
#include "verbs/inherited.h"
#include "verbs/profile.h"
#include "verbs/registry.h"

_Static_assert(offsetof(struct device, verbs_device_tail) == sizeof(struct ibv_device),
	       "vendor libraries look right behind ibv_device");

#define MESSAGE 512

struct ibv_context *device_mark(struct ibv_device *device, int cmd_fd)
{
	return NULL;
}

/* --- identity --------------------------------------------------------------- */

static bool hardware_address(const char *netdev, uint8_t mac[6])
{
	static const uint8_t none[6];
	struct ifreq answer;

	if (netdev_ask(netdev, SIOCGIFHWADDR, &answer) != 0 ||
	    answer.ifr_hwaddr.sa_family != ARPHRD_ETHER)
		return false;
	memcpy(mac, answer.ifr_hwaddr.sa_data, 6);
	return memcmp(mac, none, 6) != 0;
}

/*
 * EUI-64 of the first port's network device, as rxe has it. Loopback has no hardware address,
 * and each node on it must be told apart: a local identifier (bit 1 of the first
 * byte) made of the IP address. So too for a node that was given its addresses,
 * since other nodes may live on the same network device.
 */
static __be64 make_guid(struct port *port)
{
	uint8_t guid[8] = {0x02, 'u', 'r', 'x'}, mac[6];
	struct gid_entry entry;
	__be64 result;

	if (port_netdev(port, &entry))
		memset(&entry, 0, sizeof(entry));
	if (!port->node && hardware_address(entry.netdev, mac)) {
		uint8_t eui[8] = {mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};

		memcpy(guid, eui, sizeof(guid));
	} else if (gid_is_ipv4(&entry.gid)) {
		memcpy(guid + 4, entry.gid.raw + 12, 4);
	} else {
		for (int i = 0; i < 16; i++)
			guid[4 + i % 4] = guid[4 + i % 4] * 31 + entry.gid.raw[i];
	}
	memcpy(&result, guid, sizeof(result));
	return result;
}

void device_init(struct device *device, const char *name, const char *dev_name)
{
	struct ibv_device *ibv = &device->ibv;

	ibv->_ops._dummy1 = device_mark;
	ibv->node_type = IBV_NODE_CA;
	ibv->transport_type = IBV_TRANSPORT_IB;
	snprintf(ibv->name, sizeof(ibv->name), "%s", name);
	snprintf(ibv->dev_name, sizeof(ibv->dev_name), "%s", dev_name);
	snprintf(ibv->dev_path, sizeof(ibv->dev_path), "/sys/class/infiniband_verbs/%s", dev_name);
	snprintf(ibv->ibdev_path, sizeof(ibv->ibdev_path), "/sys/class/infiniband/%s", name);
	pthread_mutex_init(&device->lock, NULL);
	pthread_mutex_init(&device->contexts_lock, NULL);
	device->watch.socket.fd = -1;
}

/* --- ports ------------------------------------------------------------------- */

struct port *device_port(struct device *device, unsigned int port_num)
{
	return port_gids_table(&device->gids, port_num) ? &device->ports[port_num - 1] : NULL;
}

static int check_all_free(struct port *port)
{
	struct gid_entry entry;
	int error = 0;

	for (unsigned int i = 0; gid_table_next(&port->gids, &i, &entry) && !error; i++)
		error = port_address_free(port, &entry);
	return error;
}

int device_add_port(struct device *device, const char *node)
{
	unsigned int count = port_gids_count(&device->gids);
	struct port *port = &device->ports[count];
	int error;

	if (count == PORTS_MAX)
		return E2BIG;
	error = port_init(port, device, count + 1, node);
	if (error)
		return error;
	error = check_all_free(port);
	if (error) {
		port_destroy(port);
		return error;
	}
	device->gids.tables[count] = &port->gids;
	if (count == 0)
		device->guid = make_guid(port);
	return 0;
}

/* --- up and down ------------------------------------------------------------- */

static int make_link(struct capture *capture, struct link **link)
{
	const struct configuration *configuration = registry_configuration();
	const struct udp_options options = {
		.capture = capture,
		.receive_buffer = configuration->receive_buffer,
		.segmentation = configuration->segmentation,
	};
	const struct shm_options shm = {.icrc = configuration->icrc};
	struct link *inner, *udp;
	int error = udp_link_create(&options, &udp);

	if (error)
		return error;
	inner = udp;
	if (configuration->shared_memory)
		error = shm_link_create(udp, &shm, &inner);
	if (!error)
		error = fault_link_follow(inner, registry_injector(), link);
	if (error)
		inner->ops->close(inner);
	return error;
}

/* Why @gid, or NULL for none of them, can't be bound. A process of ours would share it. */
static void explain(const union ibv_gid *gid, int error, char *text, size_t size)
{
	size_t used;

	if (error == EADDRINUSE && gid) {
		udp_holder_text(gid, ROCE_V2_UDP_PORT, text, size);
	} else if (error == EADDRNOTAVAIL) {
		used = snprintf(text, size, "%s; this machine has ", strerror(error));
		gid_local_text(text + used, size - used);
	} else {
		snprintf(text, size, "%s", strerror(error));
	}
}

/* The addresses as they are now: the device may have been found long ago. */
static int refresh_addresses(struct port *port)
{
	bool changed;
	char reason[MESSAGE];
	int error = gid_table_refresh(&port->gids, port->node, port_address_free, port, &changed);

	if (error && port->node && !descriptor_is_exhaustion(error)) {
		explain(NULL, error, reason, sizeof(reason));
		cause_error(CAUSE_ADDRESS_UNUSABLE, "%s: %s: %s", port->device->ibv.name,
			    port->node, reason);
	}
	port_use_netdev(port);
	return port->node ? error : 0;
}

static int refresh_ports(struct device *device)
{
	struct port *port;
	int error = 0;

	for (unsigned int i = 1; !error && (port = device_port(device, i)); i++)
		error = refresh_addresses(port);
	return error;
}

/*
 * A node that was given its addresses has them all or fails. Of an interface's, or
 * all of the machine's, one that can't be used at the moment (an IPv6 address still
 * tentative) is left out; one that another process has and doesn't share is an error
 * even then.
 */
static int bind_addresses(struct port *port, struct link *link)
{
	char text[INET6_ADDRSTRLEN], reason[MESSAGE];
	const char *name = port->device->ibv.name;
	struct gid_entry entry;
	unsigned int bound = 0;
	int error, last = EADDRNOTAVAIL;

	for (unsigned int i = 0; gid_table_next(&port->gids, &i, &entry); i++) {
		error = link->ops->add_address(link, &entry.gid, entry.ifindex);
		if (!error) {
			bound++;
			continue;
		}
		last = error;
		if (port->node && descriptor_is_exhaustion(error))
			return error;
		gid_to_text(&entry.gid, text);
		if (entry.named || error == EADDRINUSE) {
			explain(&entry.gid, error, reason, sizeof(reason));
			cause_error(error == EADDRINUSE ? CAUSE_ADDRESS_IN_USE
							: CAUSE_ADDRESS_UNUSABLE,
				    "%s: address %s: %s", name, text, reason);
			return error;
		}
		log_info("%s: address %s is left out: %s", name, text, strerror(error));
	}
	if (bound == 0 && !descriptor_is_exhaustion(last))
		cause_error(CAUSE_ADDRESS_UNUSABLE, "%s: no address can be used: %s", name,
			    strerror(last));
	return bound ? 0 : last;
}

static int bind_ports(struct device *device)
{
	struct port *port;
	int error = 0;

	for (unsigned int i = 1; !error && (port = device_port(device, i)); i++)
		error = bind_addresses(port, device->link);
	return error;
}

static void device_deadline_changed(void *context, uint64_t time)
{
	struct device *device = context;
	struct progress_client *client = __atomic_load_n(&device->client, __ATOMIC_ACQUIRE);

	if (client)
		progress_deadline(client, time);
}

void device_flush(const struct device *device)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct hca *hca = device->hca;
	struct qp *qp;

	for (uint32_t number = 0; (qp = table_get_next(&hca->qps, &number)); number++) {
		qp_modify(qp, &attr, IBV_QP_STATE, clock_now());
		table_put(&hca->qps, number);
	}
	event_deliver(&hca->events);
}

/* As a NIC that has stopped answering: what is under way is flushed, and contexts are told. */
static void device_fail(struct device *device, enum cause cause)
{
	void (*removed)(void) = __atomic_load_n(&device->removed, __ATOMIC_ACQUIRE);
	struct progress_client *client = __atomic_load_n(&device->client, __ATOMIC_ACQUIRE);

	if (atomic_exchange(&device->hca->failed, true))
		return;
	cause_report(cause, "%s", device->ibv.name);
	device_flush(device);
	deliver_async(device, IBV_EVENT_DEVICE_FATAL, (void *)(intptr_t)1);
	deliver_no_more(device);
	if (removed)
		removed();
	if (client)
		progress_refresh(client);
}

static bool device_progress(void *context, uint64_t now)
{
	struct device *device = context;
	bool done = hca_progress(device->hca, now);

	if (atomic_load_explicit(&device->link->lost, memory_order_relaxed))
		device_fail(device, CAUSE_DESCRIPTORS_CLOSED);
	else if (injects(device->hca) && inject_is_removed(device->hca))
		device_fail(device, CAUSE_INJECTED_REMOVAL);
	return done;
}

static uint64_t device_deadline(void *context)
{
	return hca_deadline(((struct device *)context)->hca);
}

static bool device_busy(void *context)
{
	return hca_is_busy(((struct device *)context)->hca);
}

static unsigned int device_descriptors(void *context, int *fds, unsigned int max)
{
	struct link *link = ((struct device *)context)->link;

	return link->ops->descriptors(link, fds, max);
}

static void device_connection_event(void *context, const struct cm_event *event)
{
	const struct device *device = context;

	__atomic_load_n(&device->connections, __ATOMIC_ACQUIRE)->event(context, event);
}

static enum cm_verdict device_connection_request(void *context, const struct cm_event *event)
{
	const struct device *device = context;

	return __atomic_load_n(&device->connections, __ATOMIC_ACQUIRE)->request(context, event);
}

static int make_hca(struct device *device, const struct event_sink *sink)
{
	struct hca_options options = {
		.link = device->link,
		.gids = device->gids,
		.host = &process_host,
		.limits = &registry_configuration()->profile->limits,
		.behaviour = &registry_configuration()->profile->behaviour,
		.observe = registry_observe(),
		.injector = registry_injector(),
		.measures = registry_configuration()->stat,
		.watch = work_watch(),
		.sink = *sink,
		.deadline = device_deadline_changed,
		.deadline_context = device,
		.cm_sink = {device_connection_event, device_connection_request, device},
		.node_guid = be64toh(device->guid),
	};
	int error;

	if (getrandom(&options.seed, sizeof(options.seed), 0) != sizeof(options.seed))
		options.seed = clock_now() ^ (uint64_t)getpid() << 32;
	error = hca_create(&options, &device->hca);
	if (error || !registry_configuration()->check.order)
		return error;
	error = placement_enable(device->hca, options.seed);
	if (error) {
		hca_destroy(device->hca);
		device->hca = NULL;
	}
	return error;
}

/* Other processes see the addresses of all ports, as many as there is space for. */
void device_show(struct device *device)
{
	struct observe_device *observed = device->hca->observed;
	uint8_t gids[OBSERVE_GIDS][sizeof(union ibv_gid)] = {};
	unsigned int count = 0;
	struct gid_entry entry;
	struct port *port;

	for (unsigned int i = 1; (port = device_port(device, i)); i++) {
		for (unsigned int j = 0;
		     count < OBSERVE_GIDS && gid_table_next(&port->gids, &j, &entry); j++)
			memcpy(gids[count++], entry.gid.raw, sizeof(gids[0]));
	}
	pthread_mutex_lock(&device->contexts_lock);
	snprintf(observed->name, sizeof(observed->name), "%s", device->ibv.name);
	memcpy(observed->gid, gids, sizeof(gids));
	pthread_mutex_unlock(&device->contexts_lock);
}

static int bring_up(struct device *device, const struct event_sink *sink)
{
	static const struct progress_ops ops = {.progress = device_progress,
						.deadline = device_deadline,
						.descriptors = device_descriptors,
						.busy = device_busy};
	struct progress_client *client;
	struct progress *progress;
	struct capture *capture;
	int error = registry_acquire(&progress, &capture);

	if (error)
		return error;
	error = refresh_ports(device);
	if (!error)
		error = make_link(capture, &device->link);
	if (error)
		goto release;
	error = bind_ports(device);
	if (error)
		goto close;
	error = make_hca(device, sink);
	if (error)
		goto close;
	device_show(device);
	error = progress_attach(progress, &ops, device, &client);
	if (error)
		goto destroy;
	__atomic_store_n(&device->client, client, __ATOMIC_RELEASE);
	device_watch_start(device, progress);
	return 0;

destroy:
	hca_destroy(device->hca);
	device->hca = NULL;
close:
	device->link->ops->close(device->link);
	device->link = NULL;
release:
	registry_release();
	return error;
}

int device_up(struct device *device, const struct event_sink *sink)
{
	int error = 0, state;

	/* Opening files is a cancellation point, and locks are held. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	pthread_mutex_lock(&device->lock);
	if (!device->hca)
		error = bring_up(device, sink);
	else if (device->hca->failed)
		error = refuse(EIO, CAUSE_DEVICE_FAILED, "%s: %u contexts of it are still open",
			       device->ibv.name, device->opened);
	if (!error)
		device->opened++;
	pthread_mutex_unlock(&device->lock);
	pthread_setcancelstate(state, NULL);
	return error;
}

/* Where to begin when a program is slower than expected. */
static void log_traffic(const struct device *device)
{
	const struct counters *counters = device->hca->counters;

	log_info("%s: sent %" PRIu64 " packets, %" PRIu64 " of them again, received %" PRIu64
		 "; %" PRIu64 " timeouts, %" PRIu64 " gaps seen, %" PRIu64 " sequence NAKs",
		 device->ibv.name, counters->sent_pkts, counters->retransmitted_pkts,
		 counters->rcvd_pkts, counters->timeouts, counters->out_of_seq_request,
		 counters->rcvd_seq_err);
}

void device_down(struct device *device)
{
	struct progress_client *client;
	int state;

	/* Closing files and waiting for the progress thread are cancellation points, too. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	pthread_mutex_lock(&device->lock);
	if (--device->opened == 0) {
		client = device->client;
		log_traffic(device);
		device_watch_stop(device);
		__atomic_store_n(&device->client, NULL, __ATOMIC_RELEASE);
		progress_detach(client);
		hca_destroy(device->hca);
		device->link->ops->close(device->link);
		device->hca = NULL;
		device->link = NULL;
		registry_release();
	}
	pthread_mutex_unlock(&device->lock);
	pthread_setcancelstate(state, NULL);
}

bool device_try_lock(struct device *device)
{
	if (pthread_mutex_trylock(&device->lock) != 0)
		return false;
	if (device->hca)
		return true;
	pthread_mutex_unlock(&device->lock);
	return false;
}

void device_unlock(struct device *device)
{
	pthread_mutex_unlock(&device->lock);
}

uint64_t device_poll_while(struct device *device, bool (*waits)(const void *context),
			   const void *context, uint64_t most)
{
	uint64_t begin = clock_now(), before = begin, now = begin;

	while (waits(context) && now - begin < most && now - before < PROGRESS_YIELD_LOST) {
		if (!progress_poll(device->client, now, NULL))
			hca_acknowledge(device->hca, now);
		before = now;
		now = clock_now();
	}
	return now - begin;
}

int device_add_address(struct port *port, const union ibv_gid *gid)
{
	struct device *device = port->device;
	int error;

	pthread_mutex_lock(&device->lock);
	error = gid_table_add(&port->gids, gid, port_receive_on, port);
	if (!error)
		progress_refresh(device->client);
	device_show(device);
	pthread_mutex_unlock(&device->lock);
	return error;
}

void device_before_fork(struct device *device)
{
	pthread_mutex_lock(&device->lock);
	pthread_mutex_lock(&device->contexts_lock);
}

void device_after_fork(struct device *device)
{
	pthread_mutex_unlock(&device->contexts_lock);
	pthread_mutex_unlock(&device->lock);
}

void device_after_fork_child(struct device *device)
{
	struct context *context;
	struct port *port;

	if (device->link && device->link->ops->after_fork_child)
		device->link->ops->after_fork_child(device->link);
	device_watch_after_fork_child(device);
	for (unsigned int i = 1; (port = device_port(device, i)); i++)
		pthread_mutex_init(&port->gids.lock, NULL);
	DL_FOREACH (device->contexts, context)
		context_inherit(context);
	device->contexts = NULL;
	device->channels = NULL;
	device->opened = 0;
	device->waiting = 0; /* those are the parent's threads */
	device->link = NULL;
	device->hca = NULL;
	device->client = NULL;
}
