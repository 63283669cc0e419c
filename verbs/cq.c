/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion queues: creation, events, polling. The queue itself is the core's
 * (emu/objects/cq.h), with its own lock.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "net/clock.h"
#include "net/guard.h"
#include "net/tuning.h"
#include "verbs/channel.h"
#include "verbs/context.h"
#include "verbs/cq_ex.h"
#include "verbs/domain.h"
#include "verbs/event.h"
#include "verbs/poll_yield.h"
#include "verbs/preload/export.h"

static struct cq_extra *cq_extra_of(struct cq *cq)
{
	return cq->verbs;
}

static void take_channel(struct ibv_context *context, struct ibv_cq *cq,
			 struct ibv_comp_channel *channel)
{
	cq->channel = channel;
	if (!channel)
		return;
	pthread_mutex_lock(&context->mutex);
	channel->refcnt++;
	pthread_mutex_unlock(&context->mutex);
}

static int create_cq(struct ibv_context *context, uint32_t cqe, void *cq_context,
		     struct ibv_comp_channel *channel, uint32_t comp_vector, struct cq **result)
{
	struct cq_extra *extra;
	struct cq *cq;
	int error;

	if (comp_vector >= (uint32_t)context->num_comp_vectors)
		return refuse(EINVAL, CAUSE_CQ_VECTOR,
			      "comp_vector is %d, the device has %d (num_comp_vectors), from 0 on",
			      (int)comp_vector, context->num_comp_vectors);
	if (channel && channel->context != context)
		return refuse(EINVAL, CAUSE_OTHER_CONTEXT,
			      "ibv_create_cq(): the channel is of another context");
	extra = calloc(1, sizeof(*extra));
	if (!extra)
		return refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for a completion queue");
	error = cq_create(to_hca(context), cqe, &cq);
	if (error) {
		free(extra);
		return error;
	}
	pthread_mutex_init(&extra->poll_lock, NULL);
	extra->completion =
		(struct event_record){.element = cq, .type = EVENT_COMPLETION, .embedded = true};
	cq->verbs = extra;
	cq->ibv.context = context;
	cq->ibv.cq_context = cq_context;
	pthread_mutex_init(&cq->ibv.mutex, NULL);
	pthread_cond_init(&cq->ibv.cond, NULL);
	take_channel(context, &cq->ibv, channel);
	context_get(context);
	*result = cq;
	return 0;
}

struct ibv_cq *urxe_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			      struct ibv_comp_channel *channel, int comp_vector)
{
	struct cq *cq = NULL;
	int error = create_cq(context, cqe, cq_context, channel, comp_vector, &cq);

	return error ? fail(error) : &cq->ibv;
}

/* @flags and @domain: what @attr has of them where its comp_mask says so. */
static int check_create_cq_ex(struct ibv_context *context, const struct ibv_cq_init_attr_ex *attr,
			      uint32_t flags, struct ibv_pd *domain)
{
	const uint32_t masks = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
	const uint32_t known =
		IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
	uint64_t offered = CQ_EX_FLAGS;

	if (!to_hca(context)->limits.completion_timestamp_mask)
		offered &= ~(uint64_t)CQ_EX_TIMESTAMPS;
	if (attr->wc_flags & ~offered)
		return refuse(EOPNOTSUPP, CAUSE_NOT_SUPPORTED,
			      "ibv_create_cq_ex(): wc_flags 0x%" PRIx64, attr->wc_flags & ~offered);
	if (attr->comp_mask & ~masks)
		return refuse(EINVAL, CAUSE_BITS_UNKNOWN,
			      "ibv_create_cq_ex(): comp_mask is 0x%x, unknown are 0x%x",
			      attr->comp_mask, attr->comp_mask & ~masks);
	if (flags & ~known)
		return refuse(EINVAL, CAUSE_BITS_UNKNOWN,
			      "ibv_create_cq_ex(): flags is 0x%x, unknown are 0x%x", flags,
			      flags & ~known);
	if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) && !domain_is_parent(domain, context))
		return refuse(EINVAL, CAUSE_NO_DOMAIN_OF_KIND,
			      "ibv_create_cq_ex(): parent_domain is none of this context");
	return 0;
}

struct ibv_cq_ex *urxe_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	uint32_t flags = attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS ? attr->flags : 0;
	struct ibv_pd *domain =
		attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD ? attr->parent_domain : NULL;
	int error = check_create_cq_ex(context, attr, flags, domain);
	struct cq *cq = NULL;

	if (!error)
		error = create_cq(context, attr->cqe, attr->cq_context, attr->channel,
				  attr->comp_vector, &cq);
	if (error)
		return fail(error);
	if (domain)
		domain_get(domain);
	cq_extra_of(cq)->domain = domain;
	cq_extra_of(cq)->single_threaded = flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
	cq->ignores_overrun = flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
	cq_ex_init(cq, attr->wc_flags);
	return &cq->ex;
}

int urxe_resize_cq(struct ibv_cq *cq, int cqe)
{
	return HANDLE_IS_GOOD(to_cq(cq)) ? cq_resize(to_cq(cq), cqe)
					 : REFUSE_HANDLE(ENOENT, "ibv_resize_cq()", to_cq(cq));
}

static void cq_drain_events(struct cq *cq)
{
	struct cq_extra *extra = cq_extra_of(cq);
	struct context *context = to_context(cq->ibv.context);

	event_drain(context, cq, &cq->ibv.mutex, &cq->ibv.cond, &extra->async_events,
		    &cq->ibv.async_events_completed);
	if (!cq->ibv.channel)
		return;
	event_fd_drop(channel_events(cq->ibv.channel), cq);
	event_wait_acknowledged(&cq->ibv.mutex, &cq->ibv.cond, &extra->completion_events,
				&cq->ibv.comp_events_completed, "ibv_get_cq_event()");
	pthread_mutex_lock(&cq->ibv.context->mutex);
	cq->ibv.channel->refcnt--;
	pthread_mutex_unlock(&cq->ibv.context->mutex);
}

