/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The application's own faults stay its own: its handlers of SIGSEGV and SIGBUS, those it had
 * before a region was registered and those it installs later, get them as if urxe had none, and
 * memory that goes away is guarded all the same.
 */
#include <check.h>
#include <fenv.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "tests/must.h"
#include "tests/run_suite.h"
#include "tests/sanitizers.h"
#include "tests/verbs/gone.h"

#ifndef SS_AUTODISARM /* Linux has it, glibc before 2.39 hasn't */
#define SS_AUTODISARM (1U << 31)
#endif

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
	if (caught.address != memory) /* s390 tells of the page alone */
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

/* So is what else the kernel takes from it for a handler's time. */
START_TEST(the_way_it_calculates_is_restored)
{
	ck_assert_int_eq(fesetround(FE_UPWARD), 0);
	use_gone_memory();
	ck_assert_int_eq(fegetround(), FE_UPWARD);
	ck_assert_int_eq(fesetround(FE_TONEAREST), 0);
}
END_TEST

START_TEST(the_alternate_stack_is_restored)
{
	static uint8_t memory[64 << 10];
	stack_t stack = {
		.ss_sp = memory, .ss_size = sizeof(memory), .ss_flags = (int)SS_AUTODISARM};

	ck_assert_int_eq(sigaltstack(&stack, NULL), 0);
	use_gone_memory();
	ck_assert_int_eq(sigaltstack(NULL, &stack), 0);
	ck_assert_ptr_eq(stack.ss_sp, memory);
	stack.ss_flags = SS_DISABLE;
	ck_assert_int_eq(sigaltstack(&stack, NULL), 0);
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

/* on_plain_fault() is, if @set sets it. Returns what it is set with. */
static struct sigaction is_kept_behind_ours(sighandler_t (*set)(int number, sighandler_t handler))
{
	struct sigaction now;

	use_gone_memory();
	ck_assert(signal(SIGSEGV, SIG_DFL) != SIG_ERR);
	ck_assert(set(SIGSEGV, on_plain_fault) == SIG_DFL);
	use_gone_memory();
	ck_assert_int_eq(caught.count, 0);
	ck_assert_int_eq(sigaction(SIGSEGV, NULL, &now), 0);
	ck_assert(now.sa_handler == on_plain_fault);
	ck_assert_int_eq(raise(SIGSEGV), 0);
	ck_assert_int_eq(caught.count, 1);
	return now;
}

START_TEST(signal_is_kept_behind_ours)
{
	ck_assert(is_kept_behind_ours(signal).sa_flags & SA_RESTART);
	ck_assert(signal(SIGSEGV, SIG_IGN) == on_plain_fault);
	ck_assert_int_eq(raise(SIGSEGV), 0);
	ck_assert_int_eq(kill(getpid(), SIGSEGV), 0);
	ck_assert(signal(SIGSEGV, SIG_DFL) == SIG_IGN);
}
END_TEST

/* Deprecated, as <signal.h> says. */
sighandler_t set_disposition(int number, sighandler_t next) __asm__("sigset");

START_TEST(sigset_is_kept_behind_ours)
{
	ck_assert_int_eq(is_kept_behind_ours(set_disposition).sa_flags, 0);
	ck_assert(set_disposition(SIGSEGV, SIG_HOLD) == on_plain_fault);
	use_gone_memory();
	ck_assert(set_disposition(SIGSEGV, SIG_IGN) == on_plain_fault);
	ck_assert(set_disposition(SIGSEGV, SIG_DFL) == SIG_IGN);
}
END_TEST

/* As the kernel has it for the time of a handler. */
static void unblock_in_handler(int number)
{
	caught.count++;
	must(set_disposition(SIGSEGV, on_plain_fault) == SIG_HOLD);
	must(sigprocmask(SIG_BLOCK, NULL, &caught.mask) == 0);
}

START_TEST(sigset_unblocks)
{
	use_gone_memory();
	ck_assert(signal(SIGSEGV, unblock_in_handler) != SIG_ERR);
	ck_assert_int_eq(raise(SIGSEGV), 0);
	ck_assert_int_eq(caught.count, 1);
	ck_assert(!sigismember(&caught.mask, SIGSEGV));
	ck_assert(signal(SIGSEGV, SIG_DFL) == on_plain_fault);
}
END_TEST

/* System V's is for one signal, and not kept from the next one while it runs. */
static const struct {
	sighandler_t (*set)(int number, sighandler_t handler);
	int flags;
} setters[] = {
	{signal, SA_RESTART},
	{ssignal, SA_RESTART},
	{sysv_signal, SA_RESETHAND | SA_NODEFER},
	{__sysv_signal, SA_RESETHAND | SA_NODEFER},
};

START_TEST(other_names_of_signal)
{
	struct sigaction now = is_kept_behind_ours(setters[_i].set);

	ck_assert_int_eq(now.sa_flags, setters[_i].flags);
	ck_assert_int_eq(sigismember(&now.sa_mask, SIGSEGV), setters[_i].flags == SA_RESTART);
	ck_assert(setters[_i].set(SIGSEGV, SIG_ERR) == SIG_ERR);
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

static void send_as_others_do(void)
{
	kill(getpid(), SIGSEGV);
}

/* How the process ends without a handler: by the signal, as if we weren't there. */
static const struct {
	void (*die)(void);
	void (*handler)(int);
} ends[] = {
	{fault, SIG_DFL},
	{fault, SIG_IGN},
	{send_to_itself, SIG_DFL},
	{send_as_others_do, SIG_DFL},
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
	tcase_add_test(tcase, a_handler_from_later_is_kept_behind_ours);
	tcase_add_test(tcase, its_handler_is_not_interrupted_by_it);
	tcase_add_test(tcase, the_mask_is_restored);
	tcase_add_test(tcase, nodefer_is_respected);
	tcase_add_test(tcase, the_alternate_stack_is_used_only_if_wanted);
	tcase_add_test(tcase, resethand_is_respected);
	tcase_add_test(tcase, signal_is_kept_behind_ours);
	tcase_add_test(tcase, sigset_is_kept_behind_ours);
	tcase_add_test(tcase, sigset_unblocks);
	tcase_add_loop_test(tcase, other_names_of_signal, 0, sizeof(setters) / sizeof(setters[0]));
	suite_add_tcase(suite, tcase);
}

int main(void)
{
	Suite *suite = suite_create("guard_handlers");
	TCase *tcase = tcase_create("guard_handlers");

	fixture_environment();
	tcase_set_timeout(tcase, 100);
	tcase_add_test(tcase, a_handler_from_before_gets_its_faults);
	tcase_add_test(tcase, the_way_it_calculates_is_restored);
	tcase_add_test(tcase, the_alternate_stack_is_restored);
	tcase_add_loop_test(tcase, without_a_handler_the_process_ends, 0,
			    sizeof(ends) / sizeof(ends[0]));
	suite_add_tcase(suite, tcase);
	if (!HAS_TSAN)
		add_later_changes(suite);
	return run_suite(suite);
}
