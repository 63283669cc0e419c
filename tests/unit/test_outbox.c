/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The outbox: payloads out of SGE lists, pads, flushes when full, and regions pinned and unpinned.
 */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core.h"
#include "emu/objects/mr.h"
#include "emu/objects/qp.h"
#include "emu/transport/outbox.h"

#define SENT_MAX (OUTBOX_PACKETS + 100)

/* A link that keeps what it is sent, payloads flattened. */
static struct {
	unsigned int calls, packets;
	unsigned int refused; /* what the next call returns */
	uint64_t now;
	struct {
		uint8_t data[512];
		uint32_t length, trailer_length;
		uint8_t flags;
	} packet[SENT_MAX];
} sent;

static unsigned int keep(struct link *link, struct link_packet *packets, unsigned int count,
			 uint64_t now)
{
	sent.calls++;
	sent.now = now;
	for (unsigned int i = 0; i < count; i++) {
		const struct link_packet *packet = &packets[i];
		uint32_t at = 0;

		ck_assert_uint_lt(sent.packets, SENT_MAX);
		for (unsigned int j = 0; j < packet->payload_count; j++) {
			ck_assert_uint_le(at + packet->payload[j].iov_len, 512);
			memcpy(sent.packet[sent.packets].data + at, packet->payload[j].iov_base,
			       packet->payload[j].iov_len);
			at += packet->payload[j].iov_len;
		}
		ck_assert_uint_eq(at, packet->payload_length);
		ck_assert_int_eq(memcmp(packet->trailer, "\0\0\0\0\0\0\0", 8), 0);
		memset(packets[i].trailer, 0xff, sizeof(packet->trailer)); /* the link's */
		sent.packet[sent.packets].length = at;
		sent.packet[sent.packets].trailer_length = packet->trailer_length;
		sent.packet[sent.packets++].flags = packet->headers[1];
	}
	return 0;
}

/* It delays nothing. */
static uint64_t no_deadline(struct link *link)
{
	return TIME_NEVER;
}

static unsigned int count(struct link *link, struct link_packet *packets, unsigned int number,
			  uint64_t now)
{
	sent.calls++;
	sent.packets += number;
	return sent.refused;
}

static const struct link_ops ops = {.send = keep, .deadline = no_deadline};
static const struct link_ops counting_ops = {.send = count, .deadline = no_deadline};
static struct link counting = {.ops = &counting_ops};
static struct link kept = {.ops = &ops};
static const struct path path;
static struct outbox outbox;
static struct pd *pd;
static struct mr *mr;
static uint8_t memory[4096];

static void begin(void)
{
	core.link = &kept;
	pd = core_pd();
	for (unsigned int i = 0; i < sizeof(memory); i++)
		memory[i] = i * 7 + i / 256;
	ck_assert_int_eq(mr_register(pd, memory, sizeof(memory), (uintptr_t)memory, 0, &mr), 0);
	outbox_init(&outbox, &core, 4711);
}

static uint32_t refcount(const struct mr *region)
{
	return core.keys.chunks[0][region->ibv.lkey >> MR_KEY_BITS].refcount;
}

/* Deregistering would wait for ever for a region that is still pinned. */
static void end(void)
{
	ck_assert_uint_eq(refcount(mr), 0);
	ck_assert_int_eq(mr_deregister(mr), 0);
	ck_assert_int_eq(pd_dealloc(pd), 0);
}

static struct link_packet *begin_packet(void)
{
	struct link_packet *packet = outbox_packet(&outbox, &path);

	ck_assert_ptr_eq(packet->path, &path);
	packet->headers_length = 12;
	packet->headers[1] = BTH_MIGREQ;
	return packet;
}

static int gather(const struct ibv_sge *sge, uint32_t count, uint64_t offset, uint32_t length)
{
	return outbox_gather(&outbox, begin_packet(), pd, sge, count, offset, length);
}

static struct ibv_sge piece(uint32_t offset, uint32_t length)
{
	return (struct ibv_sge){(uintptr_t)memory + offset, length, mr->ibv.lkey};
}