int urxe_destroy_cq(struct ibv_cq *ibv)
{
	struct ibv_context *context = ibv->context;
	struct cq *cq = to_cq(ibv);
	struct cq_extra *extra = cq_extra_of(cq);
	int error;

	if (!HANDLE_IS_GOOD(cq))
		return REFUSE_HANDLE(ENOENT, "ibv_destroy_cq()", cq);
	/* Nothing can complete here any more once no queue pair uses it. */
	error = cq_check_unused(cq);
	if (error)
		return error;
	cq_silence(cq);
	cq_drain_events(cq);
	pthread_cond_destroy(&ibv->cond);
	pthread_mutex_destroy(&ibv->mutex);
	cq_destroy(cq);
	if (extra->domain)
		domain_put(extra->domain);
	pthread_mutex_destroy(&extra->poll_lock);
	free(extra);
	context_put(context);
	return 0;
}

int urxe_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	if (unlikely(!HANDLE_IS_GOOD(to_cq(cq))))
		return set_errno(REFUSE_HANDLE(ENOENT, "ibv_req_notify_cq()", to_cq(cq)));
	guard_thread();
	WATCH(to_cq(cq)->hca, arming, to_cq(cq));
	cq_arm(to_cq(cq), solicited_only);
	/* An application that asks for an event is about to wait for it rather than to poll. */
	if (cq->channel && !channel_is_polled(cq->channel))
		progress_app_sleeping(to_context(cq->context)->device->client);
	return 0;
}

int urxe_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr)
{
	int error;

	if (!HANDLE_IS_GOOD(to_cq(cq)))
		return set_errno(REFUSE_HANDLE(ENOENT, "ibv_modify_cq()", to_cq(cq)));
	if (!attr->attr_mask)
		return set_errno(refuse(EINVAL, CAUSE_CQ_MODIFY_NOTHING, "attr_mask is 0"));
	if (attr->attr_mask & ~(uint32_t)IBV_CQ_ATTR_MODERATE)
		return set_errno(refuse(EOPNOTSUPP, CAUSE_NOT_SUPPORTED,
					"ibv_modify_cq(): attr_mask 0x%x", attr->attr_mask));
	guard_thread();
	error = cq_moderate(to_cq(cq), attr->moderate.cq_count, attr->moderate.cq_period);
	deliver(to_cq(cq)->hca);
	return set_errno(error);
}

static bool is_awaited(const void *hca)
{
	return atomic_load_explicit(&((const struct hca *)hca)->peer_awaited, memory_order_relaxed);
}

/*
 * Before the application learns of what completed. If all that it had under way has completed and
 * its peer is to send next, it may be about to wait for that without polling, as it has before:
 * then this call receives it first, if it comes within PROGRESS_AWAIT.
 */
static void look_whether_awaited(struct cq *cq, struct progress_client *client)
{
	struct device *device = to_context(cq->ibv.context)->device;
	struct hca *hca = cq->hca;
	uint64_t passed;

	if (likely(!is_awaited(hca)))
		return;
	if (progress_awaits(client)) {
		passed = device_poll_while(device, is_awaited, hca, PROGRESS_AWAIT);
		progress_awaited(client, passed, !is_awaited(hca));
		if (!is_awaited(hca))
			return;
	}
	atomic_store_explicit(&hca->peer_awaited, false, memory_order_relaxed);
	progress_app_waits(client);
}

static int take_completed(struct cq *cq, struct progress_client *client,
			  struct completion *completions, int max)
{
	int count = cq_is_empty(cq) ? 0 : cq_poll(cq, completions, max);

	if (count)
		look_whether_awaited(cq, client);
	return count;
}

/* What has completed; when nothing has, making progress may complete something. */
int cq_take(struct cq *cq, struct completion *completions, int max)
{
	struct progress_client *client = to_context(cq->ibv.context)->device->client;
	struct poll_queue queue;
	uint64_t now;
	int count;

	guard_thread();
	WATCH(cq->hca, polling, cq);
	count = take_completed(cq, client, completions, max);
	if (count)
		return count;
	now = clock_now();
	queue = (struct poll_queue){&cq->count, &cq->sleepers, &cq->lock, &cq_extra_of(cq)->turns};
	if (!progress_poll(client, now, &queue) && cq_is_empty(cq))
		hca_acknowledge(cq->hca, now);
	/*
	 * Whatever was done: in all of it this thread may have lost its CPU, and another one
	 * received. Else the application would look next at what came later, an event that the peer
	 * has gone, say, and take what has completed for lost.
	 */
	return take_completed(cq, client, completions, max);
}

#define POLL_BATCH 16

int urxe_poll_cq(struct ibv_cq *ibv, int num_entries, struct ibv_wc *wc)
{
	struct completion completions[POLL_BATCH];
	struct cq *cq = to_cq(ibv);
	int polled = 0;

	if (num_entries < 0)
		return -refuse(EINVAL, CAUSE_CQ_POLL_NUMBER, "num_entries is %d", num_entries);
	while (polled < num_entries) {
		int want = num_entries - polled < POLL_BATCH ? num_entries - polled : POLL_BATCH;
		int count =
			polled ? cq_poll(cq, completions, want) : cq_take(cq, completions, want);

		for (int i = 0; i < count; i++)
			wc[polled++] = completions[i].wc;
		if (count < want)
			break;
	}
	return polled;
}
