/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rest of libibverbs's symbols: those that rdma-core's own libraries use
 * (no installed header declares them), and those newer than the oldest headers
 * that urxe builds with. The latter are defined with arguments as machine words,
 * under names that can't clash with a newer header's.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "net/guard.h"
#include "net/syscalls.h"
#include "verbs/check/checked.h"
#include "verbs/context.h"
#include "verbs/inherited.h"
#include "verbs/mr_ex.h"
#include "verbs/preload/export.h"
#include "verbs/preload/real.h"
#include "verbs/registry.h"

/* --- for rdma-core's own ---------------------------------------------------------------- */

#define COPY(name, node)                                                                           \
	EXPORT void name(void *to, void *from);                                                    \
	EXPORT void name(void *to, void *from)                                                     \
	{                                                                                          \
		static void *cache;                                                                \
		void (*real)(void *, void *) = real_find(&cache, REAL_VERBS, #name, node);         \
                                                                                                   \
		if (real)                                                                          \
			real(to, from);                                                            \
	}

COPY(ibv_copy_path_rec_from_kern, "IBVERBS_1.0")
COPY(ibv_copy_path_rec_to_kern, "IBVERBS_1.0")
COPY(ibv_copy_qp_attr_from_kern, "IBVERBS_1.0")
COPY(ibv_copy_ah_attr_from_kern, "IBVERBS_1.1")

#define FORK_RANGE(name)                                                                           \
	EXPORT int name(void *base, size_t size);                                                  \
	EXPORT int name(void *base, size_t size)                                                   \
	{                                                                                          \
		static void *cache;                                                                \
		int (*real)(void *, size_t) = real_find(&cache, REAL_VERBS, #name, "IBVERBS_1.1"); \
                                                                                                   \
		return real ? real(base, size) : 0;                                                \
	}

FORK_RANGE(ibv_dofork_range)
FORK_RANGE(ibv_dontfork_range)

EXPORT const char *ibv_get_sysfs_path(void);
EXPORT const char *ibv_get_sysfs_path(void)
{
	const char *path = registry_configuration()->sysfs_path;

	return path && getuid() == geteuid() ? path : "/sys";
}

/* The first line of a file, without its newline: its length, or -1. */
EXPORT int ibv_read_sysfs_file(const char *directory, const char *file, char *buffer, size_t size);
EXPORT int ibv_read_sysfs_file(const char *directory, const char *file, char *buffer, size_t size)
{
	char *path;
	ssize_t length;
	int fd;

	if (asprintf(&path, "%s/%s", directory, file) < 0)
		return -1;
	/* Through our own open(), which knows the paths of our devices. */
	fd = open(path, O_RDONLY | O_CLOEXEC);
	free(path);
	if (fd < 0)
		return -1;
	length = sys_read(fd, buffer, size);
	sys_close(fd);
	if (length > 0 && buffer[length - 1] == '\n')
		buffer[--length] = '\0';
	else if (length > 0 && (size_t)length < size)
		buffer[length] = '\0';
	else if (length > 0)
		return -1;
	return length;
}

/* --- newer than IBVERBS_1.14 --------------------------------------------------------------- */

typedef uintptr_t word;
typedef word (*newer_function)(word, word, word, word, word, word);

/* What a verb that our devices don't have returns. */
enum answer { AN_ERRNO, A_NULL, MINUS_ONE };

static word failing(int error, enum answer answer)
{
	if (answer == AN_ERRNO)
		return error;
	errno = error;
	return answer == A_NULL ? 0 : (word)-1;
}

static word lacking(enum answer answer)
{
	return failing(EOPNOTSUPP, answer);
}

static word lacking_ours(const char *name, enum answer answer)
{
	cause_report(CAUSE_NOT_SUPPORTED, "%s()", name);
	return lacking(answer);
}

static word lacking_inherited(const char *call, enum answer answer)
{
	report_inherited(call);
	return lacking(answer);
}

/* The first argument (depth 0), or the first member of the object that is; or NULL. */
static struct ibv_context *first_context(word first, int depth)
{
	if (!first)
		return NULL;
	return depth ? *(struct ibv_context **)first : (struct ibv_context *)first;
}

#define CONTEXT 0
#define OBJECT 1

#define NEWER(name, node, depth, answer)                                                           \
	NEWER_OURS(name, node, depth, answer, lacking_ours(#name, answer))

/* The same of a verb that our devices have, and that faults know: @ours calls it with a, b, ... */
#define NEWER_VERB(name, node, depth, answer, ours)                                                \
	static word made_##name(word a, word b, word c, word d, word e)                            \
	{                                                                                          \
		int error = hook_refusal(FAULT_CALL_##name);                                       \
                                                                                                   \
		return error ? failing(error, answer) : (word)(ours);                              \
	}                                                                                          \
	NEWER_OURS(name, node, depth, answer, made_##name(a, b, c, d, e))

/* ... or that they don't know. */
#define NEWER_OURS(name, node, depth, answer, ours)                                                \
	word newer_##name(word a, word b, word c, word d, word e, word f) __asm__(#name);          \
	EXPORT word newer_##name(word a, word b, word c, word d, word e, word f)                   \
	{                                                                                          \
		static void *cache;                                                                \
		newer_function real;                                                               \
                                                                                                   \
		if (context_is_ours(first_context(a, depth))) {                                    \
			guard_thread();                                                            \
			return ours;                                                               \
		}                                                                                  \
		if (context_is_inherited(first_context(a, depth)))                                 \
			return lacking_inherited(#name "()", answer);                              \
		real = (newer_function)real_find(&cache, REAL_VERBS, #name, node);                 \
		return real ? real(a, b, c, d, e, f) : lacking(answer);                            \
	}

NEWER(ibv_alloc_dmah, "IBVERBS_1.15", CONTEXT, A_NULL)
NEWER(ibv_dealloc_dmah, "IBVERBS_1.15", OBJECT, AN_ERRNO)
NEWER_VERB(ibv_reg_mr_ex, "IBVERBS_1.15", OBJECT, A_NULL,
	   HOOKED(reg_mr_ex)((struct ibv_pd *)a, (const struct mr_init_attr *)b))
NEWER(ibv_dm_export_dmabuf_fd, "IBVERBS_1.16", OBJECT, MINUS_ONE)
NEWER_OURS(ibv_query_port_speed, "IBVERBS_1.16", CONTEXT, AN_ERRNO,
	   set_errno(HOOKED(query_port_speed)((struct ibv_context *)a, b, (uint64_t *)c)))
NEWER_VERB(ibv_alloc_buf, "IBVERBS_1.17", OBJECT, A_NULL,
	   HOOKED(alloc_buf)((struct ibv_pd *)a, b, (struct buf **)c))
NEWER_OURS(ibv_free_buf, "IBVERBS_1.17", OBJECT, AN_ERRNO, (HOOKED(free_buf)((struct buf *)a), 0))
NEWER_VERB(ibv_reg_buf_mr, "IBVERBS_1.17", OBJECT, A_NULL,
	   HOOKED(reg_buf_mr)((struct ibv_pd *)a, (struct buf *)b, (void *)c, d, e))
NEWER(_ibv_query_comp_cntr_caps, "IBVERBS_1.18", CONTEXT, AN_ERRNO)
NEWER(ibv_create_comp_cntr, "IBVERBS_1.18", CONTEXT, A_NULL)
NEWER(ibv_destroy_comp_cntr, "IBVERBS_1.18", OBJECT, AN_ERRNO)
NEWER(ibv_set_comp_cntr, "IBVERBS_1.18", OBJECT, AN_ERRNO)
NEWER(ibv_set_err_comp_cntr, "IBVERBS_1.18", OBJECT, AN_ERRNO)
NEWER(ibv_inc_comp_cntr, "IBVERBS_1.18", OBJECT, AN_ERRNO)
NEWER(ibv_inc_err_comp_cntr, "IBVERBS_1.18", OBJECT, AN_ERRNO)
NEWER(ibv_read_comp_cntr, "IBVERBS_1.18", OBJECT, AN_ERRNO)
NEWER(ibv_read_err_comp_cntr, "IBVERBS_1.18", OBJECT, AN_ERRNO)
NEWER(ibv_qp_attach_comp_cntr, "IBVERBS_1.18", OBJECT, AN_ERRNO)
NEWER_OURS(ibv_export_buf_dmabuf_fd, "IBVERBS_1.18", OBJECT, MINUS_ONE,
	   HOOKED(export_buf_dmabuf_fd)((struct buf *)a))
