/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC as it was before rdma-core: ibv_open_xrc_domain() and its like, for programs that call them.
 * A layer over ibv_open_xrcd(), ibv_create_srq_ex() and ibv_open_qp(). Included by our
 * <infiniband/verbs.h>.
 *
 * Four structures had members then that they don't have today. Behind this header their names stand
 * for structures that have them, and are laid out as today's in everything else, so that what the
 * library has made or is given is the same object; calls that take one are converted. Not there:
 * srq->xrc_domain and srq->xrc_cq, for which today's SRQ has no place.
 *
 * A receive QP lived in the kernel, and processes registered for it by its number. Today each has a
 * handle of its own; a domain keeps those of this process, under its lock.
 */
#ifndef INFINIBAND_OFA_VERBS_H
#define INFINIBAND_OFA_VERBS_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__cplusplus) && __cplusplus < 201103L
#define OFA_SAME(a, b) typedef char ofa_same[(a) == (b) ? 1 : -1]
#elif defined(__cplusplus)
#define OFA_SAME(a, b) static_assert((a) == (b), "not laid out as in <infiniband/verbs.h>")
#else
#define OFA_SAME(a, b) _Static_assert((a) == (b), "not laid out as in <infiniband/verbs.h>")
#endif
#define OFA_SAME_MEMBER(type, member)                                                              \
	OFA_SAME(offsetof(struct ofa_##type, member), offsetof(struct ibv_##type, member))

/* What a program asks for; today's name says which end. */
#define IBV_QPT_XRC IBV_QPT_XRC_SEND

enum ibv_event_flags {
	IBV_XRC_QP_EVENT_FLAG = 0x80000000,
};

struct ofa_xrc_rcv_qp {
	struct ofa_xrc_rcv_qp *next;
	struct ibv_qp *qp;
};

struct ibv_xrc_domain {
	struct ibv_context *context;
	uint32_t handle; /* was the kernel's; 0 */
	struct ibv_xrcd *xrcd;
	pthread_mutex_t lock;
	struct ofa_xrc_rcv_qp *registered; /* by this process */
};

/* --- the structures ------------------------------------------------------------ */

struct __attribute__((may_alias)) ofa_srq {
	struct ibv_context *context;
	void *srq_context;
	struct ibv_pd *pd;
	uint32_t handle;
	uint32_t xrc_srq_num; /* today: padding */
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t events_completed;
};
OFA_SAME(sizeof(struct ofa_srq), sizeof(struct ibv_srq));
OFA_SAME_MEMBER(srq, handle);
OFA_SAME_MEMBER(srq, mutex);
OFA_SAME_MEMBER(srq, events_completed);

/* Longer than today's, so never written as one. */
struct __attribute__((may_alias)) ofa_qp_init_attr {
	void *qp_context;
	struct ibv_cq *send_cq, *recv_cq;
	struct ofa_srq *srq;
	struct ibv_qp_cap cap;
	enum ibv_qp_type qp_type;
	int sq_sig_all;
	struct ibv_xrc_domain *xrc_domain;
};
OFA_SAME(offsetof(struct ofa_qp_init_attr, xrc_domain), sizeof(struct ibv_qp_init_attr));
OFA_SAME_MEMBER(qp_init_attr, cap);
OFA_SAME_MEMBER(qp_init_attr, sq_sig_all);

struct __attribute__((may_alias)) ofa_send_wr {
	uint64_t wr_id;
	struct ofa_send_wr *next;
	struct ibv_sge *sg_list;
	int num_sge;
	enum ibv_wr_opcode opcode;
	unsigned int send_flags;
	union {
		uint32_t imm_data; /* network byte order */
		uint32_t invalidate_rkey;
	};
	union {
		struct {
			uint64_t remote_addr;
			uint32_t rkey;
		} rdma;
		struct {
			uint64_t remote_addr, compare_add, swap;
			uint32_t rkey;
		} atomic;
		struct {
			struct ibv_ah *ah;
			uint32_t remote_qpn, remote_qkey;
		} ud;
	} wr;
	union {
		union {
			struct {
				uint32_t remote_srqn;
			} xrc;
		} qp_type;
		uint32_t xrc_remote_srq_num;
	};
	union {
		struct {
			struct ibv_mw *mw;
			uint32_t rkey;
			struct ibv_mw_bind_info bind_info;
		} bind_mw;
		struct {
			void *hdr;
			uint16_t hdr_sz, mss;
		} tso;
	};
};
OFA_SAME(sizeof(struct ofa_send_wr), sizeof(struct ibv_send_wr));
OFA_SAME_MEMBER(send_wr, imm_data);
OFA_SAME_MEMBER(send_wr, wr);
OFA_SAME_MEMBER(send_wr, qp_type);
OFA_SAME_MEMBER(send_wr, bind_mw);

struct __attribute__((may_alias)) ofa_async_event {
	union {
		struct ibv_cq *cq;
		struct ibv_qp *qp;
		struct ofa_srq *srq;
		struct ibv_wq *wq;
		int port_num;
		uint32_t xrc_qp_num; /* with IBV_XRC_QP_EVENT_FLAG */
	} element;
	enum ibv_event_type event_type;
};
OFA_SAME(sizeof(struct ofa_async_event), sizeof(struct ibv_async_event));
OFA_SAME_MEMBER(async_event, event_type);

/* --- calls of today that take one -------------------------------------------------- */

static inline struct ofa_srq *ofa_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	return (struct ofa_srq *)ibv_create_srq(pd, attr);
}

static inline struct ofa_srq *ofa_create_srq_ex(struct ibv_context *context,
						struct ibv_srq_init_attr_ex *attr)
{
	return (struct ofa_srq *)ibv_create_srq_ex(context, attr);
}

static inline int ofa_modify_srq(struct ofa_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	return ibv_modify_srq((struct ibv_srq *)srq, attr, mask);
}

static inline int ofa_query_srq(struct ofa_srq *srq, struct ibv_srq_attr *attr)
{
	return ibv_query_srq((struct ibv_srq *)srq, attr);
}

static inline int ofa_get_srq_num(struct ofa_srq *srq, uint32_t *number)
{
	return ibv_get_srq_num((struct ibv_srq *)srq, number);
}

static inline int ofa_post_srq_recv(struct ofa_srq *srq, struct ibv_recv_wr *wr,
				    struct ibv_recv_wr **bad_wr)
{
	return ibv_post_srq_recv((struct ibv_srq *)srq, wr, bad_wr);
}

static inline int ofa_post_srq_ops(struct ofa_srq *srq, struct ibv_ops_wr *op,
				   struct ibv_ops_wr **bad_op)
{
	return ibv_post_srq_ops((struct ibv_srq *)srq, op, bad_op);
}

static inline int ofa_destroy_srq(struct ofa_srq *srq)
{
	return ibv_destroy_srq((struct ibv_srq *)srq);
}

static inline struct ibv_qp *ofa_create_qp(struct ibv_pd *pd, struct ofa_qp_init_attr *attr)
{
	return ibv_create_qp(pd, (struct ibv_qp_init_attr *)attr);
}

static inline int ofa_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
			       struct ofa_qp_init_attr *init)
{
	init->xrc_domain = NULL;
	return ibv_query_qp(qp, attr, mask, (struct ibv_qp_init_attr *)init);
}

