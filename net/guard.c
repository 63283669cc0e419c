/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/guard.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "net/fence.h"

/*
 * The compiler's own setjmp() costs nothing to speak of, the C library's twenty nanoseconds.
 * Sanitizers want to see jumps, to clean their shadow stack.
 */
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__) &&      \
	!defined(__clang__)
typedef void *guard_jump[5];
#define GUARD_SET(jump) __builtin_setjmp(jump)
#define GUARD_JUMP(jump) __builtin_longjmp(jump, 1)
#else
typedef jmp_buf guard_jump;
#define GUARD_SET(jump) _setjmp(jump)
#define GUARD_JUMP(jump) _longjmp(jump, 1)
#endif

struct guard {
	struct guard *outer; /* interrupted by a handler of the application that is here, too */
	const struct iovec *memory;
	unsigned int count;
	struct guard_fault fault;
	guard_jump jump;
};

#define FILES 1024

/* Of a process's addresses on Linux, unless it asks for higher ones. */
#define ADDRESS_BITS 47

/* Static, as the signal handler that reads it is handed no object of ours. */
static struct {
	_Atomic uintptr_t first, end; /* @first is 0: free; @end is 0: to be filled in */
} files[FILES];

/*
 * initial-exec, as a signal handler reads it: memory for the variables of other models may be
 * allocated when a thread first uses them.
 */
static _Thread_local struct guard *innermost __attribute__((tls_model("initial-exec")));

_Thread_local bool guard_has_thread __attribute__((tls_model("initial-exec")));

void guard_unblock(void)
{
	sigset_t faults;

	sigemptyset(&faults);
	sigaddset(&faults, SIGSEGV);
	sigaddset(&faults, SIGBUS);
	pthread_sigmask(SIG_UNBLOCK, &faults, NULL);
	guard_has_thread = true;
}

/* Not inlined: behind the jump, nothing but @guard may be relied on. */
__attribute__((noinline)) static bool run(struct guard *guard, void (*touch)(void *context),
					  void *context)
{
	if (GUARD_SET(guard->jump))
		return false;
	innermost = guard;
	touch(context);
	return true;
}

static void guard_begin(struct guard *guard, const struct iovec *memory, unsigned int count)
{
	guard_thread();
	guard->outer = innermost;
	guard->memory = memory;
	guard->count = count;
}

static bool guard_end(const struct guard *guard, bool done, struct guard_fault *fault)
{
	innermost = guard->outer;
	if (!done && fault)
		*fault = guard->fault;
	return done;
}

bool guard_run(const struct iovec *memory, unsigned int count, void (*touch)(void *context),
	       void *context, struct guard_fault *fault)
{
	struct guard guard;

	guard_begin(&guard, memory, count);
	return guard_end(&guard, run(&guard, touch, context), fault);
}

/*
 * As siginfo has it: arm64 leaves the upper byte out of addresses, but of those of the kernel. A
 * peer may have named one with such a byte, for a region that is the whole address space.
 */
static uintptr_t as_told(const void *address)
{
#if defined(__aarch64__)
	return (uintptr_t)address & (uintptr_t)((intptr_t)((uintptr_t)address << 8) >> 8);
#else
	return (uintptr_t)address;
#endif
}

/* By pages: some machines say no more of where it was. */
static bool covers(const struct iovec *memory, unsigned int count, const void *address)
{
	for (unsigned int i = 0; i < count; i++) {
		uintptr_t first = as_told(memory[i].iov_base) & -GUARD_PAGE;
		uintptr_t end = as_told(memory[i].iov_base) + memory[i].iov_len;

		if ((uintptr_t)address >= first &&
		    (uintptr_t)address < ((end + GUARD_PAGE - 1) & -GUARD_PAGE))
			return true;
	}
	return false;
}

/*
 * x86 says nothing of where a fault was whose address is none at all: a peer may have named it,
 * for a region that is the whole address space.
 */
