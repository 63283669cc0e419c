/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Registered memory that goes away, in each way in which it can go and each use in which we
 * touch it: an error of that request, and the process goes on. The application's own faults
 * stay its own.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "tests/must.h"
#include "tests/run_suite.h"
#include "tests/sanitizers.h"
#include "tests/verbs/fixture.h"

#define ACCESS                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

static struct pair pair;
static size_t page;

/* --- memory that goes --------------------------------------------------------------- */

static struct {
	uint8_t *address;
	int file;
	struct ibv_mr *mr;
	bool on_demand;
} gone;

static void by_munmap(void)
{
	ck_assert_int_eq(munmap(gone.address, page), 0);
}

static void by_mprotect(void)
{
	ck_assert_int_eq(mprotect(gone.address, page, PROT_NONE), 0);
}

static void by_mprotect_readable(void)
{
	ck_assert_int_eq(mprotect(gone.address, page, PROT_READ), 0);
}

static void by_ftruncate(void)
{
	ck_assert_int_eq(ftruncate(gone.file, 0), 0);
}

static const struct {
	void (*go)(void);
	bool readable; /* still */
} ways[] = {
	{by_munmap},
	{by_mprotect},
	{by_mprotect_readable, true},
	{by_ftruncate},
};

/*
 * Where no other mapping comes to lie when this one is gone, though threads allocate: far from
 * where the kernel puts them. TSan allows less of the address space than the others,
 * and puts a mapping elsewhere that is asked for beyond.
 */
#define FAR_AWAY ((void *)(HAS_TSAN ? UINT64_C(1) << 38 : UINT64_C(1) << 45))

static void gone_open(void)
{
	page = sysconf(_SC_PAGESIZE);
	gone.file = memfd_create("gone", 0);
	ck_assert_int_ge(gone.file, 0);
	ck_assert_int_eq(ftruncate(gone.file, page), 0);
	gone.address = mmap(FAR_AWAY, page, PROT_READ | PROT_WRITE, MAP_SHARED, gone.file, 0);
	ck_assert_ptr_eq(gone.address, FAR_AWAY);
	gone.mr = ibv_reg_mr(pair.pd, gone.address, page,
			     ACCESS | (gone.on_demand ? IBV_ACCESS_ON_DEMAND : 0));
	ck_assert_ptr_nonnull(gone.mr);
}

static void gone_close(void)
{
	ck_assert_int_eq(ibv_dereg_mr(gone.mr), 0);
	munmap(gone.address, page);
	close(gone.file);
}

/* --- uses of it --------------------------------------------------------------------------- */

static struct ibv_sge gone_sge(uint32_t length)
{
	return (struct ibv_sge){(uintptr_t)gone.address, length, gone.mr->lkey};
}

static void post(enum ibv_wr_opcode opcode, struct ibv_sge sge, const struct ibv_mr *remote)
{
	struct ibv_send_wr wr =
				   {
					   .sg_list = &sge,
					   .num_sge = 1,
					   .opcode = opcode,
					   .send_flags = IBV_SEND_SIGNALED,
				   },
			   *bad;

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)remote->addr;
		wr.wr.atomic.rkey = remote->rkey;
		wr.wr.atomic.compare_add = 1;
	} else if (remote) {
		wr.wr.rdma.remote_addr = (uintptr_t)remote->addr;
		wr.wr.rdma.rkey = remote->rkey;
	}
	ck_assert_int_eq(ibv_post_send(pair.sender, &wr, &bad), 0);
}

static void post_gone_receive(uint32_t length)
{
	struct ibv_sge sge = gone_sge(length);
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	ck_assert_int_eq(ibv_post_recv(pair.receiver, &wr, &bad), 0);
}

/* Where the access is. */
enum side { SOURCE, SINK, REMOTE, RECEIVE };

static const struct use {
	enum ibv_wr_opcode opcode;
	enum side side;
	bool reads; /* the memory that is gone */
} uses[] = {
	{IBV_WR_SEND, SOURCE, true},
	{IBV_WR_RDMA_WRITE, SOURCE, true},
	{IBV_WR_RDMA_READ, SINK},
	{IBV_WR_ATOMIC_FETCH_AND_ADD, SINK},
	{IBV_WR_RDMA_WRITE, REMOTE},
	{IBV_WR_RDMA_READ, REMOTE, true},
	{IBV_WR_ATOMIC_FETCH_AND_ADD, REMOTE},
	{IBV_WR_SEND, RECEIVE},
};

