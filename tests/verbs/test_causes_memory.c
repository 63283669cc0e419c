/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory: every cause of net/cause/memory_calls.def that is about it, and what is said of it. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "net/newer_verbs.h"
#include "tests/run_suite.h"
#include "tests/verbs/causes.h"
#include "tests/verbs/core_limits.h"
#include "tests/verbs/fixture.h"
#include "tests/verbs/newer_regions.h"

#define ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define PAGE 65536 /* whole pages on any machine */

static uint8_t buffer[2 * PAGE] __attribute__((aligned(PAGE)));

static struct ibv_pd *open_pd(void)
{
	struct ibv_pd *pd = ibv_alloc_pd(fixture_open());

	ck_assert_ptr_nonnull(pd);
	return pd;
}

static void refused(struct ibv_pd *pd, void *address, size_t length, int access, int error)
{
	ck_assert_ptr_null(ibv_reg_mr(pd, address, length, access));
	ck_assert_int_eq(errno, error);
}

static struct ibv_mr *registered(struct ibv_pd *pd, int access)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, buffer, sizeof(buffer), access);

	ck_assert_ptr_nonnull(mr);
	return mr;
}

/* --- regions ------------------------------------------------------------------------------ */

static uint8_t *map(int protection, int fd)
{
	int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	uint8_t *memory = mmap(NULL, 4 * PAGE, protection, flags, fd, 0);

	ck_assert_ptr_ne(memory, MAP_FAILED);
	return memory;
}

static void memory_with_a_hole(void)
{
	uint8_t *memory = map(PROT_READ | PROT_WRITE, -1);

	ck_assert_int_eq(munmap(memory + 2 * PAGE, PAGE), 0);
	refused(open_pd(), memory, 4 * PAGE, ALL, EFAULT);
}

static void constants(void)
{
	refused(open_pd(), map(PROT_READ, -1) + 16, 100, IBV_ACCESS_LOCAL_WRITE, EFAULT);
}

static void guard_page(void)
{
	refused(open_pd(), map(PROT_NONE, -1), 100, 0, EFAULT);
}

static void short_file(void)
{
	int fd = memfd_create("short", 0);

	ck_assert_int_eq(ftruncate(fd, PAGE), 0);
	refused(open_pd(), map(PROT_READ | PROT_WRITE, fd), 4 * PAGE, ALL, EFAULT);
}

static void negative_length(void)
{
	refused(open_pd(), buffer, -1, 0, EINVAL);
}

static void empty_region(void)
{
	refused(open_pd(), map(PROT_READ, -1), 0, 0, EINVAL);
}

static void iova_from_0(void)
{
	ck_assert_ptr_null(ibv_reg_mr_iova(open_pd(), buffer + 8, 100, 0, 0));
}

static void all_memory_huge(void)
{
	refused(open_pd(), NULL, SIZE_MAX, IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB, EINVAL);
}

static struct pair pair;
static struct ibv_mw *window;

static void bind_window(void)
{
	struct ibv_mw_bind bind = {.bind_info = {.mr = NULL}};

	pair_open(&pair, IBV_QPT_RC, 0);
	window = ibv_alloc_mw(pair.pd, IBV_MW_TYPE_1);
	ck_assert_ptr_nonnull(window);
	bind.send_flags = IBV_SEND_SIGNALED;
	bind.bind_info.mr = registered(pair.pd, ALL | IBV_ACCESS_MW_BIND);
	bind.bind_info.addr = (uintptr_t)buffer;
	bind.bind_info.length = 8;
	bind.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_READ;
	ck_assert_int_eq(ibv_bind_mw(pair.sender, window, &bind), 0);
	ck_assert_int_eq(wait_completion(pair.send_cq).status, IBV_WC_SUCCESS);
	ck_assert_int_eq(ibv_dereg_mr(bind.bind_info.mr), EBUSY);
}

static void rereg(struct ibv_mr *mr, int flags, int access)
{
	ck_assert_int_ne(ibv_rereg_mr(mr, flags, NULL, NULL, 0, access), 0);
}