static bool reaches_beyond_addresses(const struct iovec *memory, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		uint64_t last = (uintptr_t)memory[i].iov_base + memory[i].iov_len - 1;

		if (last >> ADDRESS_BITS)
			return true;
	}
	return false;
}

/* --- files --------------------------------------------------------------------------- */

bool guard_file(void *memory, size_t length)
{
	for (unsigned int i = 0; i < FILES; i++) {
		uintptr_t none = 0;

		if (!atomic_compare_exchange_strong(&files[i].first, &none, (uintptr_t)memory))
			continue;
		files[i].end = (uintptr_t)memory + length;
		return true;
	}
	return false;
}

void guard_forget_file(void *memory)
{
	for (unsigned int i = 0; i < FILES; i++) {
		if (files[i].first != (uintptr_t)memory)
			continue;
		files[i].end = 0;
		files[i].first = 0;
	}
}

void guard_after_fork_child(void)
{
	for (unsigned int i = 0; i < FILES; i++)
		files[i].first = files[i].end = 0;
	guard_has_thread = false;
}

static bool replace_file(uintptr_t address)
{
	for (unsigned int i = 0; i < FILES; i++) {
		uintptr_t first = files[i].first, end = files[i].end;

		if (address >= first && address < end)
			return mmap((void *)first, end - first, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
				    0) != MAP_FAILED;
	}
	return false;
}

/* --- the signal ---------------------------------------------------------------------- */

/* Where the thread goes on instead of the access that faulted. */
static _Noreturn void leave(void)
{
	GUARD_JUMP(innermost->jump);
}

/*
 * Not by a jump out of the handler: only when that returns the thread gets back what the kernel
 * took from it for the handler's time. That is not the signal mask alone: on x86 rounding and
 * exceptions of floating-point arithmetic and the rights of protection keys, and an alternate stack
 * that is disarmed (SS_AUTODISARM). A processor whose registers aren't known here gets the signal
 * mask alone.
 */
static void return_to_leave(ucontext_t *context)
{
#if defined(__x86_64__)
	greg_t *registers = context->uc_mcontext.gregs;

	/* As behind a call. The red zone needn't be kept: what has faulted doesn't go on. */
	registers[REG_RSP] = (registers[REG_RSP] & -16) - 8;
	registers[REG_EFL] &= ~0x400; /* as every function has it: copies go upwards */
	registers[REG_RIP] = (greg_t)leave;
#elif defined(__aarch64__)
	context->uc_mcontext.pc = (uintptr_t)leave;
#else
	pthread_sigmask(SIG_SETMASK, &context->uc_sigmask, NULL);
	leave();
#endif
}

bool guard_catch(int signal, const siginfo_t *info, void *context)
{
	struct guard *guard = innermost;

	/* Not when it was sent (kill(2)). */
	if (info->si_code <= 0)
		return false;
	if (signal == SIGBUS && replace_file((uintptr_t)info->si_addr))
		return true;
	/* Not when it is a handler's that has interrupted us. */
	if (!guard ||
	    !(info->si_code == SI_KERNEL ? reaches_beyond_addresses(guard->memory, guard->count)
					 : covers(guard->memory, guard->count, info->si_addr)))
		return false;
	guard->fault = (struct guard_fault){signal, info->si_code, info->si_addr};
	return_to_leave(context);
	return true;
}

const char *guard_fault_text(const struct guard_fault *fault)
{
	static const struct {
		int signal, code;
		const char *text;
	} texts[] = {
		{SIGSEGV, SEGV_MAPERR, "not mapped any more"},
		{SIGSEGV, SEGV_ACCERR, "protected"},
		{SIGSEGV, SI_KERNEL, "beyond all addresses"},
		{SIGBUS, BUS_ADRERR, "beyond the end of its file"},
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (texts[i].signal == fault->signal && texts[i].code == fault->code)
			return texts[i].text;
	}
	return "not accessible";
}

/* --- what is done in it -------------------------------------------------------------- */

