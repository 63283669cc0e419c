/* SPDX-License-Identifier: BSD-2-Clause */
/* Included by verbs_exp.h: completion queues, with timestamps and without. */
#ifndef INFINIBAND_VERBS_EXP_CQ_H
#define INFINIBAND_VERBS_EXP_CQ_H

#include <infiniband/verbs_exp/common.h>
#include <pthread.h>
#include <stdlib.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Timestamps are had from extended CQs alone, and a CQ doesn't say whether it is one: so those that
 * ibv_exp_create_cq() made with timestamps are on this list, until ibv_destroy_cq().
 */
struct verbs_exp_timestamp_cq {
	struct verbs_exp_timestamp_cq *next;
	struct ibv_cq_ex *cq;
	int wall_clock;
};

struct verbs_exp_timestamp_cqs {
	pthread_mutex_t lock;
	struct verbs_exp_timestamp_cq *first;
};

extern struct verbs_exp_timestamp_cqs verbs_exp_timestamp_cqs;
__attribute__((weak)) struct verbs_exp_timestamp_cqs verbs_exp_timestamp_cqs = {
	PTHREAD_MUTEX_INITIALIZER, NULL};

static inline void verbs_exp_link_cq(struct verbs_exp_timestamp_cq *entry)
{
	pthread_mutex_lock(&verbs_exp_timestamp_cqs.lock);
	entry->next = verbs_exp_timestamp_cqs.first;
	__atomic_store_n(&verbs_exp_timestamp_cqs.first, entry, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&verbs_exp_timestamp_cqs.lock);
}

/* The entry of @cq, which is now the caller's; or NULL. */
static inline struct verbs_exp_timestamp_cq *verbs_exp_unlink_cq(const struct ibv_cq *cq)
{
	struct verbs_exp_timestamp_cq **link = &verbs_exp_timestamp_cqs.first, *entry;

	pthread_mutex_lock(&verbs_exp_timestamp_cqs.lock);
	while ((entry = *link) != NULL && (const void *)entry->cq != (const void *)cq)
		link = &entry->next;
	if (entry)
		__atomic_store_n(link, entry->next, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&verbs_exp_timestamp_cqs.lock);
	return entry;
}

/* The extended CQ that @cq is, or NULL. */
static inline struct ibv_cq_ex *verbs_exp_find_cq(const struct ibv_cq *cq, int *wall_clock)
{
	struct ibv_cq_ex *found = NULL;

	if (!__atomic_load_n(&verbs_exp_timestamp_cqs.first, __ATOMIC_ACQUIRE))
		return NULL;
	pthread_mutex_lock(&verbs_exp_timestamp_cqs.lock);
	for (struct verbs_exp_timestamp_cq *c = verbs_exp_timestamp_cqs.first; c && !found;
	     c = c->next) {
		if ((const void *)c->cq == (const void *)cq) {
			found = c->cq;
			*wall_clock = c->wall_clock;
		}
	}
	pthread_mutex_unlock(&verbs_exp_timestamp_cqs.lock);
	return found;
}

/* Off the list first: the CQ's address may be another's as soon as it is gone. */
static inline int verbs_exp_destroy_cq(struct ibv_cq *cq)
{
	struct verbs_exp_timestamp_cq *entry = verbs_exp_unlink_cq(cq);
	int error = ibv_destroy_cq(cq);

	if (error && entry)
		verbs_exp_link_cq(entry);
	else
		free(entry);
	return error;
}
#define ibv_destroy_cq verbs_exp_destroy_cq

static inline struct ibv_cq *verbs_exp_create_timestamp_cq(struct ibv_context *context,
							   struct ibv_cq_init_attr_ex *init,
							   int wall_clock)
{
	struct verbs_exp_timestamp_cq *entry =
		(struct verbs_exp_timestamp_cq *)malloc(sizeof(*entry));

	if (!entry)
		return (struct ibv_cq *)verbs_exp_null(ENOMEM);
	init->wc_flags = (uint64_t)IBV_WC_STANDARD_FLAGS |
			 (wall_clock ? (uint64_t)IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK
				     : (uint64_t)IBV_WC_EX_WITH_COMPLETION_TIMESTAMP);
	entry->cq = ibv_create_cq_ex(context, init);
	entry->wall_clock = wall_clock;
	if (!entry->cq) {
		int error = errno;

		free(entry);
		return (struct ibv_cq *)verbs_exp_null(error);
	}
	verbs_exp_link_cq(entry);
	return ibv_cq_ex_to_cq(entry->cq);
}