static inline int ofa_post_send(struct ibv_qp *qp, struct ofa_send_wr *wr,
				struct ofa_send_wr **bad_wr)
{
	struct ibv_send_wr *bad = NULL;
	int error = ibv_post_send(qp, (struct ibv_send_wr *)wr, &bad);

	if (error)
		*bad_wr = (struct ofa_send_wr *)bad;
	return error;
}

/* One of a receive QP is told by its number, and needs no acknowledgement. */
static inline int ofa_get_async_event(struct ibv_context *context, struct ofa_async_event *event)
{
	struct ibv_async_event today;

	if (ibv_get_async_event(context, &today))
		return -1;
	event->event_type = today.event_type;
	memcpy(&event->element, &today.element, sizeof(today.element));
	switch (today.event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
		if (today.element.qp->qp_type != IBV_QPT_XRC_RECV)
			break;
		event->event_type = (enum ibv_event_type)(today.event_type |
							  (unsigned int)IBV_XRC_QP_EVENT_FLAG);
		event->element.xrc_qp_num = today.element.qp->qp_num;
		ibv_ack_async_event(&today);
		break;
	default:
		break;
	}
	return 0;
}

static inline void ofa_ack_async_event(struct ofa_async_event *event)
{
	if (!((unsigned int)event->event_type & (unsigned int)IBV_XRC_QP_EVENT_FLAG))
		ibv_ack_async_event((struct ibv_async_event *)event);
}

