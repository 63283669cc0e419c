/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How much stack the library needs below an application's call. Applications give
 * their threads little (16 KiB is PTHREAD_STACK_MIN), and coroutines even less, as
 * the libraries of hardware need next to nothing.
 *
 * Each step runs on a stack of our own that was painted before; the deepest byte
 * that lost its paint says how far the step went. Sanitizers make frames larger,
 * so this is built without them.
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <rdma/rdma_verbs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/must.h"
#include "tests/run_suite.h"
#include "tests/verbs/fixture.h"
#include "tests/verbs/manager.h"

#define STACK_MOST 8192
#define STACK_SIZE (1u << 18)
#define PAINT 0x5a
/* At most that of the function that paints. */
#define OWN_FRAME 256
#define ROUNDS 4
#define PORT 7474
#define LENGTH 65536
#define MESSAGES 32

static struct {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_qp *sender, *receiver, *datagram;
	struct ibv_ah *ah;
	struct rdma_event_channel *events;
	struct rdma_cm_id *listener, *client, *server;
	uint8_t memory[2 * LENGTH];
	int to_child[2], from_child[2]; /* pipes */
} node;

/* --- verbs ------------------------------------------------------------------------ */

static void open_device(void)
{
	node.context = fixture_open();
}

static void close_device(void)
{
	fixture_close(node.context);
}

static void register_memory(void)
{
	node.pd = ibv_alloc_pd(node.context);
	must(node.pd);
	node.mr = ibv_reg_mr(node.pd, node.memory, sizeof(node.memory),
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				     IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	must(node.mr);
}

static void deregister_memory(void)
{
	must(ibv_dereg_mr(node.mr) == 0);
	must(ibv_dealloc_pd(node.pd) == 0);
}

static void create_queues(void)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 2 * MESSAGES, .max_sge = 1}};

	node.channel = ibv_create_comp_channel(node.context);
	must(node.channel);
	node.cq = ibv_create_cq(node.context, 4 * MESSAGES, NULL, node.channel, 0);
	must(node.cq);
	node.srq = ibv_create_srq(node.pd, &attr);
	must(node.srq);
}

static void destroy_queues(void)
{
	must(ibv_destroy_srq(node.srq) == 0);
	must(ibv_destroy_cq(node.cq) == 0);
	must(ibv_destroy_comp_channel(node.channel) == 0);
}

static struct ibv_qp *make_qp(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = node.cq,
		.recv_cq = node.cq,
		.srq = node.srq,
		.cap = {.max_send_wr = 2 * MESSAGES, .max_send_sge = 1, .max_inline_data = 64},
		.qp_type = type,
		.sq_sig_all = 1,
	};
	struct ibv_qp *qp = ibv_create_qp(node.pd, &attr);

	must(qp);
	return qp;
}

static void create_qps(void)
{
	node.sender = make_qp(IBV_QPT_RC);
	node.receiver = make_qp(IBV_QPT_RC);
	node.datagram = make_qp(IBV_QPT_UD);
}

static void modify_qps(void)
{
	connect_qp(node.sender, node.receiver);
	connect_qp(node.receiver, node.sender);
	connect_qp(node.datagram, node.datagram);
}

/* Whose line is looked up with explanations on. */
static void modify_wrongly(void)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_qp *qp = make_qp(IBV_QPT_RC);

	must(ibv_modify_qp(qp, &attr,
			   IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS) ==
	     0);
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024};
	attr.ah_attr.port_num = 1;
	must(ibv_modify_qp(qp, &attr,
			   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				   IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				   IBV_QP_MIN_RNR_TIMER) == EINVAL);
	must(ibv_destroy_qp(qp) == 0);
}

static void destroy_qps(void)
{
	must(ibv_destroy_qp(node.sender) == 0);
	must(ibv_destroy_qp(node.receiver) == 0);
	must(ibv_destroy_qp(node.datagram) == 0);
}

