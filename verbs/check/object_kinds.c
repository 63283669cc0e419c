/* SPDX-License-Identifier: BSD-2-Clause */
/* The kinds of objects in words, and what is read of the application's structures for them. */
#include <rdma/rdma_cma.h>
#include <stdio.h>

#include "net/qp_text.h"
#include "verbs/buf.h"
#include "verbs/check/objects.h"

static void describe_device_list(const void *pointer, char name[OBJECT_NAME])
{
	snprintf(name, OBJECT_NAME, "list of devices %p", pointer);
}

static void describe_context(const void *pointer, char name[OBJECT_NAME])
{
	const struct ibv_context *context = pointer;

	snprintf(name, OBJECT_NAME, "context %p of %s", pointer, context->device->name);
}

static void describe_pd(const void *pointer, char name[OBJECT_NAME])
{
	snprintf(name, OBJECT_NAME, "protection domain %p", pointer);
}

static void describe_td(const void *pointer, char name[OBJECT_NAME])
{
	snprintf(name, OBJECT_NAME, "thread domain %p", pointer);
}

static void describe_mr(const void *pointer, char name[OBJECT_NAME])
{
	const struct ibv_mr *mr = pointer;

	snprintf(name, OBJECT_NAME, "region 0x%x (%zu bytes at %p)", mr->lkey, mr->length,
		 mr->addr);
}

static void describe_mw(const void *pointer, char name[OBJECT_NAME])
{
	const struct ibv_mw *mw = pointer;

	snprintf(name, OBJECT_NAME, "window 0x%x", mw->rkey);
}

static void describe_dm(const void *pointer, char name[OBJECT_NAME])
{
	snprintf(name, OBJECT_NAME, "device memory %p", pointer);
}

static void describe_buf(const void *pointer, char name[OBJECT_NAME])
{
	const struct buf *buf = pointer;

	snprintf(name, OBJECT_NAME, "buffer of %zu bytes at %p", buf->size, buf->address);
}

static void describe_channel(const void *pointer, char name[OBJECT_NAME])
{
	const struct ibv_comp_channel *channel = pointer;

	snprintf(name, OBJECT_NAME, "completion channel with descriptor %d", channel->fd);
}

static void describe_cq(const void *pointer, char name[OBJECT_NAME])
{
	const struct ibv_cq *cq = pointer;

	snprintf(name, OBJECT_NAME, "CQ %p of %d entries", pointer, cq->cqe);
}

static void describe_srq(const void *pointer, char name[OBJECT_NAME])
{
	snprintf(name, OBJECT_NAME, "SRQ %p", pointer);
}

static void describe_qp(const void *pointer, char name[OBJECT_NAME])
{
	const struct ibv_qp *qp = pointer;

	snprintf(name, OBJECT_NAME, "QP 0x%x (%s)", qp->qp_num, qp_type_text(qp->qp_type));
}

static void describe_ah(const void *pointer, char name[OBJECT_NAME])
{
	snprintf(name, OBJECT_NAME, "address handle %p", pointer);
}

static void describe_xrcd(const void *pointer, char name[OBJECT_NAME])
{
	snprintf(name, OBJECT_NAME, "XRC domain %p", pointer);
}

static void describe_cm_channel(const void *pointer, char name[OBJECT_NAME])
{
	const struct rdma_event_channel *channel = pointer;

	snprintf(name, OBJECT_NAME, "event channel with descriptor %d", channel->fd);
}

static void describe_cm_id(const void *pointer, char name[OBJECT_NAME])
{
	snprintf(name, OBJECT_NAME, "rdma_cm_id %p", pointer);
}

static void describe_cm_event(const void *pointer, char name[OBJECT_NAME])
{
	const struct rdma_cm_event *event = pointer;

	snprintf(name, OBJECT_NAME, "event %s", rdma_event_str(event->event));
}

static void describe_cm_devices(const void *pointer, char name[OBJECT_NAME])
{
	snprintf(name, OBJECT_NAME, "list %p", pointer);
}