static void change_without_address(void)
{
	rereg(registered(open_pd(), 0), IBV_REREG_MR_CHANGE_TRANSLATION, 0);
}

static void change_of_nothing(void)
{
	rereg(registered(open_pd(), 0), 0, 0);
}

static void change_domain_to_none(void)
{
	rereg(registered(open_pd(), 0), IBV_REREG_MR_CHANGE_PD, 0);
}

static void change_null_region(void)
{
	rereg(ibv_alloc_null_mr(open_pd()), IBV_REREG_MR_CHANGE_ACCESS, 0);
}

static void try_ex(uint64_t mask)
{
	struct mr_init_attr attr = {.addr = buffer, .length = 8, .comp_mask = mask};

	ck_assert_ptr_null(newer_reg_mr_ex(open_pd(), &attr));
}

static void structure_without_address(void)
{
	try_ex(0);
}

static void structure_with_tags(void)
{
	try_ex(MR_EX_DMAH);
}

static void buffer_of_other_domain(void)
{
	struct ibv_pd *pd = open_pd();
	struct buf *buf;
	void *memory = newer_alloc_buf(pd, 8, &buf);

	ck_assert_ptr_null(newer_reg_buf_mr(ibv_alloc_pd(pd->context), buf, memory, 8, 0));
}

static void buffer_that_is_shorter(void)
{
	struct ibv_pd *pd = open_pd();
	struct buf *buf;
	void *memory = newer_alloc_buf(pd, 8, &buf);

	ck_assert_ptr_null(newer_reg_buf_mr(pd, buf, memory, 9, 0));
}

static void buffer_of_memory(void)
{
	struct buf *buf;

	ck_assert_ptr_nonnull(newer_alloc_buf(open_pd(), 8, &buf));
	ck_assert_int_eq(newer_export_buf_dmabuf_fd(buf), -1);
}

static void copied_region(void)
{
	struct ibv_mr *mr = registered(open_pd(), 0);

	mr->handle += 77;
	ck_assert_int_eq(ibv_dereg_mr(mr), ENOENT);
}

static void unknown_access(void)
{
	refused(open_pd(), buffer, 8, 1 << 19 | IBV_ACCESS_LOCAL_WRITE, EINVAL);
}

static void remote_write_alone(void)
{
	refused(open_pd(), buffer, 8, IBV_ACCESS_REMOTE_WRITE, EINVAL);
}

static void persistent(void)
{
	refused(open_pd(), buffer, 8, ACCESS_FLUSH_PERSISTENT, EOPNOTSUPP);
}

/* --- advice ------------------------------------------------------------------------------- */

static void advise(struct ibv_pd *pd, int advice, uint32_t key, void *address, uint32_t count)
{
	struct ibv_sge sge = {(uintptr_t)address, 2 * PAGE, key};

	ck_assert_int_ne(ibv_advise_mr(pd, advice, 0, &sge, count), 0);
}

static void unknown_advice(void)
{
	advise(open_pd(), 77, 1, buffer, 1);
}

static void advice_about_nothing(void)
{
	advise(open_pd(), IBV_ADVISE_MR_ADVICE_PREFETCH, 1, buffer, 0);
}

static void advice_about_ordinary_memory(void)
{
	struct ibv_pd *pd = open_pd();

	advise(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, registered(pd, 0)->lkey, buffer, 1);
}

static void advice_about_no_region(void)
{
	advise(open_pd(), IBV_ADVISE_MR_ADVICE_PREFETCH, 0xabcdef12, buffer, 1);
}

static void prefetch_to_write(void)
{
	struct ibv_pd *pd = open_pd();
	struct ibv_mr *mr = registered(pd, IBV_ACCESS_ON_DEMAND | IBV_ACCESS_REMOTE_READ);

	advise(pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, mr->lkey, buffer, 1);
}

static void advice_beyond_the_region(void)
{
	struct ibv_pd *pd = open_pd();

	advise(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, registered(pd, IBV_ACCESS_ON_DEMAND)->lkey,
	       buffer + PAGE, 1);
}