/* --- receive QPs --------------------------------------------------------------------- */

/* The link to the entry of @qp_num, or to NULL. The domain is locked. */
static inline struct ofa_xrc_rcv_qp **ofa_find_rcv_qp(struct ibv_xrc_domain *domain,
						      uint32_t qp_num)
{
	struct ofa_xrc_rcv_qp **link = &domain->registered;

	while (*link && (*link)->qp->qp_num != qp_num)
		link = &(*link)->next;
	return link;
}

static inline struct ibv_qp *ofa_open_rcv_qp(struct ibv_xrc_domain *domain, uint32_t qp_num)
{
	struct ibv_qp_open_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
	attr.qp_num = qp_num;
	attr.xrcd = domain->xrcd;
	attr.qp_type = IBV_QPT_XRC_RECV;
	return ibv_open_qp(domain->context, &attr);
}

/* As it is registered, or opened for one call; NULL: there is none. The domain stays locked. */
static inline struct ibv_qp *ofa_get_rcv_qp(struct ibv_xrc_domain *domain, uint32_t qp_num)
{
	struct ofa_xrc_rcv_qp *entry;

	pthread_mutex_lock(&domain->lock);
	entry = *ofa_find_rcv_qp(domain, qp_num);
	return entry ? entry->qp : ofa_open_rcv_qp(domain, qp_num);
}

/* Unlocks the domain. */
static inline void ofa_put_rcv_qp(struct ibv_xrc_domain *domain, struct ibv_qp *qp)
{
	if (qp && !*ofa_find_rcv_qp(domain, qp->qp_num))
		ibv_destroy_qp(qp);
	pthread_mutex_unlock(&domain->lock);
}

/* Only attr->xrc_domain counts. Registers this process, too. Returns 0 or an errno. */
static inline int ibv_create_xrc_rcv_qp(struct ofa_qp_init_attr *attr, uint32_t *xrc_rcv_qpn)
{
	struct ibv_xrc_domain *domain = attr->xrc_domain;
	struct ofa_xrc_rcv_qp *entry;
	struct ibv_qp_init_attr_ex init;
	int error;

	if (!domain)
		return EINVAL;
	entry = (struct ofa_xrc_rcv_qp *)malloc(sizeof(*entry));
	if (!entry)
		return ENOMEM;
	memset(&init, 0, sizeof(init));
	init.qp_type = IBV_QPT_XRC_RECV;
	init.comp_mask = IBV_QP_INIT_ATTR_XRCD;
	init.xrcd = domain->xrcd;
	entry->qp = ibv_create_qp_ex(domain->context, &init);
	if (!entry->qp) {
		error = errno;
		free(entry);
		return error;
	}
	pthread_mutex_lock(&domain->lock);
	entry->next = domain->registered;
	domain->registered = entry;
	pthread_mutex_unlock(&domain->lock);
	*xrc_rcv_qpn = entry->qp->qp_num;
	return 0;
}

/* Registering twice is registering once. EINVAL: the domain has no such receive QP. */
static inline int ibv_reg_xrc_rcv_qp(struct ibv_xrc_domain *domain, uint32_t xrc_qp_num)
{
	struct ofa_xrc_rcv_qp **link, *entry;
	int error = 0;

	pthread_mutex_lock(&domain->lock);
	link = ofa_find_rcv_qp(domain, xrc_qp_num);
	if (!*link) {
		entry = (struct ofa_xrc_rcv_qp *)calloc(1, sizeof(*entry));
		if (entry)
			entry->qp = ofa_open_rcv_qp(domain, xrc_qp_num);
		if (entry && entry->qp) {
			*link = entry;
		} else {
			error = entry && errno != ENOMEM ? EINVAL : ENOMEM;
			free(entry);
		}
	}
	pthread_mutex_unlock(&domain->lock);
	return error;
}

/* The QP is destroyed with its last registration. */
static inline int ibv_unreg_xrc_rcv_qp(struct ibv_xrc_domain *domain, uint32_t xrc_qp_num)
{
	struct ofa_xrc_rcv_qp **link, *entry;
	int error = EINVAL;

	pthread_mutex_lock(&domain->lock);
	link = ofa_find_rcv_qp(domain, xrc_qp_num);
	entry = *link;
	if (entry) {
		error = ibv_destroy_qp(entry->qp);
		if (!error) {
			*link = entry->next;
			free(entry);
		}
	}
	pthread_mutex_unlock(&domain->lock);
	return error;
}

