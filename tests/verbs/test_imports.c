/* SPDX-License-Identifier: BSD-2-Clause */
/* Other names of objects: what a context that shares a file imports, and what each name keeps. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/run_suite.h"
#include "tests/said.h"
#include "tests/verbs/fails.h"
#include "tests/verbs/fixture.h"

#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

static struct pair pair;

/* Eight bytes from the beginning of the buffer. */
static void write_eight(void *to, uint32_t rkey)
{
	struct ibv_sge sge = send_sge(&pair, 8);
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {.remote_addr = (uintptr_t)to, .rkey = rkey},
	};
	struct ibv_send_wr *bad;

	ck_assert_int_eq(ibv_post_send(pair.sender, &wr, &bad), 0);
	ck_assert_int_eq(wait_completion(pair.send_cq).status, IBV_WC_SUCCESS);
}

static struct ibv_dm *alloc_dm(size_t length)
{
	struct ibv_alloc_dm_attr attr = {.length = length};
	struct ibv_dm *dm = ibv_alloc_dm(pair.context, &attr);

	ck_assert_ptr_nonnull(dm);
	return dm;
}

static struct ibv_context *import_context(void)
{
	struct ibv_context *context = ibv_import_device(dup(pair.context->cmd_fd));

	ck_assert_ptr_nonnull(context);
	return context;
}

START_TEST(imports_are_names)
{
	struct ibv_context *context;
	struct ibv_mr *mr, *new;
	struct ibv_dm *dm, *other;
	struct ibv_pd *pd;
	char bytes[8];

	pair_open(&pair, IBV_QPT_RC, 0);
	context = import_context();
	pd = ibv_import_pd(context, pair.pd->handle);
	ck_assert_ptr_nonnull(pd);
	ck_assert_ptr_eq(pd->context, context);
	ck_assert_uint_eq(pd->handle, pair.pd->handle);
	mr = ibv_import_mr(pd, pair.mr->handle);
	ck_assert_ptr_nonnull(mr);
	ck_assert_ptr_eq(mr->pd, pd);
	ck_assert_ptr_null(mr->addr);
	ck_assert_uint_eq(mr->length, pair.mr->length);
	ck_assert_uint_eq(mr->lkey, pair.mr->lkey);
	ck_assert_uint_eq(mr->rkey, pair.mr->rkey);
	ck_assert_uint_eq(mr->handle, pair.mr->handle);
	ck_fails(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0), EINVAL);

	/* What is made in the import is in the same protection domain. */
	new = ibv_reg_mr(pd, bytes, sizeof(bytes), ACCESS);
	ck_assert_ptr_nonnull(new);
	memcpy(pair.buffer, "by name", 8);
	write_eight(bytes, new->rkey);
	ck_assert_str_eq(bytes, "by name");
	/* An import may end before what was made in it. */
	ibv_unimport_mr(mr);
	ibv_unimport_pd(pd);
	ck_assert_int_eq(ibv_dealloc_pd(pair.pd), EBUSY);
	ck_assert_int_eq(ibv_dereg_mr(new), 0);

	dm = alloc_dm(64);
	other = ibv_import_dm(context, dm->handle);
	ck_assert_ptr_nonnull(other);
	ck_assert_int_eq(ibv_memcpy_to_dm(dm, 8, "the same", 8), 0);
	ck_assert_int_eq(ibv_memcpy_from_dm(bytes, other, 8, 8), 0);
	ck_assert_mem_eq(bytes, "the same", 8);
	ibv_unimport_dm(other);
	ck_assert_int_eq(ibv_memcpy_from_dm(bytes, dm, 0, 8), 0);
	ck_assert_int_eq(ibv_free_dm(dm), 0);
	ck_assert_int_eq(ibv_close_device(context), 0);
	pair_close(&pair);
}
END_TEST

/* What is left of a context's objects when it is closed can be destroyed: they keep it. */
START_TEST(names_keep_their_context)
{
	struct ibv_parent_domain_init_attr attr = {};
	struct ibv_pd *parent, *import;
	struct ibv_context *context;
	struct ibv_mr *in_parent, *in_import;
	static struct said said;

	setenv("URXE_EXPLAIN", "1", 1);
	setenv("URXE_LOG", "info", 1);
	pair_open(&pair, IBV_QPT_RC, 0);
	context = import_context();
	attr.pd = pair.pd;
	parent = ibv_alloc_parent_domain(context, &attr);
	import = ibv_import_pd(context, pair.pd->handle);
	ck_assert(parent && import);
	in_parent = ibv_reg_mr(parent, pair.buffer, 8, ACCESS);
	in_import = ibv_reg_mr(import, pair.buffer, 8, ACCESS);
	ck_assert(in_parent && in_import);
	ibv_unimport_pd(import);
	said_begin(&said);
	ck_assert_int_eq(ibv_close_device(context), 0);
	said_end(&said);
	ck_assert_uint_eq(said_count(&said, CAUSE_CONTEXT_BUSY), 1);
	ck_assert_ptr_nonnull(strstr(said.text, "2 objects of urxe0"));
	ck_assert_int_eq(ibv_dereg_mr(in_import), 0);
	ck_assert_int_eq(ibv_dereg_mr(in_parent), 0);
	ck_assert_int_eq(ibv_dealloc_pd(parent), 0);
	pair_close(&pair);
}
END_TEST