static const uint32_t lengths[] = {64, 3000};

static void expect_event(enum ibv_event_type type)
{
	struct pollfd readable = {.fd = pair.context->async_fd, .events = POLLIN};
	struct ibv_async_event event;

	ck_assert_int_eq(poll(&readable, 1, 30000), 1);
	ck_assert_int_eq(ibv_get_async_event(pair.context, &event), 0);
	ck_assert_int_eq(event.event_type, type);
	ck_assert_ptr_eq(event.element.qp, pair.receiver);
	ibv_ack_async_event(&event);
}

static void expect_errors(const struct use *use)
{
	bool local = use->side == SOURCE || use->side == SINK;
	/* On demand, it is an access like one beyond the region. */
	bool access = use->side == REMOTE && gone.on_demand;

	ck_assert_int_eq(wait_completion(pair.send_cq).status, local	? IBV_WC_LOC_PROT_ERR
							       : access ? IBV_WC_REM_ACCESS_ERR
									: IBV_WC_REM_OP_ERR);
	if (use->side == REMOTE)
		expect_event(access ? IBV_EVENT_QP_ACCESS_ERR : IBV_EVENT_QP_FATAL);
	if (use->side == RECEIVE)
		ck_assert_int_eq(wait_completion(pair.recv_cq).status, IBV_WC_LOC_PROT_ERR);
}

static void try_use(const struct use *use, void (*go)(void), uint32_t length)
{
	bool atomic = use->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
	struct ibv_sge sge;

	if (atomic)
		length = 8;
	pair_open(&pair, IBV_QPT_RC, 0);
	gone_open();
	sge = use->side == SOURCE || use->side == SINK ? gone_sge(length) : send_sge(&pair, length);
	if (use->side == RECEIVE)
		post_gone_receive(length);
	else
		post_receive(&pair, 0);
	go();
	post(use->opcode, sge,
	     use->opcode == IBV_WR_SEND ? NULL
	     : use->side == REMOTE	? gone.mr
					: pair.mr);
	expect_errors(use);
	gone_close();
	pair_close(&pair);
}

/* TSan holds a lock of its own in an atomic access: none may end half way. */
static bool can_be_tried(const struct use *use)
{
	return !HAS_TSAN || use->opcode != IBV_WR_ATOMIC_FETCH_AND_ADD || use->side != REMOTE;
}

static void try_all_ways(const struct use *use)
{
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		if (use->reads && ways[i].readable)
			continue;
		for (size_t k = 0; can_be_tried(use) && k < sizeof(lengths) / sizeof(lengths[0]);
		     k++)
			try_use(use, ways[i].go, lengths[k]);
	}
}

START_TEST(every_use_of_memory_that_is_gone_is_an_error)
{
	try_all_ways(&uses[_i]);
}
END_TEST

START_TEST(every_use_on_demand_of_what_is_not_there_is_an_error)
{
	gone.on_demand = true;
	try_all_ways(&uses[_i]);
}
END_TEST

START_TEST(memory_that_is_only_protected_against_writing_is_read)
{
	pair_open(&pair, IBV_QPT_RC, 0);
	gone_open();
	by_mprotect_readable();
	post(IBV_WR_RDMA_READ, send_sge(&pair, 3000), gone.mr);
	ck_assert_int_eq(wait_completion(pair.send_cq).status, IBV_WC_SUCCESS);
	post(IBV_WR_RDMA_WRITE, gone_sge(3000), pair.mr);
	ck_assert_int_eq(wait_completion(pair.send_cq).status, IBV_WC_SUCCESS);
	gone_close();
	pair_close(&pair);
}
END_TEST