static void create_ah(void)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh.hop_limit = 64};

	must(ibv_query_gid(node.context, 1, 0, &attr.grh.dgid) == 0);
	node.ah = ibv_create_ah(node.pd, &attr);
	must(node.ah);
}

static void destroy_ah(void)
{
	must(ibv_destroy_ah(node.ah) == 0);
}

static void post_a_receive(void)
{
	struct ibv_sge sge = {(uintptr_t)node.memory + LENGTH, LENGTH, node.mr->lkey};
	struct ibv_recv_wr *bad, wr = {.sg_list = &sge, .num_sge = 1};

	must(ibv_post_srq_recv(node.srq, &wr, &bad) == 0);
}

static void await_completions(unsigned int count)
{
	struct ibv_wc wc[4];

	while (count) {
		int got = ibv_poll_cq(node.cq, count < 4 ? count : 4, wc);

		must(got >= 0);
		for (int i = 0; i < got; i++)
			must_msg(wc[i].status == IBV_WC_SUCCESS, "%s",
				 ibv_wc_status_str(wc[i].status));
		count -= got;
	}
}

static void post_rc(enum ibv_wr_opcode opcode, uint32_t length)
{
	struct ibv_sge sge = {(uintptr_t)node.memory, length, node.mr->lkey};
	struct ibv_send_wr *bad,
		wr = {
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = opcode,
			.wr.rdma = {(uintptr_t)node.memory + LENGTH, node.mr->rkey},
		};

	if (opcode == IBV_WR_SEND)
		post_a_receive();
	must(ibv_post_send(node.sender, &wr, &bad) == 0);
}

static void send_messages(void)
{
	for (unsigned int i = 0; i < MESSAGES; i++) {
		post_rc(IBV_WR_SEND, 64);
		await_completions(2);
	}
}

/* Many at once: most of them are sent together. */
static void write_words(void)
{
	for (unsigned int i = 0; i < MESSAGES; i++)
		post_rc(IBV_WR_RDMA_WRITE, 8);
	await_completions(MESSAGES);
}

static void write_memory(void)
{
	for (unsigned int i = 0; i < MESSAGES; i++) {
		post_rc(IBV_WR_RDMA_WRITE, LENGTH);
		await_completions(1);
	}
}

static void read_memory(void)
{
	for (unsigned int i = 0; i < MESSAGES; i++) {
		post_rc(IBV_WR_RDMA_READ, LENGTH);
		await_completions(1);
	}
}

static void send_datagrams(void)
{
	struct ibv_sge sge = {(uintptr_t)node.memory, 64, node.mr->lkey};
	struct ibv_send_wr *bad, wr = {
					 .sg_list = &sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_SEND,
					 .wr.ud = {node.ah, node.datagram->qp_num, 0x1ee7},
				 };

	for (unsigned int i = 0; i < MESSAGES; i++) {
		post_a_receive();
		must(ibv_post_send(node.datagram, &wr, &bad) == 0);
		await_completions(2);
	}
}

/* Both ends are here, and each says why: the deepest report, and the QPs' last request. */
static void refuse_a_request(void)
{
	struct ibv_sge sge = {(uintptr_t)node.memory, 8, node.mr->lkey};
	struct ibv_send_wr *bad, wr = {
					 .sg_list = &sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_RDMA_WRITE,
					 .wr.rdma = {(uintptr_t)node.memory, node.mr->rkey + 1},
				 };
	struct ibv_wc wc = {};

	must(ibv_post_send(node.sender, &wr, &bad) == 0);
	while (ibv_poll_cq(node.cq, 1, &wc) == 0)
		;
	must(wc.status == IBV_WC_REM_ACCESS_ERR && wc.vendor_err != 0);
}

/* The completion that an armed CQ waits for comes from the background thread. */
static void sleep_for_completion(void)
{
	struct ibv_cq *cq;
	void *context;

	must(ibv_req_notify_cq(node.cq, 0) == 0);
	post_rc(IBV_WR_SEND, 64);
	must(ibv_get_cq_event(node.channel, &cq, &context) == 0);
	ibv_ack_cq_events(cq, 1);
	await_completions(2);
}

