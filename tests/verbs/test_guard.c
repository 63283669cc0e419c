/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Registered memory that goes away, in each way in which it can go and each use in which we
 * touch it: an error of that request, and the process goes on.
 */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/must.h"
#include "tests/run_suite.h"
#include "tests/sanitizers.h"
#include "tests/verbs/gone.h"

static const struct {
	void (*go)(void);
	bool readable; /* still */
} ways[] = {
	{by_munmap},
	{by_mprotect},
	{by_mprotect_readable, true},
	{by_ftruncate},
};

static const uint32_t lengths[] = {64, 3000};

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
	use_gone_memory();
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

int main(void)
{
	Suite *suite = suite_create("guard");
	TCase *tcase = tcase_create("guard");
	const int lengths_count = sizeof(lengths) / sizeof(lengths[0]);

	fixture_environment();
	tcase_set_timeout(tcase, 100);
	tcase_add_loop_test(tcase, every_use_of_memory_that_is_gone_is_an_error, 0, USES);
	tcase_add_loop_test(tcase, every_use_on_demand_of_what_is_not_there_is_an_error, 0, USES);
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
	/* TSan doesn't let our functions be in front of libc's (verbs/preload/signals.c). */
	if (!HAS_TSAN)
		tcase_add_test(tcase, signals_that_are_blocked_later_leave_it_guarded);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