/* No acknowledgement says anything of these: the requester itself must notice. */
START_TEST(a_source_that_is_gone_is_an_error_of_uc)
{
	pair_open(&pair, IBV_QPT_UC, 0);
	gone_open();
	by_munmap();
	post(IBV_WR_RDMA_WRITE, gone_sge(lengths[_i]), pair.mr);
	ck_assert_int_eq(wait_completion(pair.send_cq).status, IBV_WC_LOC_PROT_ERR);
	gone_close();
	pair_close(&pair);
}
END_TEST

START_TEST(a_write_of_uc_to_memory_that_is_gone_is_reported_here)
{
	pair_open(&pair, IBV_QPT_UC, 0);
	gone_open();
	by_munmap();
	post(IBV_WR_RDMA_WRITE, send_sge(&pair, lengths[_i]), gone.mr);
	ck_assert_int_eq(wait_completion(pair.send_cq).status, IBV_WC_SUCCESS);
	expect_event(IBV_EVENT_QP_FATAL);
	gone_close();
	pair_close(&pair);
}
END_TEST

static void *use_all(void *nothing)
{
	try_use(&uses[1], by_munmap, 3000);
	try_use(&uses[4], by_munmap, 3000);
	return NULL;
}

/* Many programs have one thread for signals, and block them in all others. */
START_TEST(threads_that_block_all_signals_are_guarded)
{
	sigset_t all, before;
	pthread_t thread;

	sigfillset(&all);
	ck_assert_int_eq(pthread_sigmask(SIG_SETMASK, &all, &before), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, use_all, NULL), 0);
	ck_assert_int_eq(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
}
END_TEST

static int block_by_pthread_sigmask(int how, const sigset_t *set)
{
	return pthread_sigmask(how, set, NULL);
}

static int block_by_sigprocmask(int how, const sigset_t *set)
{
	return sigprocmask(how, set, NULL);
}

static const struct {
	int (*call)(int how, const sigset_t *set);
	int how;
} blocks[] = {
	{block_by_pthread_sigmask, SIG_BLOCK},
	{block_by_pthread_sigmask, SIG_SETMASK},
	{block_by_sigprocmask, SIG_BLOCK},
	{block_by_sigprocmask, SIG_SETMASK},
};

/* Others block them around calls, where another thread is to handle them. */
START_TEST(signals_that_are_blocked_later_leave_it_guarded)
{
	sigset_t all, before, now;

	use_all(NULL);
	sigfillset(&all);
	ck_assert_int_eq(sigprocmask(SIG_BLOCK, NULL, &before), 0);
	for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
		ck_assert_int_eq(blocks[i].call(blocks[i].how, &all), 0);
		ck_assert_int_eq(pthread_sigmask(SIG_SETMASK, NULL, &now), 0);
		ck_assert(sigismember(&now, SIGUSR1) && sigismember(&now, SIGILL));
		ck_assert(!sigismember(&now, SIGSEGV) && !sigismember(&now, SIGBUS));
		use_all(NULL);
		ck_assert_int_eq(pthread_sigmask(SIG_SETMASK, &before, &now), 0);
		ck_assert(sigismember(&now, SIGUSR1));
		ck_assert_int_eq(pthread_sigmask(SIG_SETMASK, NULL, &now), 0);
		ck_assert(!sigismember(&now, SIGUSR1));
	}
	ck_assert_int_eq(pthread_sigmask(-1, &all, NULL), EINVAL);
	errno = 0;
	ck_assert_int_eq(sigprocmask(-1, &all, NULL), -1);
	ck_assert_int_eq(errno, EINVAL);
}
END_TEST

static void *blocks_all(void *nothing)
{
	sigset_t all, now;

	sigfillset(&all);
	must(pthread_sigmask(SIG_BLOCK, &all, NULL) == 0);
	must(pthread_sigmask(SIG_BLOCK, NULL, &now) == 0);
	must(sigismember(&now, SIGSEGV) && sigismember(&now, SIGBUS));
	must(pthread_sigmask(SIG_UNBLOCK, &all, NULL) == 0);
	must(sigprocmask(SIG_SETMASK, &all, &now) == 0);
	must(!sigismember(&now, SIGSEGV) && !sigismember(&now, SIGBUS));
	must(sigprocmask(SIG_BLOCK, NULL, &now) == 0);
	must(sigismember(&now, SIGSEGV) && sigismember(&now, SIGBUS));
	return NULL;
}