static inline struct ibv_cq *ibv_exp_create_cq(struct ibv_context *context, int cqe,
					       void *cq_context, struct ibv_comp_channel *channel,
					       int comp_vector, struct ibv_exp_cq_init_attr *attr)
{
	struct ibv_cq_init_attr_ex init;
	uint32_t flags;

	if (!verbs_exp_masked(__func__, attr->comp_mask, IBV_EXP_CQ_INIT_ATTR_RESERVED))
		return NULL;
	flags = attr->comp_mask & IBV_EXP_CQ_INIT_ATTR_FLAGS ? attr->flags : 0;
	if (flags & ~(uint32_t)IBV_EXP_CQ_CREATE_FLAGS_MASK ||
	    flags == IBV_EXP_CQ_TIMESTAMP_TO_SYS_TIME)
		return (struct ibv_cq *)verbs_exp_null(EINVAL);
	if (flags & IBV_EXP_CQ_CREATE_CROSS_CHANNEL)
		return (struct ibv_cq *)verbs_exp_null(ENOSYS);
	if (!flags)
		return ibv_create_cq(context, cqe, cq_context, channel, comp_vector);
	memset(&init, 0, sizeof(init));
	init.cqe = (uint32_t)cqe;
	init.cq_context = cq_context;
	init.channel = channel;
	init.comp_vector = (uint32_t)comp_vector;
	return verbs_exp_create_timestamp_cq(context, &init,
					     (flags & IBV_EXP_CQ_TIMESTAMP_TO_SYS_TIME) != 0);
}

static inline int ibv_exp_modify_cq(struct ibv_cq *cq, struct ibv_exp_cq_attr *attr, int mask)
{
	struct ibv_modify_cq_attr modify;

	if (!verbs_exp_masked(__func__, attr->comp_mask, IBV_EXP_CQ_ATTR_RESERVED) ||
	    mask & ~(IBV_EXP_CQ_MODERATION | IBV_EXP_CQ_CAP_FLAGS))
		return EINVAL;
	if (mask & IBV_EXP_CQ_CAP_FLAGS && attr->cq_cap_flags)
		return attr->cq_cap_flags & ~(uint32_t)IBV_EXP_CQ_CAP_MASK ? EINVAL : ENOSYS;
	if (!(mask & IBV_EXP_CQ_MODERATION))
		return 0;
	memset(&modify, 0, sizeof(modify));
	modify.attr_mask = IBV_CQ_ATTR_MODERATE;
	modify.moderate.cq_count = attr->moderation.cq_count;
	modify.moderate.cq_period = attr->moderation.cq_period;
	return verbs_exp_error(ibv_modify_cq(cq, &modify));
}

static inline enum ibv_exp_wc_opcode verbs_exp_wc_opcode(enum ibv_wc_opcode opcode)
{
	return opcode == IBV_WC_LOCAL_INV ? IBV_EXP_WC_LOCAL_INV : (enum ibv_exp_wc_opcode)opcode;
}

static inline uint64_t verbs_exp_wc_flags(unsigned int flags)
{
	return (flags & (IBV_WC_GRH | IBV_WC_WITH_IMM)) |
	       (flags & IBV_WC_WITH_INV ? (uint64_t)IBV_EXP_WC_WITH_INV : 0);
}