static void prefetch_a_hole(void)
{
	struct ibv_pd *pd = open_pd();
	uint8_t *memory = map(PROT_READ, -1);
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, 4 * PAGE, IBV_ACCESS_ON_DEMAND);

	ck_assert_ptr_nonnull(mr);
	ck_assert_int_eq(munmap(memory + PAGE, PAGE), 0);
	advise(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, mr->lkey, memory, 1);
}

/* --- windows ------------------------------------------------------------------------------ */

static void no_such_window(void)
{
	ck_assert_ptr_null(ibv_alloc_mw(open_pd(), 3));
}

static void try_bind(enum ibv_mw_type type, struct ibv_mw_bind_info info, bool foreign)
{
	struct ibv_mw_bind bind = {.bind_info = info};

	pair_open(&pair, IBV_QPT_RC, 0);
	if (foreign)
		bind.bind_info.mr = registered(ibv_alloc_pd(pair.context), IBV_ACCESS_MW_BIND);
	window = ibv_alloc_mw(pair.pd, type);
	ck_assert_ptr_nonnull(window);
	/* The inline function of verbs.h checks some of it before. */
	ck_assert_int_ne(pair.context->ops.bind_mw(pair.sender, window, &bind), 0);
}

static void bind_type_2(void)
{
	try_bind(IBV_MW_TYPE_2, (struct ibv_mw_bind_info){}, false);
}

static void bind_to_nothing(void)
{
	try_bind(IBV_MW_TYPE_1, (struct ibv_mw_bind_info){.length = 80}, false);
}

static void bind_zero_based(void)
{
	try_bind(IBV_MW_TYPE_1, (struct ibv_mw_bind_info){.mw_access_flags = IBV_ACCESS_ZERO_BASED},
		 false);
}

static void bind_elsewhere(void)
{
	try_bind(IBV_MW_TYPE_1, (struct ibv_mw_bind_info){}, true);
}

/* --- device memory ------------------------------------------------------------------------ */

static struct ibv_dm *alloc_dm(struct ibv_context *context, size_t length)
{
	struct ibv_alloc_dm_attr attr = {.length = length};

	return ibv_alloc_dm(context, &attr);
}

static void too_much_device_memory(void)
{
	ck_assert_ptr_null(alloc_dm(fixture_open(), 1 << 30));
}

static void no_device_memory_left(void)
{
	struct ibv_context *context = fixture_open();

	ck_assert_ptr_nonnull(alloc_dm(context, 1000000));
	ck_assert_ptr_null(alloc_dm(context, 100000));
}

static void copy(size_t length)
{
	struct ibv_dm *dm = alloc_dm(fixture_open(), 100);

	ck_assert_int_ne(ibv_memcpy_to_dm(dm, 0, buffer, length), 0);
}

static void copy_five_bytes(void)
{
	copy(5);
}

static void copy_too_much(void)
{
	copy(104);
}

static void register_dm(int access, size_t length)
{
	struct ibv_pd *pd = open_pd();
	struct ibv_dm *dm = alloc_dm(pd->context, 100);

	ck_assert_ptr_null(ibv_reg_dm_mr(pd, dm, 0, length, access));
}

static void dm_by_address(void)
{
	register_dm(IBV_ACCESS_LOCAL_WRITE, 100);
}

static void dm_region_too_long(void)
{
	register_dm(IBV_ACCESS_ZERO_BASED, 101);
}

static void free_registered_dm(void)
{
	struct ibv_pd *pd = open_pd();
	struct ibv_dm *dm = alloc_dm(pd->context, 100);

	ck_assert_ptr_nonnull(ibv_reg_dm_mr(pd, dm, 0, 100, IBV_ACCESS_ZERO_BASED));
	ck_assert_int_eq(ibv_free_dm(dm), EBUSY);
}

static void memory_of_another_device(void)
{
	struct ibv_device **list;
	struct ibv_pd *pd;
	int count;

	unsetenv("URXE_NODE");
	setenv("URXE_DEVICES", "one=127.0.0.1;two=127.0.0.2", 1);
	list = ibv_get_device_list(&count);
	ck_assert_int_eq(count, 2);
	pd = ibv_alloc_pd(ibv_open_device(list[0]));
	ck_assert_ptr_null(ibv_reg_dm_mr(pd, alloc_dm(ibv_open_device(list[1]), 100), 0, 100,
					 IBV_ACCESS_ZERO_BASED));
}