START_TEST(packets_without_payload)
{
	begin();
	outbox_flush(&outbox);
	ck_assert_uint_eq(sent.calls, 0);
	begin_packet();
	begin_packet();
	outbox_withdraw(&outbox);
	outbox_flush(&outbox);
	outbox_flush(&outbox);
	ck_assert_uint_eq(sent.calls, 1);
	ck_assert_uint_eq(sent.packets, 1);
	ck_assert_uint_eq(sent.now, 4711);
	ck_assert_uint_eq(sent.packet[0].trailer_length, 4);
	ck_assert_uint_eq(sent.packet[0].flags, BTH_MIGREQ);
	ck_assert_uint_eq(core.counters->sent_pkts, 1);
	ck_assert_uint_eq(core.counters->sent_bytes, 16);
	end();
}
END_TEST

/* From the first time that one is full until it is put: its thread doesn't poll so soon. */
START_TEST(much_to_send_makes_the_hca_busy)
{
	struct outbox *full, *other;

	core.link = &counting;
	full = outbox_get(&core, 4711);
	other = outbox_get(&core, 4711);
	outbox_packet(other, &path)->headers_length = 12;
	outbox_flush(other);
	for (unsigned int i = 0; i < OUTBOX_PACKETS; i++)
		outbox_packet(full, &path)->headers_length = 12;
	ck_assert_uint_eq(core.senders, 0);
	for (unsigned int i = 0; i < 2 * OUTBOX_PACKETS; i++)
		outbox_packet(full, &path)->headers_length = 12;
	ck_assert_uint_eq(core.senders, 1);
	outbox_put(other);
	ck_assert_uint_eq(core.senders, 1);
	outbox_flush(full);
	outbox_put(full);
	ck_assert_uint_eq(core.senders, 0);
}
END_TEST

START_TEST(every_part_of_a_list)
{
	struct ibv_sge sges[5];
	uint8_t whole[30];

	begin();
	sges[0] = piece(100, 10);
	sges[1] = (struct ibv_sge){.lkey = 99};
	sges[2] = piece(1000, 1);
	sges[3] = piece(7, 19);
	sges[4] = (struct ibv_sge){.lkey = 98};
	memcpy(whole, memory + 100, 10);
	memcpy(whole + 10, memory + 1000, 1);
	memcpy(whole + 11, memory + 7, 19);
	for (uint32_t offset = 0; offset <= 30; offset++) {
		for (uint32_t length = 0; length <= 30 - offset; length++) {
			uint32_t pad = -length & 3;

			sent.packets = 0;
			ck_assert_int_eq(gather(sges, 5, offset, length), 0);
			outbox_flush(&outbox);
			ck_assert_uint_eq(sent.packets, 1);
			ck_assert_uint_eq(sent.packet[0].length, length);
			ck_assert_int_eq(memcmp(sent.packet[0].data, whole + offset, length), 0);
			ck_assert_uint_eq(sent.packet[0].trailer_length, pad + 4);
			ck_assert_uint_eq(sent.packet[0].flags, BTH_MIGREQ | pad << 4);
		}
	}
	end();
}
END_TEST

START_TEST(lists_longer_than_4_gib)
{
	struct ibv_sge sges[3] = {{.length = UINT32_MAX}, {.length = UINT32_MAX}};

	begin();
	sges[2] = piece(5, 10);
	ck_assert_int_eq(gather(sges, 3, 2 * (uint64_t)UINT32_MAX + 3, 7), 0);
	outbox_flush(&outbox);
	ck_assert_int_eq(memcmp(sent.packet[0].data, memory + 8, 7), 0);
	end();
}
END_TEST

