/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a message costs the core alone: two HCAs in one thread on a link that is a ring in memory,
 * without system calls, ICRCs, verbs or other threads. One posts RDMA WRITEs to the other, as
 * ib_write_bw does, and each side's time is taken.
 *
 *   core [-n MESSAGES] [-s BYTES] [-l LIST] [-t DEPTH] [-q SIGNALED-EVERY] [-S]    -S: SENDs
 *
 * The figures of one run to the next differ with the machine; instructions don't:
 *
 *   valgrind --tool=callgrind --callgrind-out-file=out core -n 100000
 *   callgrind_annotate --inclusive=yes out     the lines of sending_side and receiving_side
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/loopback.h"
#include "tests/sim/world.h"

#define RING (64u << 20) /* more than is ever in flight */
#define POLLED 16	 /* completions at a time, as perftest has it */
#define TICK 1000	 /* ns from one round to the next: nothing ever is late */

static struct {
	unsigned int messages, length, list, depth, signaled;
	bool sends;
} options = {.messages = 1000000, .length = 8, .list = 1, .depth = 512, .signaled = 100};

/* --- the link: packets to one HCA ---------------------------------------------------- */

/* In the ring; the next one is at a multiple of 64. */
struct record {
	uint32_t length; /* 0: the ring begins anew */
	const struct path *path;
	uint8_t bytes[];
};

struct memory_link {
	struct link link;
	struct memory_link *peer;
	uint8_t *ring; /* of what is sent to this one */
	uint64_t written, read, released;
};

static uint64_t record_size(uint32_t length)
{
	return (sizeof(struct record) + length + 63) & ~63ull;
}

static struct record *record_at(struct memory_link *link, uint64_t position)
{
	return (struct record *)(link->ring + position % RING);
}

static void append(struct memory_link *to, struct link_packet *packet)
{
	uint64_t size = record_size(link_packet_length(packet));
	uint64_t to_end = RING - to->written % RING;
	struct record *record;

	if (to_end < size) {
		record_at(to, to->written)->length = 0;
		to->written += to_end;
	}
	must(to->written + size - to->released <= RING);
	record = record_at(to, to->written);
	record->length = link_packet_length(packet);
	record->path = packet->path;
	link_packet_copy(packet, record->bytes);
	to->written += size;
}

static unsigned int memory_send(struct link *base, struct link_packet *packets, unsigned int count,
				uint64_t now)
{
	struct memory_link *link = (struct memory_link *)base;

	for (unsigned int i = 0; i < count; i++)
		append(link->peer, &packets[i]);
	return 0;
}

static unsigned int memory_receive(struct link *base, struct link_frame *frames, unsigned int max,
				   uint64_t now)
{
	struct memory_link *link = (struct memory_link *)base;
	unsigned int count = 0;

	link->released = link->read;
	while (count < max && link->read != link->written) {
		const struct record *record = record_at(link, link->read);

		if (!record->length) {
			link->read += RING - link->read % RING;
			continue;
		}
		frames[count++] = (struct link_frame){
			.data = record->bytes,
			.length = record->length,
			.trusted = true,
			.source = record->path->source,
			.destination = record->path->destination,
		};
		link->read += record_size(record->length);
	}
	return count;
}

static uint64_t memory_deadline(struct link *link)
{
	return TIME_NEVER;
}

static uint32_t memory_unread(struct link *link, const struct path *path, uint32_t qpn,
			      uint64_t *read)
{
	return 0;
}

static const struct link_ops memory_ops = {
	.send = memory_send,
	.receive = memory_receive,
	.deadline = memory_deadline,
	.unread = memory_unread,
};

static void memory_link_init(struct memory_link *link, struct memory_link *peer)
{
	*link = (struct memory_link){.link.ops = &memory_ops, .peer = peer};
	link->ring = calloc(1, RING);
	must(link->ring);
}

/* --- two nodes ----------------------------------------------------------------------- */

static struct {
	struct world world;
	struct node *sender, *receiver;
	struct memory_link links[2];
	struct link *simulated[2];
	struct qp *from, *to;
	uint8_t *memory[2];
	struct mr *regions[2];
	struct ibv_send_wr *list;
	struct ibv_sge sge, receive_sge;
	uint64_t now;
	unsigned int posted, completed;
	unsigned int unsignaled; /* posted since the last that was signaled */
} bench;

static void make_list(void)
{
	bench.list = calloc(options.list, sizeof(*bench.list));
	bench.sge = (struct ibv_sge){(uintptr_t)bench.memory[0], options.length,
				     bench.regions[0]->ibv.lkey};
	for (unsigned int i = 0; i < options.list; i++) {
		struct ibv_send_wr *wr = &bench.list[i];

		wr->next = i + 1 < options.list ? wr + 1 : NULL;
		wr->sg_list = &bench.sge;
		wr->num_sge = 1;
		wr->opcode = options.sends ? IBV_WR_SEND : IBV_WR_RDMA_WRITE;
		wr->wr.rdma.remote_addr = (uintptr_t)bench.memory[1];
		wr->wr.rdma.rkey = bench.regions[1]->ibv.rkey;
	}
}