/* They may wait for these signals. */
START_TEST(threads_that_use_nothing_of_ours_block_what_they_like)
{
	pthread_t thread;

	use_all(NULL);
	ck_assert_int_eq(pthread_create(&thread, NULL, blocks_all, NULL), 0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
}
END_TEST

/* --- files that others read ---------------------------------------------------------------- */

static void truncate_ours(void)
{
	char pattern[64];
	glob_t found;

	snprintf(pattern, sizeof(pattern), "/dev/shm/urxe-process-*-%d-*", (int)getpid());
	ck_assert_int_eq(glob(pattern, 0, NULL, &found), 0);
	ck_assert_uint_eq(found.gl_pathc, 1);
	ck_assert_int_eq(truncate(found.gl_pathv[0], 0), 0);
	globfree(&found);
}

static void *polls(void *nothing)
{
	struct ibv_wc completion;

	must(ibv_poll_cq(pair.recv_cq, 1, &completion) == 1);
	return NULL;
}

static void *posts_a_receive(void *nothing)
{
	post_receive(&pair, 0);
	return NULL;
}

static void *asks_for_an_event(void *nothing)
{
	must(ibv_req_notify_cq(pair.recv_cq, 0) == 0);
	return NULL;
}

static void *creates(void *nothing)
{
	struct ibv_cq *cq = ibv_create_cq(pair.context, 1, NULL, NULL, 0);

	must(cq && ibv_destroy_cq(cq) == 0);
	return NULL;
}

static void *(*const first_calls[])(void *) = {polls, posts_a_receive, asks_for_an_event, creates};

/* A completion is there, and no call has taken it. */
static void wait_for_message(void)
{
	struct ibv_cq *cq;
	void *context;

	ck_assert_int_eq(ibv_req_notify_cq(pair.recv_cq, 0), 0);
	post_receive(&pair, 0);
	post(IBV_WR_SEND, send_sge(&pair, 8), NULL);
	ck_assert_int_eq(wait_completion(pair.send_cq).status, IBV_WC_SUCCESS);
	ck_assert_int_eq(ibv_get_cq_event(pair.channel, &cq, &context), 0);
	ibv_ack_cq_events(cq, 1);
}

/* A thread whose first call touches no memory of the application. */
START_TEST(a_thread_that_was_made_with_all_signals_blocked_is_guarded)
{
	pthread_attr_t attributes;
	pthread_t thread;
	sigset_t all;

	sigfillset(&all);
	ck_assert_int_eq(pthread_attr_init(&attributes), 0);
	ck_assert_int_eq(pthread_attr_setsigmask_np(&attributes, &all), 0);
	pair_open(&pair, IBV_QPT_RC, 0);
	wait_for_message();
	truncate_ours();
	ck_assert_int_eq(pthread_create(&thread, &attributes, first_calls[_i], NULL), 0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	pair_close(&pair);
	pthread_attr_destroy(&attributes);
}
END_TEST

/* --- what isn't there when it is registered ------------------------------------------------ */

START_TEST(a_page_beyond_the_end_of_a_file_is_refused)
{
	uint8_t *beyond;

	pair_open(&pair, IBV_QPT_RC, 0);
	gone_open();
	beyond = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_SHARED, gone.file, 0);
	ck_assert_ptr_ne(beyond, MAP_FAILED);
	ck_assert_ptr_null(ibv_reg_mr(pair.pd, beyond, page + 1, ACCESS));
	ck_assert_int_eq(errno, EFAULT);
	munmap(beyond, 2 * page);
	gone_close();
	pair_close(&pair);
}
END_TEST

START_TEST(without_descriptors_protection_is_found_all_the_same)
{
	struct rlimit limit = {0}, before;
	struct ibv_mr *mr;

	pair_open(&pair, IBV_QPT_RC, 0);
	gone_open();
	by_mprotect_readable();
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
	limit.rlim_max = before.rlim_max;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	ck_assert_ptr_null(ibv_reg_mr(pair.pd, gone.address, page, ACCESS));
	ck_assert_int_eq(errno, EFAULT);
	mr = ibv_reg_mr(pair.pd, gone.address, page, IBV_ACCESS_REMOTE_READ);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
	ck_assert_ptr_nonnull(mr);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	gone_close();
	pair_close(&pair);
}
END_TEST

START_TEST(nothing_is_registered_too)
{
	struct ibv_mr *mr;

	pair_open(&pair, IBV_QPT_RC, 0);
	gone_open();
	by_munmap();
	mr = ibv_reg_mr(pair.pd, gone.address + 1, 0, ACCESS);
	ck_assert_ptr_nonnull(mr);
	ck_assert_uint_eq(mr->length, 0);
	post(IBV_WR_RDMA_WRITE, (struct ibv_sge){(uintptr_t)gone.address + 1, 1, mr->lkey},
	     pair.mr);
	ck_assert_int_eq(wait_completion(pair.send_cq).status, IBV_WC_LOC_PROT_ERR);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	gone_close();
	pair_close(&pair);
}
END_TEST

/* --- the application's own faults ------------------------------------------------------ */

static struct {
	volatile sig_atomic_t count;
	int signal, code;
	void *address;
	sigset_t mask;
	void *frame;
} caught;

/* The page is there again, and the access is made again. */
static void on_fault(int number, siginfo_t *info, void *context)
{
	caught.count++;
	caught.signal = number;
	caught.code = info->si_code;
	caught.address = info->si_addr;
	caught.frame = __builtin_frame_address(0);
	sigprocmask(SIG_BLOCK, NULL, &caught.mask);
	if (info->si_code > 0)
		mprotect((void *)((uintptr_t)info->si_addr & -page), page, PROT_READ | PROT_WRITE);
}

static uint8_t *protected_page(void)
{
	uint8_t *memory = mmap(NULL, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(memory, MAP_FAILED);
	return memory;
}

/* A fault of the application's at an address that only the handler learns. */
static void expect_fault(void)
{
	uint8_t *memory = protected_page();
	int count = caught.count;

	*(volatile uint8_t *)(memory + 77) = 1;
	ck_assert_int_eq(caught.count, count + 1);
	ck_assert_int_eq(caught.signal, SIGSEGV);
	ck_assert_int_eq(caught.code, SEGV_ACCERR);
	ck_assert_ptr_eq(caught.address, memory + 77);
	munmap(memory, page);
}

static void install(int flags)
{
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | flags};

	sigemptyset(&action.sa_mask);
	sigaddset(&action.sa_mask, SIGUSR2);
	ck_assert_int_eq(sigaction(SIGSEGV, &action, NULL), 0);
}

static void expect_handler(int flags)
{
	struct sigaction now;

	ck_assert_int_eq(sigaction(SIGSEGV, NULL, &now), 0);
	ck_assert(now.sa_sigaction == on_fault);
	ck_assert_uint_eq(now.sa_flags & (SA_SIGINFO | SA_NODEFER | SA_ONSTACK | SA_RESETHAND),
			  (unsigned int)(SA_SIGINFO | flags));
	ck_assert(sigismember(&now.sa_mask, SIGUSR2));
	ck_assert(!sigismember(&now.sa_mask, SIGUSR1));
}

static void use_gone_memory(void)
{
	try_use(&uses[1], by_munmap, 3000);
	try_use(&uses[4], by_mprotect, 3000);
}

/* Before any region is registered. */
START_TEST(a_file_that_others_read_may_be_truncated)
{
	struct ibv_context *context = fixture_open();
	struct ibv_cq *cq;

	truncate_ours();
	cq = ibv_create_cq(context, 1, NULL, NULL, 0);
	ck_assert_ptr_nonnull(cq);
	ck_assert_int_eq(ibv_destroy_cq(cq), 0);
	fixture_close(context);
}
END_TEST

START_TEST(a_handler_from_before_gets_its_faults)
{
	page = sysconf(_SC_PAGESIZE);
	install(0);
	use_gone_memory();
	ck_assert_int_eq(caught.count, 0);
	if (!HAS_TSAN)
		expect_handler(0);
	expect_fault();
	use_gone_memory();
	ck_assert_int_eq(caught.count, 1);
}
END_TEST

START_TEST(a_handler_from_later_is_kept_behind_ours)
{
	use_gone_memory();
	install(0);
	expect_handler(0);
	use_gone_memory();
	ck_assert_int_eq(caught.count, 0);
	expect_fault();
	ck_assert(sigismember(&caught.mask, SIGSEGV));
	ck_assert(sigismember(&caught.mask, SIGUSR2));
	ck_assert(!sigismember(&caught.mask, SIGUSR1));
}
END_TEST

/* In its handler the kernel has it blocked, and what that does with its mask leaves it so. */
static void on_fault_with_masks(int number)
{
	sigset_t all, before;

	caught.count++;
	sigfillset(&all);
	must(pthread_sigmask(SIG_BLOCK, &all, &before) == 0);
	must(sigismember(&before, SIGSEGV) && !sigismember(&before, SIGBUS));
	must(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
	must(sigprocmask(SIG_BLOCK, NULL, &caught.mask) == 0);
}

START_TEST(its_handler_is_not_interrupted_by_it)
{
	use_gone_memory();
	ck_assert(signal(SIGSEGV, on_fault_with_masks) != SIG_ERR);
	ck_assert_int_eq(raise(SIGSEGV), 0);
	ck_assert_int_eq(caught.count, 1);
	ck_assert(sigismember(&caught.mask, SIGSEGV) && !sigismember(&caught.mask, SIGBUS));
}
END_TEST

/* Behind an access of ours that faulted, the thread's mask is what it was. */
START_TEST(the_mask_is_restored)
{
	sigset_t mask;

	use_gone_memory();
	install(0);
	use_gone_memory();
	sigprocmask(SIG_BLOCK, NULL, &mask);
	ck_assert(!sigismember(&mask, SIGSEGV));
	ck_assert(!sigismember(&mask, SIGUSR2));
	expect_fault();
}
END_TEST

START_TEST(nodefer_is_respected)
{
	use_gone_memory();
	install(SA_NODEFER);
	expect_handler(SA_NODEFER);
	expect_fault();
	ck_assert(!sigismember(&caught.mask, SIGSEGV));
	ck_assert(sigismember(&caught.mask, SIGUSR2));
}
END_TEST

START_TEST(the_alternate_stack_is_used_only_if_wanted)
{
	static uint8_t memory[64 << 10];
	const stack_t stack = {.ss_sp = memory, .ss_size = sizeof(memory)};

	use_gone_memory();
	ck_assert_int_eq(sigaltstack(&stack, NULL), 0);
	install(SA_ONSTACK);
	expect_fault();
	ck_assert((uint8_t *)caught.frame > memory &&
		  (uint8_t *)caught.frame < memory + sizeof(memory));
	use_gone_memory();
	install(0);
	expect_fault();
	ck_assert((uint8_t *)caught.frame < memory ||
		  (uint8_t *)caught.frame > memory + sizeof(memory));
}
END_TEST

START_TEST(resethand_is_respected)
{
	struct sigaction now;

	use_gone_memory();
	install(SA_RESETHAND);
	use_gone_memory();
	expect_handler(SA_RESETHAND);
	expect_fault();
	ck_assert_int_eq(sigaction(SIGSEGV, NULL, &now), 0);
	ck_assert(now.sa_handler == SIG_DFL);
}
END_TEST

static void on_plain_fault(int number)
{
	caught.count++;
}

START_TEST(signal_is_kept_behind_ours)
{
	struct sigaction now;

	use_gone_memory();
	ck_assert(signal(SIGSEGV, SIG_DFL) != SIG_ERR);
	ck_assert(signal(SIGSEGV, on_plain_fault) == SIG_DFL);
	use_gone_memory();
	ck_assert_int_eq(caught.count, 0);
	ck_assert_int_eq(raise(SIGSEGV), 0);
	ck_assert_int_eq(caught.count, 1);
	ck_assert_int_eq(sigaction(SIGSEGV, NULL, &now), 0);
	ck_assert(now.sa_handler == on_plain_fault);
	ck_assert(now.sa_flags & SA_RESTART);
	ck_assert(signal(SIGSEGV, SIG_IGN) == on_plain_fault);
	ck_assert_int_eq(raise(SIGSEGV), 0);
	ck_assert(signal(SIGSEGV, SIG_DFL) == SIG_IGN);
}
END_TEST

static void fault(void)
{
	*(volatile uint8_t *)protected_page() = 1;
}

static void send_to_itself(void)
{
	raise(SIGSEGV);
}

/* How the process ends without a handler: by the signal, as if we weren't there. */
static const struct {
	void (*die)(void);
	void (*handler)(int);
} ends[] = {
	{fault, SIG_DFL},
	{fault, SIG_IGN},
	{send_to_itself, SIG_DFL},
};

START_TEST(without_a_handler_the_process_ends)
{
	int status;
	pid_t child;

	use_gone_memory();
	child = fork();
	ck_assert_int_ge(child, 0);
	if (child == 0) {
		signal(SIGSEGV, ends[_i].handler);
		ends[_i].die();
		_exit(0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFSIGNALED(status));
	ck_assert_int_eq(WTERMSIG(status), SIGSEGV);
}
END_TEST

/* TSan doesn't let our functions be in front of libc's (verbs/preload/signals.c). */
static void add_later_changes(Suite *suite)
{
	TCase *tcase = tcase_create("later changes");

	tcase_set_timeout(tcase, 100);
	tcase_add_test(tcase, signals_that_are_blocked_later_leave_it_guarded);
	tcase_add_test(tcase, a_handler_from_later_is_kept_behind_ours);
	tcase_add_test(tcase, its_handler_is_not_interrupted_by_it);
	tcase_add_test(tcase, the_mask_is_restored);
	tcase_add_test(tcase, nodefer_is_respected);
	tcase_add_test(tcase, the_alternate_stack_is_used_only_if_wanted);
	tcase_add_test(tcase, resethand_is_respected);
	tcase_add_test(tcase, signal_is_kept_behind_ours);
	suite_add_tcase(suite, tcase);
}

int main(void)
{
	Suite *suite = suite_create("guard");
	TCase *tcase = tcase_create("guard");
	const int lengths_count = sizeof(lengths) / sizeof(lengths[0]);

	fixture_environment();
	tcase_set_timeout(tcase, 100);
	tcase_add_loop_test(tcase, every_use_of_memory_that_is_gone_is_an_error, 0,
			    sizeof(uses) / sizeof(uses[0]));
	tcase_add_loop_test(tcase, every_use_on_demand_of_what_is_not_there_is_an_error, 0,
			    sizeof(uses) / sizeof(uses[0]));
	tcase_add_test(tcase, memory_that_is_only_protected_against_writing_is_read);
	tcase_add_loop_test(tcase, a_source_that_is_gone_is_an_error_of_uc, 0, lengths_count);
	tcase_add_loop_test(tcase, a_write_of_uc_to_memory_that_is_gone_is_reported_here, 0,
			    lengths_count);
	tcase_add_test(tcase, threads_that_block_all_signals_are_guarded);
	tcase_add_loop_test(tcase, a_thread_that_was_made_with_all_signals_blocked_is_guarded, 0,
			    sizeof(first_calls) / sizeof(first_calls[0]));
	tcase_add_test(tcase, threads_that_use_nothing_of_ours_block_what_they_like);
	tcase_add_test(tcase, a_page_beyond_the_end_of_a_file_is_refused);
	/* ASan reads /proc/self/maps behind a jump, and ends without a descriptor for it. */
	if (!HAS_ASAN)
		tcase_add_test(tcase, without_descriptors_protection_is_found_all_the_same);
	tcase_add_test(tcase, nothing_is_registered_too);
	tcase_add_test(tcase, a_file_that_others_read_may_be_truncated);
	tcase_add_test(tcase, a_handler_from_before_gets_its_faults);
	tcase_add_loop_test(tcase, without_a_handler_the_process_ends, 0,
			    sizeof(ends) / sizeof(ends[0]));
	suite_add_tcase(suite, tcase);
	if (!HAS_TSAN)
		add_later_changes(suite);
	return run_suite(suite);
}