START_TEST(a_bad_key_takes_only_its_packet_back)
{
	struct ibv_sge sges[3];

	begin();
	sges[0] = piece(0, 10);
	sges[1] = piece(10, 10);
	sges[2] = piece(20, 10);
	ck_assert_int_eq(gather(sges, 3, 0, 30), 0);
	sges[1].lkey ^= 1;
	ck_assert_int_eq(gather(sges, 3, 0, 30), EACCES);
	ck_assert_uint_eq(outbox.packets, 1);
	ck_assert_uint_eq(outbox.iovs, 3);
	ck_assert_int_eq(gather(sges, 1, 0, 10), 0);
	outbox_flush(&outbox);
	ck_assert_uint_eq(sent.packets, 2);
	ck_assert_int_eq(memcmp(sent.packet[0].data, memory, 30), 0);
	ck_assert_uint_eq(sent.packet[1].length, 10);
	end();
}
END_TEST

START_TEST(plain_memory)
{
	begin();
	outbox_payload(&outbox, begin_packet(), "inline", 6);
	outbox_payload(&outbox, begin_packet(), NULL, 0);
	outbox_flush(&outbox);
	ck_assert_uint_eq(sent.packets, 2);
	ck_assert_int_eq(memcmp(sent.packet[0].data, "inline", 6), 0);
	ck_assert_uint_eq(sent.packet[0].flags, BTH_MIGREQ | 2 << 4);
	ck_assert_uint_eq(sent.packet[1].length, 0);
	end();
}
END_TEST

static int answer(const struct qp *qp, uint32_t rkey, uint32_t offset, uint32_t length)
{
	return outbox_remote(&outbox, begin_packet(), qp->pd, qp, rkey, (uintptr_t)memory + offset,
			     length);
}

/* What a peer reads: its key is checked for each packet, and pinned once. */
START_TEST(remote_memory)
{
	struct mr *readable;
	struct qp qp = {.hca = &core};
	uint32_t rkey;

	begin();
	qp.pd = pd;
	ck_assert_int_eq(
		mr_register(pd, memory, 100, (uintptr_t)memory, IBV_ACCESS_REMOTE_READ, &readable),
		0);
	rkey = readable->ibv.rkey;
	ck_assert_int_eq(answer(&qp, rkey, 50, 9), 0);
	ck_assert_int_eq(answer(&qp, rkey, 0, 100), 0);
	ck_assert_uint_eq(refcount(readable), 1);
	ck_assert_int_eq(answer(&qp, rkey, 50, 51), EACCES);
	ck_assert_int_eq(answer(&qp, rkey + 1, 50, 9), EACCES);
	ck_assert_int_eq(answer(&qp, mr->ibv.rkey, 50, 9), EACCES); /* a local region */
	ck_assert_int_eq(answer(&qp, rkey, 91, 9), 0);
	outbox_flush(&outbox);
	ck_assert_uint_eq(refcount(readable), 0);
	ck_assert_uint_eq(sent.packets, 3);
	ck_assert_int_eq(memcmp(sent.packet[0].data, memory + 50, 9), 0);
	ck_assert_uint_eq(sent.packet[0].flags, BTH_MIGREQ | 3 << 4);
	ck_assert_int_eq(memcmp(sent.packet[1].data, memory, 100), 0);
	ck_assert_int_eq(memcmp(sent.packet[2].data, memory + 91, 9), 0);
	ck_assert_int_eq(mr_deregister(readable), 0);
	ck_assert_int_eq(answer(&qp, rkey, 50, 9), EACCES);
	outbox_flush(&outbox);
	end();
}
END_TEST

/* A peer may read no more because a request of our own has pinned it. */
START_TEST(pinned_for_a_local_read)
{
	struct qp qp = {.hca = &core};
	struct ibv_sge sge;

	begin();
	qp.pd = pd;
	sge = piece(50, 9);
	ck_assert_int_eq(gather(&sge, 1, 0, 9), 0);
	ck_assert_int_eq(answer(&qp, mr->ibv.rkey, 50, 9), EACCES);
	outbox_flush(&outbox);
	ck_assert_uint_eq(sent.packets, 1);
	end();
}
END_TEST