/* --- dma-bufs ----------------------------------------------------------------------------- */

/* Few machines let a process have one: this says of a memfd what the kernel says of a dma-buf. */
static int stand_in = -1;

__attribute__((visibility("default"))) int fstatfs(int fd, struct statfs *status)
{
	int (*real)(int, struct statfs *) = dlsym(RTLD_NEXT, "fstatfs64");
	int result = real(fd, status);

	if (result == 0 && fd == stand_in)
		status->f_type = DMA_BUF_MAGIC;
	return result;
}

static int make_file(void)
{
	int fd = memfd_create("dma-buf", 0);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, PAGE), 0);
	return fd;
}

static void try_dmabuf(int fd, size_t length, int access)
{
	ck_assert_ptr_null(ibv_reg_dmabuf_mr(open_pd(), 0, length, 0, fd, access));
}

static void dmabuf_without_descriptor(void)
{
	try_dmabuf(-1, PAGE, ALL);
}

static void dmabuf_of_a_file(void)
{
	try_dmabuf(make_file(), PAGE, ALL);
}

static void dmabuf_too_long(void)
{
	stand_in = make_file();
	try_dmabuf(stand_in, PAGE + 1, ALL);
}

static void dmabuf_read_only(void)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", make_file());
	stand_in = open(path, O_RDONLY);
	try_dmabuf(stand_in, PAGE, ALL);
}

static void dmabuf_on_demand(void)
{
	stand_in = make_file();
	try_dmabuf(stand_in, PAGE, IBV_ACCESS_ON_DEMAND);
}

/* --- imports -------------------------------------------------------------------- */

static void import_a_region(void)
{
	ck_assert_ptr_null(ibv_import_mr(open_pd(), 1234567));
}

static void import_device_memory(void)
{
	struct ibv_dm *dm = alloc_dm(fixture_open(), 100);

	ck_assert_ptr_null(ibv_import_dm(fixture_open(), dm->handle));
}