static void describe_addrinfo(const void *pointer, char name[OBJECT_NAME])
{
	snprintf(name, OBJECT_NAME, "rdma_addrinfo %p", pointer);
}

/* Objects of libibverbs begin with their context. */
static const struct ibv_context *first_member(const void *pointer)
{
	return *(const struct ibv_context *const *)pointer;
}

static const struct ibv_context *of_id(const void *pointer)
{
	return ((const struct rdma_cm_id *)pointer)->verbs;
}

static const struct kind {
	const char *one, *many, *destroyer;
	void (*describe)(const void *pointer, char name[OBJECT_NAME]);
	const struct ibv_context *(*context)(const void *pointer);
} kinds[] = {
	[OBJECT_DEVICE_LIST] = {"device list", "device lists", "ibv_free_device_list()",
				describe_device_list, NULL},
	[OBJECT_CONTEXT] = {"device context", "device contexts", "ibv_close_device()",
			    describe_context, NULL},
	[OBJECT_PD] = {"protection domain", "protection domains", "ibv_dealloc_pd()", describe_pd,
		       first_member},
	[OBJECT_TD] = {"thread domain", "thread domains", "ibv_dealloc_td()", describe_td,
		       first_member},
	[OBJECT_MR] = {"memory region", "memory regions", "ibv_dereg_mr()", describe_mr,
		       first_member},
	[OBJECT_MW] = {"memory window", "memory windows", "ibv_dealloc_mw()", describe_mw,
		       first_member},
	[OBJECT_DM] = {"device memory", "device memories", "ibv_free_dm()", describe_dm,
		       first_member},
	[OBJECT_BUF] = {"buffer", "buffers", "ibv_free_buf()", describe_buf, first_member},
	[OBJECT_CHANNEL] = {"completion channel", "completion channels",
			    "ibv_destroy_comp_channel()", describe_channel, first_member},
	[OBJECT_CQ] = {"completion queue", "completion queues", "ibv_destroy_cq()", describe_cq,
		       first_member},
	[OBJECT_SRQ] = {"shared receive queue", "shared receive queues", "ibv_destroy_srq()",
			describe_srq, first_member},
	[OBJECT_QP] = {"queue pair", "queue pairs", "ibv_destroy_qp()", describe_qp, first_member},
	[OBJECT_AH] = {"address handle", "address handles", "ibv_destroy_ah()", describe_ah,
		       first_member},
	[OBJECT_XRCD] = {"XRC domain", "XRC domains", "ibv_close_xrcd()", describe_xrcd,
			 first_member},
	[OBJECT_CM_CHANNEL] = {"event channel", "event channels", "rdma_destroy_event_channel()",
			       describe_cm_channel, NULL},
	[OBJECT_CM_ID] = {"rdma_cm_id", "rdma_cm_ids", "rdma_destroy_id()", describe_cm_id, of_id},
	[OBJECT_CM_EVENT] = {"event of rdma_cm", "events of rdma_cm", "rdma_ack_cm_event()",
			     describe_cm_event, NULL},
	[OBJECT_CM_DEVICES] = {"list of rdma_get_devices()", "lists of rdma_get_devices()",
			       "rdma_free_devices()", describe_cm_devices, NULL},
	[OBJECT_ADDRINFO] = {"rdma_addrinfo", "rdma_addrinfos", "rdma_freeaddrinfo()",
			     describe_addrinfo, NULL},
};

const char *object_kind_text(enum object_kind kind, unsigned int count)
{
	return count == 1 ? kinds[kind].one : kinds[kind].many;
}

const char *object_destroyer(enum object_kind kind)
{
	return kinds[kind].destroyer;
}

void object_describe(enum object_kind kind, const void *pointer, char name[OBJECT_NAME])
{
	kinds[kind].describe(pointer, name);
}

const struct ibv_context *object_context(enum object_kind kind, const void *pointer)
{
	return kinds[kind].context ? kinds[kind].context(pointer) : NULL;
}