static inline void verbs_exp_read_wc(struct ibv_exp_wc *to, const struct ibv_wc *from)
{
	memset(to, 0, sizeof(*to));
	to->wr_id = from->wr_id;
	to->status = from->status;
	to->exp_opcode = verbs_exp_wc_opcode(from->opcode);
	to->vendor_err = from->vendor_err;
	to->byte_len = from->byte_len;
	to->imm_data = from->imm_data;
	to->qp_num = from->qp_num;
	to->src_qp = from->src_qp;
	to->pkey_index = from->pkey_index;
	to->slid = from->slid;
	to->sl = from->sl;
	to->dlid_path_bits = from->dlid_path_bits;
	to->exp_wc_flags = verbs_exp_wc_flags(from->wc_flags);
}

/* The one that start_poll or next_poll found. */
static inline void verbs_exp_read_cq(struct ibv_exp_wc *to, struct ibv_cq_ex *cq, int wall_clock)
{
	unsigned int flags;

	memset(to, 0, sizeof(*to));
	to->wr_id = cq->wr_id;
	to->status = cq->status;
	to->qp_num = ibv_wc_read_qp_num(cq);
	to->vendor_err = ibv_wc_read_vendor_err(cq);
	if (to->status != IBV_WC_SUCCESS)
		return;
	flags = ibv_wc_read_wc_flags(cq);
	to->exp_opcode = verbs_exp_wc_opcode(ibv_wc_read_opcode(cq));
	to->byte_len = ibv_wc_read_byte_len(cq);
	to->imm_data = flags & IBV_WC_WITH_INV ? ibv_wc_read_invalidated_rkey(cq)
					       : ibv_wc_read_imm_data(cq);
	to->src_qp = ibv_wc_read_src_qp(cq);
	to->slid = (uint16_t)ibv_wc_read_slid(cq);
	to->sl = ibv_wc_read_sl(cq);
	to->dlid_path_bits = ibv_wc_read_dlid_path_bits(cq);
	to->timestamp = wall_clock ? ibv_wc_read_completion_wallclock_ns(cq)
				   : ibv_wc_read_completion_ts(cq);
	to->exp_wc_flags = verbs_exp_wc_flags(flags) | IBV_EXP_WC_WITH_TIMESTAMP;
}

/* Programs of other generations have elements of other sizes: shorter, or longer at the end. */
static inline void verbs_exp_store_wc(struct ibv_exp_wc *array, uint32_t size, int index,
				      const struct ibv_exp_wc *wc)
{
	char *to = (char *)array + (size_t)index * size;

	if (size > sizeof(*wc))
		memset(to + sizeof(*wc), 0, size - sizeof(*wc));
	memcpy(to, wc, size < sizeof(*wc) ? size : sizeof(*wc));
}

static inline int verbs_exp_poll_timestamps(struct ibv_cq_ex *cq, int wall_clock, int num_entries,
					    struct ibv_exp_wc *array, uint32_t wc_size)
{
	struct ibv_poll_cq_attr attr;
	int count = 0, error;

	memset(&attr, 0, sizeof(attr));
	error = num_entries > 0 ? ibv_start_poll(cq, &attr) : ENOENT;
	if (error)
		return error == ENOENT ? 0 : -error;
	do {
		struct ibv_exp_wc wc;

		verbs_exp_read_cq(&wc, cq, wall_clock);
		verbs_exp_store_wc(array, wc_size, count++, &wc);
	} while (count < num_entries && ibv_next_poll(cq) == 0);
	ibv_end_poll(cq);
	return count;
}

static inline int ibv_exp_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_exp_wc *array,
				  uint32_t wc_size)
{
	struct ibv_cq_ex *extended;
	struct ibv_wc batch[16];
	int count = 0, found, wall_clock = 0;

	extended = verbs_exp_find_cq(cq, &wall_clock);
	if (extended)
		return verbs_exp_poll_timestamps(extended, wall_clock, num_entries, array, wc_size);
	do {
		found = ibv_poll_cq(cq, num_entries - count < 16 ? num_entries - count : 16, batch);
		for (int i = 0; i < found; i++) {
			struct ibv_exp_wc wc;

			verbs_exp_read_wc(&wc, &batch[i]);
			verbs_exp_store_wc(array, wc_size, count++, &wc);
		}
	} while (found == 16 && count < num_entries);
	return found < 0 && !count ? found : count;
}

#ifdef __cplusplus
}
#endif

#endif
