/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lists, contexts, and what the device and its port say about themselves.
 */
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <rdma/rdma_cma.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/newer_verbs.h"
#include "tests/must.h"
#include "tests/run_suite.h"
#include "tests/sanitizers.h"
#include "tests/verbs/fails.h"
#include "tests/verbs/fixture.h"
#include "urxe.h"

/* Of verbs_context, as it is now and as the oldest headers have it that we build with. */
#define NEWEST_VERBS_CONTEXT (46 * sizeof(void *) + sizeof(struct ibv_context))
#define OLDEST_VERBS_CONTEXT (40 * sizeof(void *) + sizeof(struct ibv_context))

/* Of newer headers. */
int ibv_query_port_speed(struct ibv_context *context, uint32_t port, uint64_t *speed);
const char *ibv_wr_opcode_str(enum ibv_wr_opcode opcode);

int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned int index, int *type);

START_TEST(list)
{
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);
	struct ibv_device *device;

	ck_assert_int_eq(count, 1);
	device = list[0];
	ck_assert_ptr_null(list[1]);
	ck_assert_str_eq(ibv_get_device_name(device), "urxe0");
	ck_assert_int_eq(device->node_type, IBV_NODE_CA);
	ck_assert_int_eq(device->transport_type, IBV_TRANSPORT_IB);
	ck_assert_uint_ne(ibv_get_device_guid(device), 0);
	ck_assert_int_eq(ibv_get_device_index(device), -1);
	ibv_free_device_list(list);

	/* Two lists at a time; the device is the same. */
	list = ibv_get_device_list(NULL);
	ck_assert_ptr_eq(list[0], device);
	ibv_free_device_list(list);
}
END_TEST

static int is_libibverbs(struct dl_phdr_info *info, size_t size, void *unused)
{
	return strstr(info->dlpi_name, "/libibverbs.so") != NULL;
}

/* Nothing of it is in the list. */
START_TEST(list_is_freed_without_the_real_library)
{
	ibv_free_device_list(ibv_get_device_list(NULL));
	ck_assert_int_eq(dl_iterate_phdr(is_libibverbs, NULL), 0);
}
END_TEST

START_TEST(context)
{
	struct ibv_context *context = fixture_open();
	struct verbs_context *verbs = verbs_get_ctx(context);
	struct stat status;

	ck_assert_ptr_nonnull(verbs);
	ck_assert_uint_eq(verbs->sz, NEWEST_VERBS_CONTEXT);
	/* The operations that the oldest doesn't know. */
	for (void **newer = (void **)((char *)context + sizeof(*context) - NEWEST_VERBS_CONTEXT);
	     newer < (void **)((char *)context + sizeof(*context) - OLDEST_VERBS_CONTEXT); newer++)
		ck_assert_ptr_null(*newer);
	ck_assert_int_eq(fstat(context->cmd_fd, &status), 0);
	ck_assert_int_eq(fstat(context->async_fd, &status), 0);
	ck_assert_int_ge(context->num_comp_vectors, 1);
	fixture_close(context);
}
END_TEST

static int context_works(struct ibv_context *context)
{
	struct ibv_device_attr attr;
	struct ibv_pd *pd;

	if (!context || ibv_query_device(context, &attr) != 0)
		return 0;
	pd = ibv_alloc_pd(context);
	return pd && ibv_dealloc_pd(pd) == 0;
}

/* By a duplicate of the command descriptor, which becomes the new context's. */
START_TEST(imported)
{
	struct ibv_context *first = fixture_open(), *second, *third;
	int fd = dup(first->cmd_fd);

	second = ibv_import_device(fd);
	ck_assert_ptr_nonnull(second);
	ck_assert_ptr_ne(second, first);
	ck_assert_ptr_eq(second->device, first->device);
	ck_assert_int_eq(second->cmd_fd, fd);
	ck_assert_int_ne(second->async_fd, first->async_fd);
	ck_assert(context_works(first));
	ck_assert(context_works(second));

	/* It can be imported in turn, and outlives what it was made from. */
	fd = dup(second->cmd_fd);
	fixture_close(first);
	ck_assert(context_works(second));
	third = ibv_import_device(fd);
	fixture_close(second);
	ck_assert(context_works(third));

	fd = dup(third->cmd_fd);
	fixture_close(third);

	/* Also when nothing is open any more. */
	second = ibv_import_device(fd);
	ck_assert(context_works(second));
	fixture_close(second);
	ck_assert_int_eq(fcntl(fd, F_GETFD), -1);
}
END_TEST

