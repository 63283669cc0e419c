/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether the application leaves alone what it has posted: a checksum of the memory when it is
 * posted, and another one when the completion of a send is polled, or before a message fills a
 * receive. What the device has written itself in between is no misuse; it is in a log: before it
 * is written, for a checksum that is compared meanwhile, and after, for one that is taken.
 */
#include "verbs/check/work.h"

#include <inttypes.h>
#include <isa-l.h>
#include <stdio.h>
#include <utlist.h>

#include "emu/hca.h"
#include "emu/objects/mr.h"
#include "emu/objects/pd.h"
#include "emu/objects/qp.h"
#include "emu/objects/srq.h"
#include "net/cause/origin.h"
#include "net/guard.h"
#include "net/qp_text.h"
#include "verbs/check/report.h"

/* --- what the device wrote ---------------------------------------------------------------- */

/* Entries of the log, two for each write: before it and after. A power of two. */
#define LOG_LENGTH 32768

static struct {
	uint64_t count;
	struct {
		const uint8_t *address;
		size_t length;
	} writes[LOG_LENGTH];
} written; /* under work.lock */

void work_written(const void *address, size_t length)
{
	unsigned int index;

	work_lock();
	index = written.count++ % LOG_LENGTH;
	written.writes[index].address = address;
	written.writes[index].length = length;
	work_unlock();
}

/* With work.lock. */
static bool wrote_to(uint64_t index, const struct work *work)
{
	const uint8_t *address = written.writes[index % LOG_LENGTH].address;
	size_t length = written.writes[index % LOG_LENGTH].length;

	for (uint32_t i = 0; i < work->num_parts; i++) {
		const struct work_part *part = &work->parts[i];

		if (part->address < address + length && address < part->address + part->sge.length)
			return true;
	}
	return false;
}

/* Since @work was posted; what can't be known was. */
static bool device_wrote(const struct work *work)
{
	uint64_t index = work->written;
	bool wrote;

	work_lock();
	wrote = written.count - index > LOG_LENGTH;
	for (; !wrote && index != written.count; index++)
		wrote = wrote_to(index, work);
	work_unlock();
	return wrote;
}

/* --- checksums ---------------------------------------------------------------------------- */

struct sum {
	const uint8_t *address;
	uint32_t length, value;
};

static void sum_part(void *context)
{
	struct sum *sum = context;

	sum->value = crc32_gzip_refl(sum->value, (unsigned char *)sum->address, sum->length);
}

/* Goes on with @sum; finds the address of @part. */
static enum memory_state sum_memory(const struct work *work, struct work_part *part,
				    struct sum *sum)
{
	const struct ibv_sge *sge = &part->sge;
	enum memory_state state = MEMORY_UNKNOWN;
	struct iovec memory;
	struct mr_pin pin;

	if (!sge->length)
		return MEMORY_SUMMED;
	if (mr_pin(work->hca, work->pd, sge->lkey, sge->addr, sge->length, 0, &pin) != 0)
		return MEMORY_UNKNOWN;
	part->address = sum->address = pin.address;
	sum->length = sge->length;
	memory = (struct iovec){pin.address, sge->length};
	if (pin.key->kind == KEY_NULL)
		state = MEMORY_UNKNOWN;
	else if (guard_run(&memory, 1, sum_part, sum, NULL))
		state = MEMORY_SUMMED;
	else if (!(pin.key->access & IBV_ACCESS_ON_DEMAND))
		state = MEMORY_GONE;
	mr_unpin(work->hca, &pin);
	return state;
}

static enum memory_state sum_parts(struct work *work, uint32_t *checksum)
{
	enum memory_state state = MEMORY_SUMMED;
	struct sum sum = {};

	for (uint32_t i = 0; i < work->num_parts && state == MEMORY_SUMMED; i++)
		state = sum_memory(work, &work->parts[i], &sum);
	*checksum = sum.value;
	return state;
}

void work_sum(struct work *work)
{
	work_lock();
	work->written = written.count;
	work_unlock();
	work->memory = sum_parts(work, &work->checksum);
}

/* --- reports -------------------------------------------------------------------------------- */

#define WORK_TEXT 200