static const struct cause_row rows[] = {
	{CAUSE_MR_NOT_MAPPED, memory_with_a_hole, "byte 131072, at "},
	{CAUSE_MR_NOT_WRITABLE, constants, "to register 100 bytes at 0x"},
	{CAUSE_MR_NOT_WRITABLE, constants, "is read-only"},
	{CAUSE_MR_NOT_WRITABLE, guard_page, "PROT_NONE"},
	{CAUSE_MR_BEYOND_FILE, short_file, "is beyond the end of its file"},
	{CAUSE_MR_RANGE, negative_length, "ends beyond 2^64"},
	{CAUSE_MR_EMPTY, empty_region, "0 bytes at 0x"},
	{CAUSE_MR_IOVA, iova_from_0, "at byte 8 of its page, iova 0x0 at byte 0"},
	{CAUSE_MR_HUGETLB, all_memory_huge, "length SIZE_MAX"},
	{CAUSE_KEYS_USED_UP, use_up_keys, "there are 99 regions and windows"},
	{CAUSE_MR_BUSY, bind_window, "1 memory windows are bound to region 0x"},
	{CAUSE_MR_REREG_INPUT, change_without_address, "CHANGE_TRANSLATION with address NULL"},
	{CAUSE_MR_REREG_INPUT, change_of_nothing, "flags is 0"},
	{CAUSE_MR_REREG_INPUT, change_domain_to_none, "CHANGE_PD without"},
	{CAUSE_MR_REREG_KIND, change_null_region, "the null region"},
	{CAUSE_MR_EX_MASK, structure_without_address, "comp_mask is 0x0"},
	{CAUSE_MR_EX_UNSUPPORTED, structure_with_tags, "in which 0x10 isn't"},
	{CAUSE_HANDLE_CHANGED, copied_region, "ibv_dereg_mr(): handle is "},
	{CAUSE_ACCESS_UNKNOWN, unknown_access, "access is 0x80001, in which 0x80000"},
	{CAUSE_ACCESS_NEEDS_LOCAL_WRITE, remote_write_alone, "access is REMOTE_WRITE, without"},
	{CAUSE_ACCESS_PERSISTENT, persistent, "access is FLUSH_PERSISTENT"},
	{CAUSE_ADVICE_UNKNOWN, unknown_advice, "advice is 77"},
	{CAUSE_ADVICE_EMPTY, advice_about_nothing, "num_sge is 0"},
	{CAUSE_ADVICE_KEY, advice_about_no_region, "no region with lkey 0xabcdef12"},
	{CAUSE_ADVICE_KEY, advice_about_ordinary_memory, "has no access flags, without ON_DEMAND"},
	{CAUSE_ADVICE_RIGHTS, prefetch_to_write, "has REMOTE_READ, ON_DEMAND, without"},
	{CAUSE_ADVICE_RANGE, advice_beyond_the_region, "has 131072 bytes at 0x"},
	{CAUSE_ADVICE_NOT_MAPPED, prefetch_a_hole, "is not mapped any more"},
	{CAUSE_MW_TYPE, no_such_window, "type is 3"},
	{CAUSE_MW_BIND_TYPE, bind_type_2, "is of type 2"},
	{CAUSE_MW_BIND_NOTHING, bind_to_nothing, "80 bytes at 0x0 of no region"},
	{CAUSE_MW_BIND_ZERO_BASED, bind_zero_based, "has ZERO_BASED"},
	{CAUSE_MW_BIND_PD, bind_elsewhere, " and region 0x"},
	{CAUSE_DM_ATTRIBUTES, too_much_device_memory, "length 1073741824 of 1 to 1048576"},
	{CAUSE_DM_USED_UP, no_device_memory_left, "100000 bytes; of the device's 1048576"},
	{CAUSE_DM_USED_UP, no_device_memory_left, " 48576 are left"},
	{CAUSE_DM_UNIT, copy_five_bytes, "5 bytes at offset 0"},
	{CAUSE_DM_RANGE, copy_too_much, "104 bytes at offset 0; this device memory has 100"},
	{CAUSE_DM_RANGE, dm_region_too_long, "101 bytes at offset 0"},
	{CAUSE_DM_BUSY, free_registered_dm, "1 regions of this device memory of 100"},
	{CAUSE_DM_ACCESS, dm_by_address, "access is LOCAL_WRITE"},
	{CAUSE_DM_DEVICE, memory_of_another_device, "is of two, the protection domain of one"},
	{CAUSE_DMABUF_NONE, dmabuf_without_descriptor, "fd is -1"},
	{CAUSE_DMABUF_OTHER, dmabuf_of_a_file, "file system 0x"},
	{CAUSE_DMABUF_RANGE, dmabuf_too_long, "up to byte 65537 of a dma-buf that has 65536"},
	{CAUSE_DMABUF_MAPPING, dmabuf_read_only, "for reading and writing: Permission denied"},
	{CAUSE_DMABUF_ACCESS, dmabuf_on_demand, "access is ON_DEMAND"},
	{CAUSE_BUF_PD, buffer_of_other_domain, "ibv_reg_buf_mr() or ibv_reg_mr_ex(): buf is 0x"},
	{CAUSE_BUF_RANGE, buffer_that_is_shorter, ": 9 bytes at 0x"},
	{CAUSE_BUF_MEMORY, buffer_of_memory, "ibv_export_buf_dmabuf_fd(): 8 bytes of memory"},
	{CAUSE_IMPORT_UNKNOWN, import_a_region, "handle 1234567 is no region's"},
	{CAUSE_IMPORT_UNKNOWN, import_device_memory, "of a context with another cmd_fd"},
};

static const struct cause_table table = {
	.name = "causes of memory",
	.first = 0x4800,
	.last = 0x48ff,
	.rows = rows,
	.count = sizeof(rows) / sizeof(rows[0]),
};

int main(void)
{
	return run_suite(causes_suite(&table));
}