/* --- another process -------------------------------------------------------------- */

static void tell(int fd)
{
	must(write(fd, "", 1) == 1);
}

static void hear(int fd)
{
	char byte;

	must(read(fd, &byte, 1) == 1);
}

/* It shares our address for some time, when told. */
static void live_as_child(void)
{
	char byte;

	close(node.to_child[1]);
	while (read(node.to_child[0], &byte, 1) == 1) {
		node.context = fixture_open();
		register_memory();
		create_queues();
		create_qps();
		tell(node.from_child[1]);
		hear(node.to_child[0]);
		destroy_qps();
		destroy_queues();
		deregister_memory();
		fixture_close(node.context);
		tell(node.from_child[1]);
	}
	exit(EXIT_SUCCESS);
}

/* Which sockets have joined is written into a program for the kernel when we poll next. */
static void share_address(void)
{
	tell(node.to_child[1]);
	hear(node.from_child[0]);
	send_messages();
}

static void have_address_alone(void)
{
	tell(node.to_child[1]);
	hear(node.from_child[0]);
	send_messages();
}

/* --- connections ------------------------------------------------------------------ */

static void begin_listening(void)
{
	node.events = open_channel();
	node.listener = open_id(node.events, RDMA_PS_TCP);
	start_listening(node.listener, PORT);
}