static inline int ibv_modify_xrc_rcv_qp(struct ibv_xrc_domain *domain, uint32_t xrc_qp_num,
					struct ibv_qp_attr *attr, int attr_mask)
{
	struct ibv_qp *qp = ofa_get_rcv_qp(domain, xrc_qp_num);
	int error = EINVAL;

	if (qp)
		error = ibv_modify_qp(qp, attr, attr_mask);
	ofa_put_rcv_qp(domain, qp);
	return error;
}

static inline int ibv_query_xrc_rcv_qp(struct ibv_xrc_domain *domain, uint32_t xrc_qp_num,
				       struct ibv_qp_attr *attr, int attr_mask,
				       struct ofa_qp_init_attr *init_attr)
{
	struct ibv_qp *qp = ofa_get_rcv_qp(domain, xrc_qp_num);
	int error = EINVAL;

	if (qp)
		error = ofa_query_qp(qp, attr, attr_mask, init_attr);
	if (!error)
		init_attr->xrc_domain = domain;
	ofa_put_rcv_qp(domain, qp);
	return error;
}

/* --- domains and their SRQs ------------------------------------------------------------ */

static inline struct ibv_xrc_domain *ibv_open_xrc_domain(struct ibv_context *context, int fd,
							 int oflag)
{
	struct ibv_xrc_domain *domain = (struct ibv_xrc_domain *)calloc(1, sizeof(*domain));
	struct ibv_xrcd_init_attr init;
	int error;

	if (!domain) {
		errno = ENOMEM;
		return NULL;
	}
	memset(&init, 0, sizeof(init));
	init.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
	init.fd = fd;
	init.oflags = oflag;
	domain->context = context;
	domain->xrcd = ibv_open_xrcd(context, &init);
	if (!domain->xrcd) {
		error = errno;
		free(domain);
		errno = error;
		return NULL;
	}
	pthread_mutex_init(&domain->lock, NULL);
	return domain;
}

static inline int ibv_close_xrc_domain(struct ibv_xrc_domain *domain)
{
	int error = domain->registered ? EBUSY : ibv_close_xrcd(domain->xrcd);

	if (!error) {
		pthread_mutex_destroy(&domain->lock);
		free(domain);
	}
	return error;
}

static inline struct ofa_srq *ibv_create_xrc_srq(struct ibv_pd *pd, struct ibv_xrc_domain *domain,
						 struct ibv_cq *xrc_cq,
						 struct ibv_srq_init_attr *attr)
{
	struct ibv_srq_init_attr_ex init;
	struct ofa_srq *srq;
	int error;

	memset(&init, 0, sizeof(init));
	init.srq_context = attr->srq_context;
	init.attr = attr->attr;
	init.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
			 IBV_SRQ_INIT_ATTR_CQ;
	init.srq_type = IBV_SRQT_XRC;
	init.pd = pd;
	init.xrcd = domain->xrcd;
	init.cq = xrc_cq;
	srq = ofa_create_srq_ex(pd->context, &init);
	if (!srq)
		return NULL;
	error = ofa_get_srq_num(srq, &srq->xrc_srq_num);
	if (error) {
		ofa_destroy_srq(srq);
		errno = error;
		return NULL;
	}
	attr->attr = init.attr;
	return srq;
}

#ifdef __cplusplus
}
#endif

#define ibv_srq ofa_srq
#define ibv_qp_init_attr ofa_qp_init_attr
#define ibv_send_wr ofa_send_wr
#define ibv_async_event ofa_async_event
#define ibv_create_srq ofa_create_srq
#define ibv_create_srq_ex ofa_create_srq_ex
#define ibv_modify_srq ofa_modify_srq
#define ibv_query_srq ofa_query_srq
#define ibv_get_srq_num ofa_get_srq_num
#define ibv_post_srq_recv ofa_post_srq_recv
#define ibv_post_srq_ops ofa_post_srq_ops
#define ibv_destroy_srq ofa_destroy_srq
#define ibv_create_qp ofa_create_qp
#define ibv_query_qp ofa_query_qp
#define ibv_post_send ofa_post_send
#define ibv_get_async_event ofa_get_async_event
#define ibv_ack_async_event ofa_ack_async_event

#undef OFA_SAME
#undef OFA_SAME_MEMBER

#endif
