/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/hca.h"

#include <errno.h>
#include <stdlib.h>

#include "emu/transport/outbox.h"
#include "emu/transport/placement.h"
#include "emu/transport/xrc_remote.h"
#include "net/cause/cause.h"
#include "net/observe/observe.h"
#include "net/share/share.h"
#include "net/spin.h"
#include "net/tuning.h"

/* QP numbers 0 and 1 are special (IBA 3.9.1); small ones look like mistakes in a trace. */
#define FIRST_QPN 17
#define LAST_QPN 0xfffffe

/* Numbers of keys have 24 bits (emu/objects/mr.h). */
#define KEYS_MAX 0xfffffeu

enum ibv_mtu hca_mtu(uint32_t netdev_mtu)
{
	uint32_t payload = netdev_mtu < NETDEV_MTU_HEADERS ? 0 : netdev_mtu - NETDEV_MTU_HEADERS;
	enum ibv_mtu mtu = IBV_MTU_4096;

	while (mtu > IBV_MTU_256 && mtu_bytes(mtu) > payload)
		mtu--;
	return mtu;
}

enum ibv_mtu hca_active_mtu(struct hca *hca, unsigned int port_num)
{
	struct gid_table *gids = port_gids_table(&hca->gids, port_num);
	struct gid_entry entry;
	unsigned int index = 0;

	return gid_table_next(gids, &index, &entry) ? hca_mtu(entry.mtu) : IBV_MTU_1024;
}

struct port_counters *hca_port_counters(struct hca *hca, const union ibv_gid *gid)
{
	struct gid_place place;

	if (hca->limits.device.phys_port_cnt == 1 || !port_gids_find(&hca->gids, gid, &place))
		return NULL;
	return &hca->port_counters[place.port_num - 1];
}

static int show_device(struct hca *hca, const struct hca_options *options)
{
	hca->observe = options->observe;
	hca->observed = observe_claim(hca->observe, OBSERVE_DEVICE, 0);
	if (!hca->observed)
		return ENOMEM;
	hca->counters = &hca->observed->counters;
	hca->observed->open = 1;
	hca->measures = options->measures;
	hca->observed->measures = options->measures;
	hca->observed->guid = htobe64(options->node_guid);
	observe_show(hca->observe, hca->observed);
	return 0;
}

/* What was measured stays, for `urxe stat` to read when the process has ended. */
static void hide_device(struct hca *hca)
{
	if (hca->measures && observe_is_seen(hca->observe, hca->observed))
		hca->observed->open = 0;
	else
		observe_free(hca->observe, OBSERVE_DEVICE, hca->observed);
}

/* Above the numbers of all regions and windows, which leave a key room for its byte. */
static uint32_t key_limit(const struct ibv_device_attr *device)
{
	uint32_t keys = (uint32_t)device->max_mr + (uint32_t)device->max_mw;

	return keys < KEYS_MAX ? keys + 1 : KEYS_MAX + 1;
}

static int create_tables(struct hca *hca)
{
	/* What is shared is leased when it is needed. */
	uint32_t first = hca->link->share ? LAST_QPN : FIRST_QPN;
	int err = table_init(&hca->qps, hca->host, first, LAST_QPN);

	if (err)
		return err;
	err = table_init(&hca->srqs, hca->host, LAST_QPN, LAST_QPN);
	if (err)
		goto free_qps;
	err = table_init(&hca->keys, hca->host, 1, key_limit(&hca->limits.device));
	if (err)
		goto free_srqs;
	err = table_init(&hca->cqs, hca->host, 1, hca->limits.device.max_cq + 1);
	if (err)
		goto free_keys;
	return 0;

free_keys:
	table_destroy(&hca->keys);
free_srqs:
	table_destroy(&hca->srqs);
free_qps:
	table_destroy(&hca->qps);
	return err;
}

static void destroy_tables(struct hca *hca)
{
	table_destroy(&hca->cqs);
	table_destroy(&hca->keys);
	table_destroy(&hca->srqs);
	table_destroy(&hca->qps);
}

static void take_options(struct hca *hca, const struct hca_options *options)
{
	hca->limits = options->limits ? *options->limits : hca_limits_core;
	hca->limits.device.phys_port_cnt = port_gids_count(&options->gids);
	if (options->behaviour)
		hca->behaviour = *options->behaviour;
	hca->link = options->link;
	hca->gids = options->gids;
	hca->host = options->host;
	hca->watch = options->watch;
	hca->deadline = options->deadline;
	hca->deadline_context = options->deadline_context;
	hca->node_guid = options->node_guid;
}