START_TEST(neighbours_in_a_region_pin_it_once)
{
	struct ibv_sge inside, outside, other;
	struct mr *second;

	begin();
	ck_assert_int_eq(mr_register(pd, memory, 100, (uintptr_t)memory, 0, &second), 0);
	inside = piece(0, 10);
	outside = piece(sizeof(memory) - 5, 10);
	other = (struct ibv_sge){(uintptr_t)memory, 10, second->ibv.lkey};
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(gather(&inside, 1, 0, 10), 0);
	ck_assert_uint_eq(refcount(mr), 1);
	/* What is pinned allows no more than it did. */
	ck_assert_int_eq(gather(&outside, 1, 0, 10), EACCES);
	ck_assert_int_eq(gather(&other, 1, 0, 10), 0);
	ck_assert_uint_eq(refcount(second), 1);
	other.length = 101;
	ck_assert_int_eq(gather(&other, 1, 0, 101), EACCES);
	outbox_flush(&outbox);
	ck_assert_uint_eq(refcount(mr), 0);
	ck_assert_uint_eq(sent.packets, 4);
	/* Nor for longer. */
	ck_assert_int_eq(mr_deregister(second), 0);
	other.length = 10;
	ck_assert_int_eq(gather(&other, 1, 0, 10), EACCES);
	outbox_flush(&outbox);
	end();
}
END_TEST