/* The largest word of up to eight bytes that ends at @end, is aligned, and no longer than @most. */
static size_t last_word(uintptr_t end, size_t most)
{
	size_t word = (end | 8) & -(end | 8);

	while (word > most)
		word /= 2;
	return word;
}

/*
 * In one store, behind what was stored before. Volatile: ThreadSanitizer makes of atomic ones calls
 * of its own, with locks, which a fault must not end.
 */
static void store_word(void *to, const void *from, size_t word)
{
	union {
		uint8_t byte;
		uint16_t two;
		uint32_t four;
		uint64_t eight;
	} value;

	memcpy(&value, from, word);
	fence_writes();
	switch (word) {
	case 1:
		*(volatile uint8_t *)to = value.byte;
		break;
	case 2:
		*(volatile uint16_t *)to = value.two;
		break;
	case 4:
		*(volatile uint32_t *)to = value.four;
		break;
	case 8:
		*(volatile uint64_t *)to = value.eight;
		break;
	}
}

/* memcpy() itself stores in any order, on x86, too. */
static void write_in_order(uint8_t *to, const uint8_t *from, size_t length)
{
	size_t word = last_word((uintptr_t)to + length, length), rest = length - word;

	fence_writes();
	if (rest)
		memcpy(to, from, rest);
	store_word(to + rest, from + rest, word);
}

static void read_in_order(void *to, const void *from, size_t length)
{
	memcpy(to, from, length);
	fence_reads();
}

/* As run(). The handler looks at innermost, of which the compiler knows nothing. */
__attribute__((noinline)) static bool run_copy(struct guard *guard, void *to, const void *from,
					       size_t length, bool write)
{
	if (GUARD_SET(guard->jump))
		return false;
	innermost = guard;
	atomic_signal_fence(memory_order_seq_cst);
	if (write)
		write_in_order(to, from, length);
	else
		read_in_order(to, from, length);
	atomic_signal_fence(memory_order_seq_cst);
	return true;
}

bool guard_write(void *to, const void *from, size_t length, struct guard_fault *fault)
{
	const struct iovec memory = {to, length};
	struct guard guard;

	guard_begin(&guard, &memory, 1);
	return guard_end(&guard, run_copy(&guard, to, from, length, true), fault);
}

/*
 * A READ may be answered once more, with what the application has begun to change, as by a NIC:
 * nothing orders the two, and the peer drops that answer. ThreadSanitizer is not to report it.
 */
#if defined(__SANITIZE_THREAD__)
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
#else
#define AnnotateIgnoreReadsBegin(file, line)
#define AnnotateIgnoreReadsEnd(file, line)
#endif

bool guard_read(void *to, const void *from, size_t length, struct guard_fault *fault)
{
	const struct iovec memory = {(void *)from, length};
	struct guard guard;
	bool done;

	guard_begin(&guard, &memory, 1);
	AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
	done = run_copy(&guard, to, from, length, false);
	AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
	return guard_end(&guard, done, fault);
}

struct probe {
	uintptr_t first, last;
	bool write;
};

/*
 * The application may be using it meanwhile, and that is no race of its. Address 0 is one as any
 * other.
 */
__attribute__((no_sanitize("address"), no_sanitize("thread"), no_sanitize("undefined"))) static void
probe_touch(void *context)
{
	const struct probe *probe = context;

	for (uintptr_t at = probe->first;; at = (at & -GUARD_PAGE) + GUARD_PAGE) {
		uint8_t byte = *(const volatile uint8_t *)at;

		while (probe->write &&
		       !__atomic_compare_exchange_n((uint8_t *)at, &byte, byte, false,
						    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			;
		if ((at | (GUARD_PAGE - 1)) >= probe->last)
			return;
	}
}

bool guard_probe(const void *address, size_t length, bool write, struct guard_fault *fault)
{
	const struct iovec memory = {(void *)address, length};
	struct probe probe = {(uintptr_t)address, (uintptr_t)address + length - 1, write};

	return !length || guard_run(&memory, 1, probe_touch, &probe, fault);
}
