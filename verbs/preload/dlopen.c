/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/preload/dlopen.h"

#include <dlfcn.h>
#include <stddef.h>

#include "verbs/preload/real.h"
#include "verbs/registry.h"

dlopen_function real_dlopen(void)
{
	static void *cache;

	return (dlopen_function)real_next(&cache, "dlopen");
}

/* The file name under which this object was loaded. */
static const char *own_file(void)
{
	Dl_info info;

	return dladdr((void *)own_file, &info) ? info.dli_fname : NULL;
}

/* Called by dlopen below: may put our own name in place of *@file. */
__attribute__((used)) dlopen_function dlopen_redirect(const char **file)
{
	const char *own;

	if (*file && real_is_named(*file) && registry_mode() != MODE_HW) {
		own = own_file();
		if (own)
			*file = own;
	}
	return real_dlopen();
}

/*
 * glibc finds the RUNPATH and the namespace by the return address, so the real
 * dlopen has to be entered by a jump, with our caller's frame on top, at any
 * level of optimisation: hence assembly.
 */
#if defined(__x86_64__)
__asm__(".text\n"
	".globl dlopen\n"
	".type dlopen, @function\n"
	"dlopen:\n"
	"	.cfi_startproc\n"
	"	endbr64\n"
	"	subq $24, %rsp\n"
	"	.cfi_adjust_cfa_offset 24\n"
	"	movq %rdi, (%rsp)\n"
	"	movq %rsi, 8(%rsp)\n"
	"	movq %rsp, %rdi\n"
	"	call dlopen_redirect\n"
	"	movq (%rsp), %rdi\n"
	"	movq 8(%rsp), %rsi\n"
	"	addq $24, %rsp\n"
	"	.cfi_adjust_cfa_offset -24\n"
	"	jmp *%rax\n"
	"	.cfi_endproc\n"
	".size dlopen, . - dlopen\n");
#elif defined(__aarch64__)
__asm__(".text\n"
	".globl dlopen\n"
	".type dlopen, %function\n"
	"dlopen:\n"
	"	.cfi_startproc\n"
	"	hint #34\n" /* bti c: nothing, on processors that don't know it */
	"	stp x29, x30, [sp, #-32]!\n"
	"	.cfi_adjust_cfa_offset 32\n"
	"	.cfi_offset 30, -24\n"
	"	stp x0, x1, [sp, #16]\n"
	"	add x0, sp, #16\n"
	"	bl dlopen_redirect\n"
	"	mov x16, x0\n"
	"	ldp x0, x1, [sp, #16]\n"
	"	ldp x29, x30, [sp], #32\n"
	"	.cfi_adjust_cfa_offset -32\n"
	"	br x16\n"
	"	.cfi_endproc\n"
	".size dlopen, . - dlopen\n");
#elif defined(__s390x__)
/* r2 and r3 go where every caller has room for them, as r14 does. */
__asm__(".text\n"
	".globl dlopen\n"
	".type dlopen, @function\n"
	"dlopen:\n"
	"	.cfi_startproc\n"
	"	stmg %r2, %r3, 16(%r15)\n"
	"	stg %r14, 112(%r15)\n"
	"	.cfi_offset 14, -48\n"
	"	la %r2, 16(%r15)\n"
	"	aghi %r15, -160\n"
	"	.cfi_adjust_cfa_offset 160\n"
	"	brasl %r14, dlopen_redirect\n"
	"	lgr %r1, %r2\n"
	"	aghi %r15, 160\n"
	"	.cfi_adjust_cfa_offset -160\n"
	"	lmg %r2, %r3, 16(%r15)\n"
	"	lg %r14, 112(%r15)\n"
	"	.cfi_restore 14\n"
	"	br %r1\n"
	"	.cfi_endproc\n"
	".size dlopen, . - dlopen\n");
#else
#error "dlopen() needs a tail jump for this processor"
#endif