/* Another process gets a context of its own device. */
START_TEST(imported_by_a_child)
{
	struct ibv_context *parents = fixture_open();
	int fd = dup(parents->cmd_fd), status;
	pid_t child = fork();

	if (child == 0) {
		struct ibv_context *childs = ibv_import_device(fd);

		_exit(!context_works(childs) || ibv_close_device(childs) != 0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	close(fd);
	fixture_close(parents);
}
END_TEST

START_TEST(what_is_no_command_descriptor)
{
	struct ibv_context *context = fixture_open();
	uint8_t bytes[4096];
	int fds[2], copy = memfd_create("copy", MFD_CLOEXEC);
	ssize_t length = pread(context->cmd_fd, bytes, sizeof(bytes), 0);

	ck_assert_int_eq(write(context->cmd_fd, "x", 1), -1);
	ck_assert_int_eq(pipe(fds), 0);
	ck_assert_int_eq(write(copy, bytes, length), length);
	ck_fails_null(ibv_import_device(-1), EINVAL);
	ck_fails_null(ibv_import_device(fds[0]), EINVAL);
	ck_fails_null(ibv_import_device(copy), EINVAL);
	ck_assert_int_eq(close(copy), 0); /* it wasn't taken */

	/* Of a device that this process doesn't have. */
	copy = memfd_create("copy", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	bytes[length - 1] ^= 1;
	ck_assert_int_eq(write(copy, bytes, length), length);
	ck_assert_int_eq(fcntl(copy, F_ADD_SEALS, fcntl(context->cmd_fd, F_GET_SEALS)), 0);
	ck_fails_null(ibv_import_device(copy), ENODEV);
	ck_assert_int_eq(close(copy), 0);
	close(fds[0]);
	close(fds[1]);
	fixture_close(context);
}
END_TEST

/* As the sysctl vm.memfd_noexec makes them, if the library doesn't ask for it itself. */
START_TEST(imported_with_another_seal)
{
	const unsigned int noexec_seal = 8; /* MFD_NOEXEC_SEAL */
	struct ibv_context *context = fixture_open(), *imported;
	uint8_t bytes[4096];
	ssize_t length = pread(context->cmd_fd, bytes, sizeof(bytes), 0);
	int copies[] = {memfd_create("copy", MFD_CLOEXEC | MFD_ALLOW_SEALING),
			memfd_create("copy", MFD_CLOEXEC | noexec_seal)};

	for (int i = 0; i < 2; i++) {
		if (copies[i] < 0) /* Linux before 6.3 */
			continue;
		ck_assert_int_eq(write(copies[i], bytes, length), length);
		ck_fails_null(ibv_import_device(copies[i]), EINVAL); /* it can be changed */
		ck_assert_int_eq(fcntl(copies[i], F_ADD_SEALS,
				       F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL),
				 0);
		imported = ibv_import_device(copies[i]);
		ck_assert(context_works(imported));
		fixture_close(imported);
	}
	fixture_close(context);
}
END_TEST

START_TEST(shared_by_contexts)
{
	struct ibv_context *first = fixture_open(), *second = fixture_open();
	static struct ibv_pd *volatile left_behind;

	ck_assert_ptr_ne(first, second);
	fixture_close(first);
	left_behind = ibv_alloc_pd(second);
	ck_assert_ptr_nonnull(left_behind);
	/* Closed with an object in use: the device opens again. */
	fixture_close(second);
	first = fixture_open();
	fixture_close(first);
}
END_TEST

START_TEST(device)
{
	struct ibv_context *context = fixture_open();
	struct ibv_device_attr_ex attr;
	struct ibv_device_attr plain;
	uint8_t *guard = (uint8_t *)&attr + sizeof(plain) + 8;

	ck_assert_int_eq(ibv_query_device(context, &plain), 0);
	ck_assert_int_eq(plain.phys_port_cnt, 1);
	/* UCX offers atomics for this one alone, as Linux rxe and NICs have it. */
	ck_assert_int_eq(plain.atomic_cap, IBV_ATOMIC_HCA);
	ck_assert_str_eq(plain.fw_ver, urxe_version());
	ck_assert_uint_eq(plain.node_guid, ibv_get_device_guid(context->device));
	ck_assert_uint_eq(plain.sys_image_guid, plain.node_guid);
	ck_assert_int_gt(plain.max_qp, 0);
	ck_assert_int_gt(plain.max_cqe, 0);
	ck_assert_uint_ne(plain.device_cap_flags & IBV_DEVICE_XRC, 0);

	memset(&attr, 0xa5, sizeof(attr));
	ck_assert_int_eq(ibv_query_device_ex(context, NULL, &attr), 0);
	ck_assert_int_eq(memcmp(&attr.orig_attr, &plain, sizeof(plain)), 0);
	/* Persistence isn't claimed: bit 39. */
	ck_assert_uint_eq(attr.device_cap_flags_ex,
			  plain.device_cap_flags | DEVICE_FLUSH_GLOBAL | DEVICE_ATOMIC_WRITE);
	ck_assert_uint_eq(attr.phys_port_cnt_ex, 1);

	/* An older application's structure is shorter. */
	memset(&attr, 0xa5, sizeof(attr));
	ck_assert_int_eq(
		verbs_get_ctx(context)->query_device_ex(context, NULL, &attr, sizeof(plain) + 8),
		0);
	ck_assert_uint_eq(*guard, 0xa5);
	ck_assert_int_eq(verbs_get_ctx(context)->query_device_ex(context, NULL, &attr, 8), EINVAL);
	fixture_close(context);
}
END_TEST

START_TEST(port)
{
	struct ibv_context *context = fixture_open();
	struct ibv_port_attr attr;
	uint64_t speed;
	int (*exported)(struct ibv_context *, uint8_t, struct _compat_ibv_port_attr *) =
		(ibv_query_port);

	ck_assert_int_eq(ibv_query_port(context, 1, &attr), 0);
	ck_assert_int_eq(attr.state, IBV_PORT_ACTIVE);
	ck_assert_int_eq(attr.phys_state, 5);
	ck_assert_int_eq(attr.link_layer, IBV_LINK_LAYER_ETHERNET);
	ck_assert_int_eq(attr.max_mtu, IBV_MTU_4096);
	ck_assert_int_eq(attr.active_mtu, IBV_MTU_4096);
	ck_assert_int_eq(attr.gid_tbl_len, 1024);
	ck_assert_int_eq(attr.pkey_tbl_len, 1);
	ck_assert_int_eq(attr.lid, 0);
	ck_assert_int_eq(attr.flags & 1, 1);
	ck_assert_int_eq(ibv_query_port(context, 0, &attr), EINVAL);
	ck_assert_int_eq(ibv_query_port(context, 2, &attr), EINVAL);

	/* 4X EDR, which the loopback device is said to be, in units of 100 Mbit/s. */
	ck_assert_int_eq(ibv_query_port_speed(context, 1, &speed), 0);
	ck_assert_uint_eq(speed, 1000);
	ck_assert_int_eq(ibv_query_port_speed(context, 2, &speed), EINVAL);
	ck_assert_int_eq(ibv_query_port_speed(context, 257, &speed), EINVAL);

	/* The exported function knows the first 48 bytes only. */
	memset(&attr, 0xa5, sizeof(attr));
	ck_assert_int_eq(exported(context, 1, (void *)&attr), 0);
	ck_assert_int_eq(attr.state, IBV_PORT_ACTIVE);
	for (size_t i = 48; i < sizeof(attr); i++)
		ck_assert_uint_eq(((uint8_t *)&attr)[i], 0xa5);
	fixture_close(context);
}
END_TEST

/* The structure of newer headers has the speed once more, as the last of its members. */
START_TEST(port_of_newer_headers)
{
	struct ibv_context *context = fixture_open();
	union {
		struct ibv_port_attr attr;
		uint32_t words[PORT_ATTR_ACTIVE_SPEED_EX / 4 + 1];
		uint8_t bytes[64];
	} newer;

	memset(&newer, 0xa5, sizeof(newer));
	ck_assert_int_eq(
		verbs_get_ctx(context)->query_port(context, 1, &newer.attr, sizeof(newer.words)),
		0);
	ck_assert_uint_eq(newer.words[PORT_ATTR_ACTIVE_SPEED_EX / 4], 32); /* EDR */
	ck_assert_uint_eq(newer.attr.active_speed, 32);
	ck_assert_uint_eq(newer.bytes[sizeof(newer.words)], 0xa5);
	fixture_close(context);
}
END_TEST

START_TEST(gids)
{
	struct ibv_context *context = fixture_open();
	struct ibv_gid_entry entry, table[4];
	union ibv_gid gid;
	char text[INET_ADDRSTRLEN];
	int type = -1;

	ck_assert_int_eq(ibv_query_gid(context, 1, 0, &gid), 0);
	ck_assert_str_eq(inet_ntop(AF_INET, gid.raw + 12, text, sizeof(text)), fixture_address());
	ck_assert_int_eq(ibv_query_gid_ex(context, 1, 0, &entry, 0), 0);
	ck_assert_int_eq(memcmp(&entry.gid, &gid, sizeof(gid)), 0);
	ck_assert_uint_eq(entry.gid_type, IBV_GID_TYPE_ROCE_V2);
	ck_assert_uint_eq(entry.ndev_ifindex, 1);
	ck_assert_int_eq(ibv_query_gid_type(context, 1, 0, &type), 0);
	ck_assert_int_eq(type, 1);
	ck_assert_int_eq(ibv_query_gid_table(context, table, 4, 0), 1);
	ck_assert_int_eq(ibv_query_gid_table(context, table, 0, 0), -EINVAL);

	/* An empty slot, and none at all. */
	ck_assert_int_eq(ibv_query_gid(context, 1, 1, &gid), 0);
	ck_assert_uint_eq(gid.global.interface_id, 0);
	ck_assert_int_eq(ibv_query_gid_type(context, 1, 1, &type), 0);
	ck_assert_int_eq(type, 0); /* IB/RoCE v1 */
	ck_assert_int_eq(ibv_query_gid_type(context, 1, 1024, &type), -1);
	ck_assert_int_eq(ibv_query_gid_ex(context, 1, 1, &entry, 0), ENODATA);
	ck_assert_int_eq(ibv_query_gid(context, 1, 1024, &gid), -1);
	ck_assert_int_eq(ibv_query_gid(context, 1, -1, &gid), -1);
	ck_assert_int_eq(ibv_query_gid(context, 2, 0, &gid), -1);
	ck_assert_int_eq(ibv_query_gid_ex(context, 1, 1024, &entry, 0), EINVAL);
	ck_assert_int_eq(ibv_query_gid_ex(context, 2, 0, &entry, 0), EINVAL);
	ck_assert_int_eq(ibv_query_gid_ex(context, 1, 0, &entry, 1), EINVAL);
	ck_assert_int_eq(ibv_query_gid_table(context, table, 4, 1), -EINVAL);
	fixture_close(context);
}
END_TEST

START_TEST(pkeys)
{
	struct ibv_context *context = fixture_open();
	__be16 pkey = 0;

	ck_assert_int_eq(ibv_query_pkey(context, 1, 0, &pkey), 0);
	ck_assert_uint_eq(pkey, 0xffff);
	ck_assert_int_eq(ibv_query_pkey(context, 1, 1, &pkey), -1);
	ck_assert_int_eq(ibv_query_pkey(context, 2, 0, &pkey), -1);
	ck_assert_int_eq(ibv_get_pkey_index(context, 1, 0xffff), 0);
	ck_assert_int_eq(ibv_get_pkey_index(context, 1, 1), -1);
	fixture_close(context);
}
END_TEST

START_TEST(counters)
{
	struct urxe_counter counters[64];
	struct ibv_context *context = fixture_open();
	int count = urxe_counters("urxe0", counters, 64);

	ck_assert_int_gt(count, 0);
	ck_assert_int_le(count, 64);
	ck_assert_str_eq(counters[0].name, "sent_pkts");
	ck_assert_int_eq(urxe_counters("urxe0", NULL, 0), count);
	ck_assert_int_eq(urxe_counters("urxe9", counters, 64), -1);
	ck_assert_int_eq(errno, ENODEV);
	fixture_close(context);
}
END_TEST

START_TEST(names)
{
	ck_assert_str_eq(ibv_wc_status_str(IBV_WC_RETRY_EXC_ERR),
			 "transport retry counter exceeded");
	ck_assert_str_eq(ibv_wc_status_str(99), "unknown");
	ck_assert_str_eq(ibv_wc_status_str(-1), "unknown");
	ck_assert_str_eq(ibv_event_type_str(IBV_EVENT_SRQ_LIMIT_REACHED), "SRQ limit reached");
	ck_assert_str_eq(ibv_event_type_str(EVENT_DEVICE_SPEED_CHANGE), "Device link speed change");
	ck_assert_str_eq(ibv_event_type_str(EVENT_DEVICE_SPEED_CHANGE + 1), "unknown");
	ck_assert_str_eq(ibv_wr_opcode_str(IBV_WR_SEND_WITH_INV), "send-with-inv");
	ck_assert_str_eq(ibv_wr_opcode_str(WR_FLUSH), "flush");
	ck_assert_str_eq(ibv_wr_opcode_str(12), "unknown");
	ck_assert_str_eq(ibv_wr_opcode_str(16), "unknown");
	ck_assert_str_eq(ibv_node_type_str(IBV_NODE_CA), "InfiniBand channel adapter");
	ck_assert_str_eq(ibv_node_type_str(0), "unknown");
	ck_assert_str_eq(ibv_port_state_str(IBV_PORT_ACTIVE), "active");
	ck_assert_str_eq(rdma_event_str(RDMA_CM_EVENT_REJECTED), "RDMA_CM_EVENT_REJECTED");
	ck_assert_str_eq(rdma_event_str(99), "UNKNOWN EVENT");
	ck_assert_int_eq(ibv_rate_to_mult(IBV_RATE_28_GBPS), 11);
	ck_assert_int_eq(ibv_rate_to_mult(IBV_RATE_100_GBPS), -1);
	ck_assert_int_eq(ibv_rate_to_mbps(IBV_RATE_100_GBPS), 103125);
	ck_assert_int_eq(mult_to_ibv_rate(20), IBV_RATE_50_GBPS);
	ck_assert_int_eq(mult_to_ibv_rate(-1), IBV_RATE_MAX);
	ck_assert_int_eq(mbps_to_ibv_rate(850000), IBV_RATE_800_GBPS);
	ck_assert_int_eq(mbps_to_ibv_rate(7), IBV_RATE_MAX);
}
END_TEST

/* Verbs that the device doesn't have say so, and nothing crashes. */
START_TEST(lacking)
{
	struct ibv_context *context = fixture_open();
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_counters_init_attr counters = {};

	ck_assert_ptr_nonnull(pd);
	/* There are no flows that could be counted. */
	ck_assert_ptr_null(ibv_create_counters(context, &counters));
	ck_assert_int_eq(errno, EOPNOTSUPP);
	ck_assert_int_eq(ibv_dealloc_pd(pd), 0);
	fixture_close(context);
}
END_TEST

/* A real device's, in the mode both: of a port, as all that came since. */
START_TEST(newer_events)
{
	struct ibv_async_event event = {.event_type = EVENT_DEVICE_SPEED_CHANGE,
					.element = {.port_num = 1}};

	ibv_ack_async_event(&event);
}
END_TEST

/* Where ulimit -f is 0, for which the kernel would send SIGXFSZ; what is logged goes to a file. */
static void use_without_files(void)
{
	const struct rlimit none = {};
	struct ibv_device **list;
	struct ibv_context *context;
	int log = memfd_create("log", MFD_CLOEXEC);

	must(dup2(log, STDERR_FILENO) == STDERR_FILENO);
	must(setrlimit(RLIMIT_FSIZE, &none) == 0);
	list = ibv_get_device_list(NULL);
	must(list != NULL && list[0] != NULL);
	context = ibv_open_device(list[0]);
	must(context != NULL);
	must(ibv_import_device(context->cmd_fd) == NULL);
	access("/sys/class/infiniband/urxe0/node_guid", R_OK);
	must(ibv_close_device(context) == 0);
	ibv_free_device_list(list);
	_exit(0);
}

START_TEST(files_need_not_be_written)
{
	pid_t child = fork();
	int status;

	if (child == 0)
		use_without_files();
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(fork_needs_nothing)
{
	ck_assert_int_eq(ibv_fork_init(), 0);
	ck_assert_int_eq(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("query");
	TCase *tests = tcase_create("query");

	fixture_environment();
	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, list);
	tcase_add_test(tests, list_is_freed_without_the_real_library);
	tcase_add_test(tests, context);
	tcase_add_test(tests, imported);
	if (CHILD_ALLOCATES)
		tcase_add_test(tests, imported_by_a_child);
	tcase_add_test(tests, what_is_no_command_descriptor);
	tcase_add_test(tests, imported_with_another_seal);
	tcase_add_test(tests, shared_by_contexts);
	tcase_add_test(tests, device);
	tcase_add_test(tests, port);
	tcase_add_test(tests, port_of_newer_headers);
	tcase_add_test(tests, gids);
	tcase_add_test(tests, pkeys);
	tcase_add_test(tests, counters);
	tcase_add_test(tests, names);
	tcase_add_test(tests, lacking);
	tcase_add_test(tests, newer_events);
	tcase_add_test(tests, files_need_not_be_written);
	tcase_add_test(tests, fork_needs_nothing);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