static void create(void)
{
	struct qp_options qp = {
		.type = IBV_QPT_RC,
		.cap = {options.depth, options.depth, 1, 1, 0},
	};
	struct connection connection = world_connection;

	connection.mtu = IBV_MTU_4096;
	world_create(&bench.world, 2, NULL, 1);
	bench.sender = &bench.world.nodes[0];
	bench.receiver = &bench.world.nodes[1];
	bench.from = world_qp(bench.sender, &qp);
	bench.to = world_qp(bench.receiver, &qp);
	for (int i = 0; i < 2; i++) {
		struct node *node = &bench.world.nodes[i];

		bench.memory[i] = aligned_alloc(4096, (options.length + 4095) & ~4095u);
		memset(bench.memory[i], i, options.length);
		bench.regions[i] =
			world_mr(node, bench.memory[i], options.length, world_connection.access);
		memory_link_init(&bench.links[i], &bench.links[!i]);
		bench.simulated[i] = node->hca->link;
		node->hca->limits.device.phys_port_cnt = 1;
		node->hca->link = &bench.links[i].link;
	}
	world_connect(bench.sender, bench.from, bench.receiver, bench.to, &connection);
	make_list();
}

static void destroy(void)
{
	for (int i = 0; i < 2; i++) {
		bench.world.nodes[i].hca->link = bench.simulated[i];
		free(bench.links[i].ring);
	}
	qp_destroy(bench.from);
	qp_destroy(bench.to);
	for (int i = 0; i < 2; i++) {
		mr_deregister(bench.regions[i]);
		free(bench.memory[i]);
	}
	world_destroy(&bench.world);
	free(bench.list);
}

/* --- what is measured ---------------------------------------------------------------- */

static unsigned int poll_cq(struct node *node)
{
	struct completion completions[POLLED];
	int count = cq_poll(node->cq, completions, POLLED);
	unsigned int messages = 0;

	if (!count && hca_progress(node->hca, bench.now))
		count = cq_poll(node->cq, completions, POLLED);
	else if (!count)
		hca_acknowledge(node->hca, bench.now);
	for (int i = 0; i < count; i++) {
		must(completions[i].wc.status == IBV_WC_SUCCESS);
		messages += completions[i].wc.wr_id;
	}
	return messages;
}

/* Whether the queue has room for another list, which is posted then. */
static bool post(void)
{
	struct ibv_send_wr *bad, *last = &bench.list[options.list - 1];
	bool signaled;

	if (bench.posted == options.messages ||
	    bench.posted + options.list - bench.completed > options.depth)
		return false;
	bench.posted += options.list;
	bench.unsignaled += options.list;
	signaled = bench.unsignaled >= options.signaled || bench.posted == options.messages;
	last->send_flags = signaled ? IBV_SEND_SIGNALED : 0;
	last->wr_id = bench.unsignaled;
	if (signaled)
		bench.unsignaled = 0;
	must(qp_post_send(bench.from, bench.list, &bad, false, LAZY_TIME(bench.now)) == 0);
	return true;
}

/* Returns whether there may be more to do for it. */
static __attribute__((noinline)) bool sending_side(void)
{
	unsigned int count;

	if (post())
		return true;
	count = poll_cq(bench.sender);
	bench.completed += count;
	return count;
}

static void post_receive(void)
{
	struct ibv_recv_wr wr = {.wr_id = 1, .sg_list = &bench.receive_sge, .num_sge = 1}, *bad;

	must(qp_post_recv(bench.to, &wr, &bad) == 0);
}

static __attribute__((noinline)) void receiving_side(void)
{
	unsigned int count = poll_cq(bench.receiver);

	for (; options.sends && count; count--)
		post_receive();
}

static void run(void)
{
	uint64_t sending = 0, receiving = 0;

	bench.now = SECOND;
	bench.receive_sge = (struct ibv_sge){(uintptr_t)bench.memory[1], options.length,
					     bench.regions[1]->ibv.lkey};
	for (unsigned int i = 0; options.sends && i < options.depth; i++)
		post_receive();
	while (bench.completed < options.messages) {
		uint64_t start = now_ns(), middle;

		/* The receiver reads what arrives at once. */
		while (sending_side() && bench.links[1].read == bench.links[1].written)
			;
		middle = now_ns();
		do {
			receiving_side();
		} while (bench.links[1].read != bench.links[1].written);
		receiving += now_ns() - middle;
		sending += middle - start;
		bench.now += TICK;
	}
	printf("%u messages of %u bytes: sender %.1f ns, receiver %.1f ns\n", options.messages,
	       options.length, (double)sending / options.messages,
	       (double)receiving / options.messages);
}

static bool parse(int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "n:s:l:t:q:S")) != -1) {
		unsigned int value = optarg ? strtoul(optarg, NULL, 0) : 0;

		switch (option) {
		case 'n':
			options.messages = value;
			break;
		case 's':
			options.length = value;
			break;
		case 'l':
			options.list = value;
			break;
		case 't':
			options.depth = value;
			break;
		case 'q':
			options.signaled = value;
			break;
		case 'S':
			options.sends = true;
			break;
		default:
			return false;
		}
	}
	return optind == argc && options.list && options.list <= options.depth;
}

/* The simulator's nodes are made by code that asserts, which only a test may. */
START_TEST(test_core)
{
	create();
	run();
	destroy();
}
END_TEST

int main(int argc, char **argv)
{
	SRunner *runner;
	Suite *suite;
	TCase *tcase;
	int failed;

	if (!parse(argc, argv)) {
		fprintf(stderr, "usage: core [-n MESSAGES] [-s BYTES] [-l LIST] [-t DEPTH] "
				"[-q SIGNALED-EVERY] [-S]\n");
		return 2;
	}
	/* The last list is signaled, and whole. */
	options.messages -= options.messages % options.list;
	/* A queue that is full of requests without completions would stay so. */
	if (options.signaled > options.depth / 2)
		options.signaled = options.depth / 2;
	suite = suite_create("core");
	tcase = tcase_create("core");
	tcase_set_timeout(tcase, 0);
	tcase_add_test(tcase, test_core);
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_set_fork_status(runner, CK_NOFORK);
	srunner_run_all(runner, CK_SILENT);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