/* Destroyed by one of its names, an object is no more; the others can only end. */
START_TEST(destroyed_by_an_import)
{
	struct ibv_context *context;
	struct ibv_mr *mr, *new;
	struct ibv_dm *dm, *other;
	struct ibv_pd *pd, *first;
	char bytes[8];

	pair_open(&pair, IBV_QPT_RC, 0);
	context = import_context();
	first = ibv_alloc_pd(pair.context);
	new = ibv_reg_mr(first, bytes, sizeof(bytes), ACCESS);
	pd = ibv_import_pd(context, first->handle);
	mr = ibv_import_mr(pd, new->handle);
	ck_assert_ptr_nonnull(mr);
	ck_assert_int_eq(ibv_dealloc_pd(pd), EBUSY);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	ck_assert_ptr_null(ibv_import_mr(pd, new->handle));
	ck_assert_int_eq(errno, ENOENT);
	ck_assert_int_eq(ibv_rereg_mr(new, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ACCESS),
			 IBV_REREG_MR_ERR_CMD);
	ck_assert_int_eq(errno, ENOENT);
	ck_assert_int_eq(ibv_dereg_mr(new), ENOENT);
	ibv_unimport_mr(new);
	ck_assert_int_eq(ibv_dealloc_pd(pd), 0);
	ck_assert_ptr_null(ibv_reg_mr(first, bytes, sizeof(bytes), ACCESS));
	ck_assert_int_eq(errno, EINVAL);
	ibv_unimport_pd(first);

	dm = alloc_dm(64);
	other = ibv_import_dm(context, dm->handle);
	ck_assert_int_eq(ibv_free_dm(other), 0);
	ck_assert_ptr_null(ibv_import_dm(context, dm->handle));
	ck_assert_int_eq(errno, ENOENT);
	ck_assert_int_eq(ibv_memcpy_to_dm(dm, 0, bytes, 8), EFAULT);
	ck_assert_ptr_null(ibv_reg_dm_mr(pair.pd, dm, 0, 64, ACCESS | IBV_ACCESS_ZERO_BASED));
	ck_assert_int_eq(errno, EINVAL);
	ibv_unimport_dm(dm);

	/* The first name ends; the object is there until another one destroys it. */
	dm = alloc_dm(64);
	other = ibv_import_dm(context, dm->handle);
	ibv_unimport_dm(dm);
	ck_assert_int_eq(ibv_memcpy_to_dm(other, 0, bytes, 8), 0);
	ck_assert_int_eq(ibv_free_dm(other), 0);
	ck_assert_int_eq(ibv_close_device(context), 0);
	pair_close(&pair);
}
END_TEST

enum { SIZES = 33, SIZE_STEP = 8 }; /* of small objects */

/* The import of a region is no user of its protection domain, which may end before it. */
START_TEST(import_outlives_its_domain)
{
	static const uint8_t zeros[SIZES * SIZE_STEP];
	uint8_t *others[SIZES];
	struct ibv_mr *mr;
	struct ibv_pd *pd;

	pair_open(&pair, IBV_QPT_RC, 0);
	pd = ibv_alloc_pd(pair.context);
	mr = ibv_import_mr(pd, pair.mr->handle);
	ck_assert_ptr_nonnull(mr);
	ck_assert_int_eq(ibv_dealloc_pd(pd), 0);
	/* What would be its memory is zeros, as a domain of another kind has them. */
	for (unsigned int i = 1; i < SIZES; i++)
		others[i] = memset(malloc(i * SIZE_STEP), 0, i * SIZE_STEP);
	ibv_unimport_mr(mr);
	for (unsigned int i = 1; i < SIZES; i++) {
		ck_assert_mem_eq(others[i], zeros, i * SIZE_STEP);
		free(others[i]);
	}
	pair_close(&pair);
}
END_TEST

/* Objects belong to the file behind the command descriptor. */
START_TEST(imports_that_are_refused)
{
	struct ibv_context *stranger, *context;
	struct ibv_dm *dm;
	struct ibv_pd *pd;

	pair_open(&pair, IBV_QPT_RC, 0);
	context = import_context();
	stranger = fixture_open();
	dm = alloc_dm(64);
	ck_assert_ptr_null(ibv_import_pd(stranger, pair.pd->handle));
	ck_assert_int_eq(errno, ENOENT);
	ck_assert_ptr_null(ibv_import_dm(stranger, dm->handle));
	ck_assert_int_eq(errno, ENOENT);
	ck_assert_ptr_null(ibv_import_pd(context, dm->handle));
	ck_assert_int_eq(errno, ENOENT);
	ck_assert_ptr_null(ibv_import_dm(context, pair.pd->handle));
	ck_assert_int_eq(errno, ENOENT);
	pd = ibv_alloc_pd(stranger);
	ck_assert_ptr_null(ibv_import_mr(pd, pair.mr->handle));
	ck_assert_int_eq(errno, ENOENT);
	ck_assert_ptr_null(ibv_import_mr(pair.pd, dm->handle));
	ck_assert_int_eq(errno, ENOENT);
	ck_assert_int_eq(ibv_dealloc_pd(pd), 0);
	ck_assert_int_eq(ibv_free_dm(dm), 0);
	fixture_close(stranger);
	ck_assert_int_eq(ibv_close_device(context), 0);
	pair_close(&pair);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("imports");
	TCase *tcase = tcase_create("imports");

	fixture_environment();
	tcase_set_timeout(tcase, 300);
	tcase_add_test(tcase, imports_are_names);
	tcase_add_test(tcase, names_keep_their_context);
	tcase_add_test(tcase, destroyed_by_an_import);
	tcase_add_test(tcase, import_outlives_its_domain);
	tcase_add_test(tcase, imports_that_are_refused);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