/* Memory that was there is asked for again in each batch, and each page of it. */
START_TEST(memory_may_go)
{
	struct ibv_sge first, second, both;
	size_t page = sysconf(_SC_PAGESIZE);
	struct mr *region;
	uint8_t *pages;

	begin();
	pages = mmap(NULL, 2 * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(pages, MAP_FAILED);
	ck_assert_int_eq(mr_register(pd, pages, 2 * page, (uintptr_t)pages, 0, &region), 0);
	first = (struct ibv_sge){(uintptr_t)pages + page - 64, 64, region->ibv.lkey};
	second = (struct ibv_sge){(uintptr_t)pages + page, 64, region->ibv.lkey};
	both = (struct ibv_sge){(uintptr_t)pages + page - 64, 128, region->ibv.lkey};
	for (int i = 0; i < 2; i++) {
		uint8_t *gone = pages + (i ? 0 : page);

		ck_assert_int_eq(gather(i ? &second : &first, 1, 0, 64), 0);
		ck_assert_int_eq(mprotect(gone, page, PROT_NONE), 0);
		ck_assert_int_eq(gather(&both, 1, 0, 128), EFAULT);
		outbox_flush(&outbox);
		ck_assert_int_eq(mprotect(gone, page, PROT_READ), 0);
	}
	ck_assert_int_eq(gather(&first, 1, 0, 64), 0);
	outbox_flush(&outbox);
	ck_assert_int_eq(mprotect(pages, page, PROT_NONE), 0);
	ck_assert_int_eq(gather(&first, 1, 0, 64), EFAULT);
	ck_assert_int_eq(mr_deregister(region), 0);
	munmap(pages, 2 * page);
	end();
}
END_TEST

/* Where no memory ever is, in a region of all that there is. */
START_TEST(nothing_is_at_null)
{
	struct ibv_sge sge = {16, 64};
	struct mr *all;

	begin();
	ck_assert_int_eq(mr_register(pd, NULL, SIZE_MAX, 0, IBV_ACCESS_ON_DEMAND, &all), 0);
	sge.lkey = all->ibv.lkey;
	ck_assert_int_eq(gather(&sge, 1, 0, 64), EACCES);
	outbox_flush(&outbox);
	ck_assert_uint_eq(sent.packets, 0);
	ck_assert_int_eq(mr_deregister(all), 0);
	end();
}
END_TEST

/* By packets when they have one piece each, by pieces when they have 32. */
START_TEST(full_outboxes_flush_themselves)
{
	const int single = OUTBOX_PACKETS + 36, all = single + 50;
	struct ibv_sge sges[32];

	begin();
	for (uint32_t i = 0; i < 32; i++)
		sges[i] = piece(3 * i, 2);
	for (int i = 0; i < single; i++)
		ck_assert_int_eq(gather(sges, 1, 0, 2), 0);
	ck_assert_uint_eq(sent.packets, OUTBOX_PACKETS);
	for (int i = single; i < all; i++)
		ck_assert_int_eq(gather(sges, 32, 0, 64), 0);
	outbox_flush(&outbox);
	ck_assert_uint_eq(sent.packets, all);
	for (int i = 0; i < all; i++)
		ck_assert_uint_eq(sent.packet[i].length, i < single ? 2 : 64);
	for (int i = 0; i < 64; i++)
		ck_assert_uint_eq(sent.packet[all - 1].data[i], memory[i / 2 * 3 + i % 2]);
	ck_assert_uint_eq(core.counters->sent_pkts, all);
	end();
}
END_TEST

/* What the kernel refuses wasn't sent. */
START_TEST(refused_packets_are_counted)
{
	begin();
	core.link = &counting;
	begin_packet();
	outbox_flush(&outbox);
	ck_assert_uint_eq(core.counters->send_err, 0);
	for (int i = 0; i < 5; i++)
		begin_packet();
	sent.refused = 2;
	outbox_flush(&outbox);
	ck_assert_uint_eq(sent.packets, 6);
	ck_assert_uint_eq(core.counters->sent_pkts, 4);
	ck_assert_uint_eq(core.counters->send_err, 2);
	end();
}
END_TEST

static uint64_t woken_at;

static void wake_at(void *context, uint64_t time)
{
	woken_at = time;
}

static uint64_t soon(struct link *link)
{
	return 5000;
}

/* Whoever sends, the thread that makes progress hears when the link has to be called again. */
START_TEST(links_that_delay)
{
	const struct link_ops delaying_ops = {.send = count, .deadline = soon};
	struct link delaying = {.ops = &delaying_ops};

	begin();
	core.deadline = wake_at;
	begin_packet();
	outbox_flush(&outbox);
	ck_assert_uint_eq(woken_at, 0);
	core.link = &delaying;
	begin_packet();
	outbox_flush(&outbox);
	ck_assert_uint_eq(woken_at, 5000);
	end();
}
END_TEST

/*
 * Of equal packets as many as one datagram takes, and what is shorter ends it. What is flushed are
 * whole ones, as many as one call takes.
 */
START_TEST(trains_are_not_cut_in_two)
{
	static uint8_t large[5000];
	const struct {
		uint32_t first, others; /* lengths */
		unsigned int train;	/* of the others */
		unsigned int flushed_at[3];
	} cases[] = {
		{4096, 4096, 15, {60, 120, 180}},
		{4112, 4096, 15, {62, 122, 182}},
		{8, 8, 64, {OUTBOX_PACKETS, 2 * OUTBOX_PACKETS, 3 * OUTBOX_PACKETS}},
	};

	begin();
	core.link = &counting;
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		/* The first of another length is a datagram with the second. */
		unsigned int end = cases[i].first == cases[i].others ? cases[i].train : 2;
		unsigned int flushes = 0;

		sent.packets = sent.calls = 0;
		for (unsigned int k = 1; k <= 1000 && flushes < 3; k++) {
			uint32_t length = k == 1 ? cases[i].first : cases[i].others;

			if (k > end)
				end += cases[i].train;
			if (k > 1)
				ck_assert_uint_eq(outbox_train_left(&outbox, 16 + length),
						  end - k + 1);
			outbox_payload(&outbox, begin_packet(), large, length);
			if (sent.calls == flushes)
				continue;
			ck_assert_uint_eq(sent.packets, cases[i].flushed_at[flushes]);
			flushes++;
		}
		ck_assert_uint_eq(flushes, 3);
		outbox_flush(&outbox);
	}
	end();
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {packets_without_payload,
				      much_to_send_makes_the_hca_busy,
				      every_part_of_a_list,
				      refused_packets_are_counted,
				      links_that_delay,
				      lists_longer_than_4_gib,
				      a_bad_key_takes_only_its_packet_back,
				      plain_memory,
				      remote_memory,
				      pinned_for_a_local_read,
				      memory_may_go,
				      nothing_is_at_null,
				      full_outboxes_flush_themselves,
				      trains_are_not_cut_in_two,
				      neighbours_in_a_region_pin_it_once,
				      NULL};

	return core_run("outbox", tests);
}