/* What can't fail. */
static void init_parts(struct hca *hca, const struct hca_options *options)
{
	event_queue_init(&hca->events, &options->sink);
	timer_heap_init(&hca->timers);
	packet_pool_init(&hca->packets);
	deferred_init(&hca->deferred);
	ack_queue_init(&hca->acks);
	atomic_init(&hca->polled_at, (uint64_t)-ACK_POLLED_LATELY); /* never */
	pacing_init(&hca->pacing);
	mcast_init(&hca->mcast);
	former_keys_init(&hca->former_keys);
	spin_init(&hca->receive_lock);
	spin_init(&hca->run_lock);
	pthread_mutex_init(&hca->destinations_lock, NULL);
	pthread_mutex_init(&hca->mw_bind_lock, NULL);
	pthread_mutex_init(&hca->objects_lock, NULL);
	pthread_mutex_init(&hca->xrc_lock, NULL);
}

int hca_create(const struct hca_options *options, struct hca **result)
{
	struct hca *hca = calloc(1, sizeof(*hca));
	int err;

	if (!hca)
		return ENOMEM;
	take_options(hca, options);
	inject_init(&hca->inject, options->injector);
	err = create_tables(hca);
	if (err)
		goto free_hca;
	err = show_device(hca, options);
	if (err)
		goto free_tables;
	err = pool_reserve(&hca->outboxes, sizeof(struct outbox));
	if (err)
		goto free_observed;
	err = cm_create(hca, &options->cm_sink, options->seed, &hca->cm);
	if (err)
		goto free_outboxes;
	init_parts(hca, options);
	/* Nodes and runs differ, so that a stale packet or key of one hits nothing in another. */
	hca->qps.cursor = FIRST_QPN + options->seed % (LAST_QPN - FIRST_QPN);
	atomic_store(&hca->key_byte, options->seed >> 32);
	*result = hca;
	return 0;

free_outboxes:
	pool_destroy(&hca->outboxes);
free_observed:
	observe_free(hca->observe, OBSERVE_DEVICE, hca->observed);
free_tables:
	destroy_tables(hca);
free_hca:
	free(hca);
	return err;
}

void hca_destroy(struct hca *hca)
{
	placement_disable(hca);
	cm_destroy(hca->cm);
	mcast_destroy(hca);
	event_queue_destroy(&hca->events);
	timer_heap_destroy(&hca->timers);
	deferred_destroy(&hca->deferred);
	xrc_delegates_destroy(hca);
	destroy_tables(hca);
	former_keys_destroy(&hca->former_keys);
	inject_destroy(hca);
	ack_queue_destroy(&hca->acks);
	pacing_destroy(&hca->pacing);
	pthread_spin_destroy(&hca->receive_lock);
	pthread_spin_destroy(&hca->run_lock);
	pthread_mutex_destroy(&hca->destinations_lock);
	pthread_mutex_destroy(&hca->mw_bind_lock);
	pthread_mutex_destroy(&hca->objects_lock);
	pthread_mutex_destroy(&hca->xrc_lock);
	pool_destroy(&hca->outboxes);
	packet_pool_destroy(&hca->packets);
	hide_device(hca);
	free(hca);
}

/* --- QP numbers ---------------------------------------------------------------------- */

static int lease_qpns(struct hca *hca)
{
	struct share *share = hca->link->share;
	struct lease lease;
	int err = share->ops->lease_qpns(share, &lease);

	if (err)
		return err;
	return table_add_range(&hca->qps, lease.first, lease.count, lease.start);
}

/* @leased: what the lease of more has come to. */
static int refuse_qpn(struct hca *hca, const char *object, int leased)
{
	uint32_t capacity;

	if (leased == ENOMEM || !table_is_full(&hca->qps, &capacity))
		return refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for the number of a %s", object);
	return refuse(ENOMEM, CAUSE_LIMIT_REACHED, "no number is left for a %s", object);
}

/* More are leased when half are in use: a number that was freed isn't used again at once. */
int hca_reserve_qpn(struct hca *hca, const char *object, uint32_t *number)
{
	struct table *qps = &hca->qps;
	bool half_used;
	int leased = 0;

	pthread_mutex_lock(&qps->lock);
	half_used = qps->count >= qps->capacity / 2;
	pthread_mutex_unlock(&qps->lock);
	if (half_used && hca->link->share)
		leased = lease_qpns(hca); /* if it can't, those that we have may still do */
	return table_reserve(qps, number) == 0 ? 0 : refuse_qpn(hca, object, leased);
}

uint32_t hca_next_handle(struct hca *hca)
{
	return atomic_fetch_add(&hca->handle, 1) + 1;
}
