/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many objects in one process: queue pairs connected among themselves, memory
 * regions, completion queues of the greatest depth. Creates them, sends over
 * and into every one, checks the bytes, fills a CQ, and destroys them; prints
 * what each took in time and memory, and what posting and polling cost beside
 * few objects and beside many. Ends with "scale: ok".
 *
 *   scale [-q QPS] [-m REGIONS] [-c CQS] [-d CQ-DEPTH]    default depth: the device's limit
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rc.h"

#define FEW 10	 /* QPs that are used alone */
#define DEPTH 16 /* of both queues of a QP */
#define CHUNK 8	 /* messages on a QP at a time */
#define SLOT 64	 /* bytes of a region and of a message */
#define PASSES 5 /* of a measurement, whose median counts */
#define GROUPS 1000

static struct {
	unsigned int qps, regions, cqs, depth;
} options = {.qps = 10000, .regions = 100000, .cqs = 1000};

static struct rc_device device;
static struct ibv_cq *send_cq, *recv_cq, **cqs;
static struct ibv_qp **qps; /* 2i and 2i + 1 are connected */
static struct ibv_mr **regions;
static uint8_t *memory;

/* --- what objects take -------------------------------------------------------------- */

struct usage {
	uint64_t time, heap, resident;
};

static uint64_t resident_bytes(void)
{
	unsigned long size, resident;
	FILE *file = fopen("/proc/self/statm", "r");

	CHECK(file);
	CHECK(fscanf(file, "%lu %lu", &size, &resident) == 2);
	fclose(file);
	return (uint64_t)resident * sysconf(_SC_PAGESIZE);
}

static struct usage usage_now(void)
{
	struct mallinfo2 heap = mallinfo2();
	struct usage usage = {.heap = heap.uordblks + heap.hblkhd, .resident = resident_bytes()};

	usage.time = rc_now();
	return usage;
}

static void report(const char *what, unsigned int count, const struct usage *before)
{
	uint64_t end = rc_now(); /* before mallinfo2(), which looks at every free block */
	struct usage now = usage_now();

	if (!count)
		return;
	printf("%-28s %8u  %8.2f us  %8.2f KiB of heap  %8.2f KiB resident\n", what, count,
	       (end - before->time) / 1000.0 / count,
	       (int64_t)(now.heap - before->heap) / 1024.0 / count,
	       (int64_t)(now.resident - before->resident) / 1024.0 / count);
}

/* --- life ----------------------------------------------------------------------------- */

static void create_qps(unsigned int first, unsigned int end)
{
	for (unsigned int i = first; i < end; i++) {
		qps[i] = rc_create(&device, send_cq, recv_cq, DEPTH, DEPTH);
		rc_init(qps[i]);
	}
	for (unsigned int i = first; i < end; i++)
		rc_connect(qps[i], &device.gid, qps[i ^ 1]->qp_num);
}

static void create_regions(unsigned int first, unsigned int end)
{
	for (unsigned int i = first; i < end; i++)
		regions[i] = rc_register(&device, memory + (size_t)i * SLOT, SLOT);
}

static struct ibv_cq *create_cq(void)
{
	struct ibv_cq *cq = ibv_create_cq(device.context, options.depth, NULL, NULL, 0);

	CHECK(cq && cq->cqe >= (int)options.depth);
	return cq;
}

static void create_first(void)
{
	struct ibv_device_attr limits;

	rc_open(&device);
	CHECK(ibv_query_device(device.context, &limits) == 0);
	if (!options.depth)
		options.depth = limits.max_cqe;
	CHECK(limits.max_qp >= (int)options.qps && limits.max_mr >= (int)options.regions);
	CHECK(options.depth >= CHUNK * options.qps); /* run_messages() polls afterwards */
	qps = calloc(options.qps, sizeof(struct ibv_qp *));
	regions = calloc(options.regions, sizeof(struct ibv_mr *));
	cqs = calloc(options.cqs + 1, sizeof(struct ibv_cq *));
	memory = aligned_alloc(4096, ((size_t)options.regions * SLOT + 4095) & ~4095ull);
	CHECK(qps && regions && cqs && memory);
	memset(memory, 0, (size_t)options.regions * SLOT);
	send_cq = create_cq();
	recv_cq = create_cq();
	create_qps(0, FEW);
	create_regions(0, 2 * FEW);
}

static void create_rest(void)
{
	struct usage before = usage_now();

	create_qps(FEW, options.qps);
	report("QPs created and connected", options.qps - FEW, &before);
	before = usage_now();
	create_regions(2 * FEW, options.regions);
	report("regions registered", options.regions - 2 * FEW, &before);
	before = usage_now();
	for (unsigned int i = 0; i < options.cqs; i++)
		cqs[i] = create_cq();
	report("CQs created", options.cqs, &before);
}