static void connect_ids(void)
{
	struct rdma_conn_param param = {.retry_count = 7, .rnr_retry_count = 7};
	struct rdma_cm_event *event;

	node.client = open_id(node.events, RDMA_PS_TCP);
	resolve(node.client, PORT);
	create_qp(node.client);
	must(rdma_connect(node.client, &param) == 0);
	event = next_event(node.events, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	node.server = event->id;
	must(rdma_ack_cm_event(event) == 0);
	create_qp(node.server);
	must(rdma_accept(node.server, &param) == 0);
	for (unsigned int established = 0; established < 2; established++)
		must(rdma_ack_cm_event(next_event(node.events, RDMA_CM_EVENT_ESTABLISHED, 0)) == 0);
	send_one(node.client, node.server);
}

static void disconnect_ids(void)
{
	must(rdma_disconnect(node.client) == 0);
	expect(node.events, node.server, RDMA_CM_EVENT_DISCONNECTED, 0);
	must(rdma_disconnect(node.server) == 0);
	expect(node.events, node.client, RDMA_CM_EVENT_DISCONNECTED, 0);
	destroy(node.client);
	destroy(node.server);
}

static void end_listening(void)
{
	destroy(node.listener);
	rdma_destroy_event_channel(node.events);
}

/* --- the painted stack ------------------------------------------------------------ */

static const struct step {
	const char *name;
	void (*run)(void);
} steps[] = {
	{"open the device", open_device},
	{"register memory", register_memory},
	{"create queues", create_queues},
	{"create QPs", create_qps},
	{"modify QPs", modify_qps},
	{"modify a QP wrongly", modify_wrongly},
	{"create an AH", create_ah},
	{"send messages", send_messages},
	{"write words", write_words},
	{"write memory", write_memory},
	{"read memory", read_memory},
	{"send datagrams", send_datagrams},
	{"sleep for a completion", sleep_for_completion},
	{"share the address", share_address},
	{"have the address alone", have_address_alone},
	{"listen", begin_listening},
	{"connect", connect_ids},
	{"disconnect", disconnect_ids},
	{"end listening", end_listening},
	{"refuse a request", refuse_a_request},
	{"destroy the AH", destroy_ah},
	{"destroy QPs", destroy_qps},
	{"destroy queues", destroy_queues},
	{"deregister memory", deregister_memory},
	{"close the device", close_device},
};
#define STEPS (sizeof(steps) / sizeof(*steps))

/* Threads of the application carry these out too. What can't be sent again isn't hit. */
static const struct setting {
	const char *name, *value;
} settings[] = {
	{"URXE_FAULTS", ""},
	{"URXE_FAULTS", "dup=1%/RC_;reorder=1%/RC_;delay(200us)=1%/RC_;corrupt#9/RC_;drop#20/RC_"},
	{"URXE_PCAP", "/dev/null"},
	{"URXE_EXPLAIN", "1"},
};

static size_t used[STEPS];
static volatile uint8_t *stack;

/* Everything below this function's own frame. Returns how much that is. */
static __attribute__((noinline)) size_t paint(void)
{
	size_t top = (uint8_t *)__builtin_frame_address(0) - (uint8_t *)stack - OWN_FRAME;

	for (size_t i = 0; i < top; i++)
		stack[i] = PAINT;
	return top;
}

static __attribute__((noinline)) size_t measure(const struct step *step)
{
	size_t top = paint(), lowest = 0;

	step->run();
	while (lowest < top && stack[lowest] == PAINT)
		lowest++;
	return top + OWN_FRAME - lowest;
}

static void *run_steps(void *context)
{
	for (unsigned int round = 0; round < ROUNDS; round++) {
		for (unsigned int i = 0; i < STEPS; i++) {
			size_t depth = measure(&steps[i]);

			if (depth > used[i])
				used[i] = depth;
		}
	}
	return NULL;
}

START_TEST(little_stack_below_a_call)
{
	pthread_attr_t attr;
	pthread_t thread;
	pid_t child;

	must(setenv(settings[_i].name, settings[_i].value, 1) == 0);
	must(pipe(node.to_child) == 0 && pipe(node.from_child) == 0);
	child = fork();
	must(child >= 0);
	if (child == 0)
		live_as_child();
	stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(stack != MAP_FAILED);
	must(pthread_attr_init(&attr) == 0);
	must(pthread_attr_setstack(&attr, (void *)stack, STACK_SIZE) == 0);
	must(pthread_create(&thread, &attr, run_steps, NULL) == 0);
	must(pthread_join(thread, NULL) == 0);
	close(node.to_child[1]);
	must(waitpid(child, NULL, 0) == child);
	for (unsigned int i = 0; i < STEPS; i++)
		ck_assert_msg(used[i] < STACK_MOST, "%s=%s: %s takes %zu bytes of stack",
			      settings[_i].name, settings[_i].value, steps[i].name, used[i]);
}
END_TEST

/* As each thread has it that the program makes; none of ours is to end the program. */
START_TEST(threads_of_ours_have_enough)
{
	struct pair pair;
	pthread_attr_t attr;

	must(pthread_attr_init(&attr) == 0);
	must(pthread_attr_setstacksize(&attr, PTHREAD_STACK_MIN) == 0);
	must(pthread_setattr_default_np(&attr) == 0);
	pair_open(&pair, IBV_QPT_RC, 0);
	for (unsigned int i = 0; i < MESSAGES; i++) {
		must(post_write(&pair, 0) == 0);
		usleep(5000); /* the progress thread's turn */
		must(wait_completion(pair.send_cq).status == IBV_WC_SUCCESS);
	}
	pair_close(&pair);
}
END_TEST

/* All symbols are bound at the start: later, that takes stack which is the dynamic linker's. */
static void bind_now(char **arguments)
{
	if (getenv("LD_BIND_NOW"))
		return;
	must(setenv("LD_BIND_NOW", "1", 1) == 0);
	execv("/proc/self/exe", arguments);
	must_msg(false, "%s", strerror(errno));
}

int main(int argc, char **argv)
{
	Suite *suite = suite_create("stack");
	TCase *tests = tcase_create("stack");

	bind_now(argv);
	fixture_environment();
	tcase_set_timeout(tests, 60);
	tcase_add_loop_test(tests, little_stack_below_a_call, 0,
			    sizeof(settings) / sizeof(*settings));
	tcase_add_test(tests, threads_of_ours_have_enough);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