/* "RDMA_WRITE, wr_id 3, 64 bytes at 0x7f0012345678, of QP 0x1f02 (RC)". Returns @text. */
static const char *work_text(const struct work *work, char text[WORK_TEXT])
{
	const struct ibv_sge *sge = &work->parts[0].sge;
	int used = snprintf(text, WORK_TEXT, "%s, wr_id %" PRIu64, work->operation, work->wr_id);

	if (work->num_parts)
		used += snprintf(text + used, WORK_TEXT - used, ", %u bytes at 0x%" PRIx64,
				 sge->length, sge->addr);
	if (work->num_parts > 1)
		used += snprintf(text + used, WORK_TEXT - used, " and %u more SGEs",
				 work->num_parts - 1);
	if (work->qp)
		snprintf(text + used, WORK_TEXT - used, ", of QP 0x%x (%s)", work->qp->number,
			 qp_type_text(work->qp->type->ibv));
	else
		snprintf(text + used, WORK_TEXT - used, ", of a shared receive queue");
	return text;
}

/* With the place where the memory was registered, as long as it is. */
static void report_memory(enum cause cause, const struct work *work, const char *found)
{
	const struct origin *registered = NULL;
	char text[WORK_TEXT];
	struct mr_pin pin;
	int error = mr_pin(work->hca, work->pd, work->parts[0].sge.lkey, work->parts[0].sge.addr,
			   work->parts[0].sge.length, 0, &pin);

	if (!error)
		registered = pin.key->origin;
	check_report_places(cause,
			    CHECK_PLACES({"posted", work->posted}, {"registered", registered}), 1,
			    "%s: %s", work_text(work, text), found);
	if (!error)
		mr_unpin(work->hca, &pin);
}

void work_compare(struct work *work)
{
	enum memory_state state;
	uint32_t checksum;

	if (work->memory != MEMORY_SUMMED || !work->num_parts)
		return;
	state = sum_parts(work, &checksum);
	if (state == MEMORY_GONE)
		report_memory(CAUSE_MEMORY_GONE_UNDER_WORK, work,
			      "its memory can't be read any more");
	else if (state == MEMORY_SUMMED && checksum != work->checksum && !device_wrote(work))
		report_memory(
			work->receive ? CAUSE_RECEIVE_BUFFER_CHANGED : CAUSE_SEND_BUFFER_CHANGED,
			work,
			work->receive ? "its memory has changed when a message comes for it"
				      : "its memory has changed when its completion is polled");
}

/* --- keys that end -------------------------------------------------------------------------- */

struct key_users {
	const struct hca *hca; /* two devices may have the same keys */
	uint32_t key;
	unsigned int sends, receives;
	char first[WORK_TEXT];
	struct origin *posted;
};

static bool names_key(const struct work *work, const struct key_users *users)
{
	bool names = false;

	for (uint32_t i = 0; i < work->num_parts; i++)
		names |= work->parts[i].sge.length && work->parts[i].sge.lkey == users->key;
	return names && work->hca == users->hca;
}

/* With work.lock. */
static void find_users(const struct work *list, struct key_users *users)
{
	const struct work *work;

	DL_FOREACH (list, work) {
		if (work->done || !names_key(work, users))
			continue;
		if (!users->sends++ && !users->receives) {
			work_text(work, users->first);
			users->posted = origin_copy(work->posted);
		}
		if (work->receive) {
			users->sends--;
			users->receives++;
		}
	}
}

/* Nothing executes what is posted to one that no queue pair takes from. */
static bool is_used(const struct srq *srq)
{
	return srq->xrcd || atomic_load(&srq->users.counts[USER_QP]);
}

void work_key_ends(const struct key *key)
{
	struct key_users users = {.hca = key->pd->hca, .key = key->value};
	struct work_srq *srq;
	struct work_qp *qp;

	work_lock();
	DL_FOREACH (work_lists.qps, qp) {
		find_users(qp->sends, &users);
		find_users(qp->receives, &users);
		find_users(qp->taken, &users);
	}
	DL_FOREACH (work_lists.srqs, srq) {
		if (is_used(srq->srq))
			find_users(srq->receives, &users);
	}
	work_unlock();
	if (users.sends + users.receives)
		check_report(CAUSE_REGION_ENDED_UNDER_WORK,
			     CHECK_PLACES({"posted", users.posted}, {"registered", key->origin}),
			     "region 0x%x, %" PRIu64 " bytes at %p: named by %u sends and %u "
			     "receives that aren't done, the first is %s",
			     key->value, key->length, (void *)key->address, users.sends,
			     users.receives, users.first);
	origin_free(users.posted);
}