static void destroy_all(void)
{
	struct usage before = usage_now();

	for (unsigned int i = 0; i < options.cqs; i++)
		CHECK(ibv_destroy_cq(cqs[i]) == 0);
	report("CQs destroyed", options.cqs, &before);
	before = usage_now();
	for (unsigned int i = 0; i < options.regions; i++)
		CHECK(ibv_dereg_mr(regions[i]) == 0);
	report("regions deregistered", options.regions, &before);
	before = usage_now();
	for (unsigned int i = 0; i < options.qps; i++)
		CHECK(ibv_destroy_qp(qps[i]) == 0);
	report("QPs destroyed", options.qps, &before);
	CHECK(ibv_destroy_cq(send_cq) == 0);
	CHECK(ibv_destroy_cq(recv_cq) == 0);
	rc_close(&device);
	free(qps);
	free(regions);
	free(cqs);
	free(memory);
}

/* --- what posting and polling cost ------------------------------------------------------ */

struct cost {
	double post, complete, empty; /* ns each */
};

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values)
{
	qsort(values, PASSES, sizeof(*values), ascending);
	return values[PASSES / 2];
}

/* A message on each of FEW queue pairs from the @first on. Returns how long posting them took. */
static uint64_t use_few(unsigned int first)
{
	uint64_t start = rc_now(), posted;
	unsigned int done = 0;
	struct ibv_wc wc[FEW];

	for (unsigned int i = 0; i < FEW; i++) {
		struct ibv_sge sge = {(uintptr_t)memory + i * SLOT, 8, regions[i]->lkey};
		unsigned int target = FEW + i;

		rc_post(qps[(first + i) % options.qps], IBV_WR_RDMA_WRITE, i, &sge,
			(uintptr_t)memory + target * SLOT, regions[target]->rkey);
	}
	posted = rc_now();
	while (done < FEW)
		done += rc_poll(send_cq, wc, FEW);
	return posted - start;
}

/* GROUPS times FEW messages, each time over other queue pairs with @step. */
static struct cost measure(unsigned int step)
{
	double post[PASSES], complete[PASSES], empty[PASSES];
	struct ibv_wc wc;

	for (unsigned int pass = 0; pass < PASSES; pass++) {
		uint64_t posting = 0, start = rc_now();

		for (unsigned int group = 0; group < GROUPS; group++)
			posting += use_few(group * step % options.qps);
		complete[pass] = (rc_now() - start) / (double)(GROUPS * FEW);
		post[pass] = posting / (double)(GROUPS * FEW);
		start = rc_now();
		for (unsigned int i = 0; i < GROUPS; i++)
			CHECK(rc_poll(recv_cq, &wc, 1) == 0);
		empty[pass] = (rc_now() - start) / (double)GROUPS;
	}
	return (struct cost){median(post), median(complete), median(empty)};
}

static void report_cost(const char *what, const struct cost *cost)
{
	printf("%-28s  post %6.0f ns, post and complete %6.0f ns, poll in vain %6.0f ns\n", what,
	       cost->post, cost->complete, cost->empty);
}

/* --- traffic with verification ------------------------------------------------------------ */

static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_SEND, IBV_WR_RDMA_READ};

/* Message @k goes from region @k to the one half of them further on, or READs the other way. */
static enum ibv_wr_opcode opcode_of(unsigned int k)
{
	return opcodes[(k + k / options.qps) % 3];
}

static uint8_t *slot(unsigned int region)
{
	return memory + (size_t)region * SLOT;
}

static void pattern(uint8_t *bytes, unsigned int k)
{
	for (unsigned int i = 0; i < SLOT; i += sizeof(uint64_t)) {
		uint64_t word = (k + 1) * 0x9e3779b97f4a7c15ull + i;

		memcpy(bytes + i, &word, sizeof(word));
	}
}

static struct ibv_sge sge_of(unsigned int region)
{
	return (struct ibv_sge){(uintptr_t)slot(region), SLOT, regions[region]->lkey};
}

static void receive(struct ibv_qp *qp, uint64_t wr_id, struct ibv_sge *sge)
{
	struct ibv_recv_wr *bad,
		wr = {.wr_id = wr_id, .sg_list = sge, .num_sge = sge && sge->length ? 1 : 0};

	CHECK(ibv_post_recv(qp, &wr, &bad) == 0);
}

/* Returns how many receives it will complete. */
static unsigned int start_message(unsigned int k)
{
	unsigned int number = k % options.qps, other = options.regions / 2 + k;
	enum ibv_wr_opcode opcode = opcode_of(k);
	struct ibv_sge here = sge_of(k), there = sge_of(other);

	pattern(opcode == IBV_WR_RDMA_READ ? slot(other) : slot(k), k);
	if (opcode == IBV_WR_SEND)
		receive(qps[number ^ 1], k, &there);
	rc_post(qps[number], opcode, k, &here, (uintptr_t)slot(other), regions[other]->rkey);
	return opcode == IBV_WR_SEND;
}

static void verify(unsigned int k)
{
	uint8_t expected[SLOT];

	pattern(expected, k);
	CHECK(memcmp(slot(k), expected, SLOT) == 0);
	CHECK(memcmp(slot(options.regions / 2 + k), expected, SLOT) == 0);
}

static void run_messages(unsigned int first, unsigned int end)
{
	unsigned int sends = end - first, receives = 0;
	struct ibv_wc wc[16];

	for (unsigned int k = first; k < end; k++)
		receives += start_message(k);
	while (sends)
		sends -= rc_poll(send_cq, wc, 16);
	while (receives)
		receives -= rc_poll(recv_cq, wc, 16);
	for (unsigned int k = first; k < end; k++)
		verify(k);
}

/* One message from or to every region, over all queue pairs. */
static void use_all(void)
{
	unsigned int messages = options.regions / 2, chunk = CHUNK * options.qps;
	uint64_t start = rc_now();

	memset(memory, 0, (size_t)options.regions * SLOT);
	for (unsigned int k = 0; k < messages; k += chunk)
		run_messages(k, messages - k < chunk ? messages : k + chunk);
	printf("%u messages on all, checked: %.2f s\n", messages, (rc_now() - start) / 1e9);
}

/* --- a full completion queue ---------------------------------------------------------------- */

/* Empty messages, received but not polled: @count of them, from queue pair to queue pair. */
static void fill_cq(unsigned int count, uint32_t *sequence)
{
	static const struct ibv_sge nothing;
	unsigned int sends = 0;
	struct ibv_wc wc[16];

	for (unsigned int i = 0; i < count; i++) {
		unsigned int number = i / CHUNK % options.qps;
		uint64_t peer = number ^ 1;

		receive(qps[peer], peer << 32 | sequence[peer]++, NULL);
		rc_post(qps[number], IBV_WR_SEND, i, &nothing, 0, 0);
		sends++;
		if (i % CHUNK < CHUNK - 1 && i + 1 < count)
			continue;
		while (sends)
			sends -= rc_poll(send_cq, wc, 16);
	}
}

/* All are there, those of each queue pair in order. */
static void empty_cq(unsigned int count)
{
	uint32_t *next = calloc(options.qps, sizeof(*next));
	struct ibv_wc wc[16];

	CHECK(next);
	while (count) {
		int n = rc_poll(recv_cq, wc, 16);

		for (int i = 0; i < n; i++) {
			unsigned int number = wc[i].wr_id >> 32;

			CHECK(wc[i].qp_num == qps[number]->qp_num);
			CHECK((uint32_t)wc[i].wr_id == next[number]++);
		}
		count -= n;
	}
	CHECK(rc_poll(recv_cq, wc, 1) == 0);
	free(next);
}

static void use_full_cq(void)
{
	uint32_t *sequence = calloc(options.qps, sizeof(*sequence));
	struct usage before = usage_now();

	CHECK(sequence);
	fill_cq(options.depth, sequence);
	report("completions in one CQ", options.depth, &before);
	before = usage_now();
	empty_cq(options.depth);
	report("completions polled", options.depth, &before);
	free(sequence);
}

/* --- all ------------------------------------------------------------------------------------- */

static void parse(int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "q:m:c:d:")) != -1) {
		if (option == 'q')
			options.qps = atoi(optarg);
		else if (option == 'm')
			options.regions = atoi(optarg);
		else if (option == 'c')
			options.cqs = atoi(optarg);
		else if (option == 'd')
			options.depth = atoi(optarg);
		else
			exit(2);
	}
	CHECK(options.qps >= FEW && options.qps % FEW == 0 && options.regions >= 2 * FEW);
}

int main(int argc, char **argv)
{
	struct cost alone, beside, among;

	parse(argc, argv);
	create_first();
	alone = measure(0);
	create_rest();
	beside = measure(0);
	among = measure(FEW);
	report_cost("few QPs, nothing else", &alone);
	report_cost("few QPs, beside all", &beside);
	report_cost("all QPs in turn", &among);
	use_all();
	use_full_cq();
	destroy_all();
	printf("scale: ok\n");
	return 0;
}
