/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The configuration, devices and ports: every cause of net/cause/memory_calls.def that is about
 * them, and what is said of it.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/run_suite.h"
#include "tests/verbs/causes.h"
#include "tests/verbs/fixture.h"

/* --- the configuration ---------------------------------------------------------------------- */

static void list_nothing(void)
{
	int count = -1;

	ck_assert_ptr_nonnull(ibv_get_device_list(&count));
	ck_assert_int_eq(count, 0);
}

static void list_with(const char *variable, const char *value)
{
	setenv(variable, value, 1);
	list_nothing();
}

static void unreadable_mode(void)
{
	list_with("URXE_MODE", "software");
}

static void host_name(void)
{
	list_with("URXE_NODE", "no-such-host");
}

static void three_ports(void)
{
	list_with("URXE_NODE", "127.0.0.1/127.0.0.2/127.0.0.3");
}

static void address_twice(void)
{
	list_with("URXE_NODE", "127.0.0.1/127.0.0.2,127.0.0.1");
}

static void address_of_another_host(void)
{
	list_with("URXE_NODE", "192.0.2.77");
}

static void device_without_name(void)
{
	unsetenv("URXE_NODE");
	list_with("URXE_DEVICES", "127.0.0.1");
}

static void no_addresses_to_be_had(void)
{
	unsetenv("URXE_NODE");
	allow_no_descriptors();
	list_nothing();
}

/* Without a descriptor no library can be loaded. */
static void no_hardware(void)
{
	allow_no_descriptors();
	list_with("URXE_MODE", "hw");
}

/* --- opening -------------------------------------------------------------------------------- */

static int binding_error; /* errno of bind(), or 0 */

__attribute__((visibility("default"))) int bind(int fd, const struct sockaddr *address,
						socklen_t length)
{
	int (*real)(int, const struct sockaddr *, socklen_t) = dlsym(RTLD_NEXT, "bind");

	if (!binding_error)
		return real(fd, address, length);
	errno = binding_error;
	return -1;
}

/* As under a filter of seccomp. */
static bool eventfds_are_forbidden;

__attribute__((visibility("default"))) int eventfd(unsigned int value, int flags)
{
	int (*real)(unsigned int, int) = dlsym(RTLD_NEXT, "eventfd");

	if (!eventfds_are_forbidden)
		return real(value, flags);
	errno = ENOSYS;
	return -1;
}

/* With a limit to what all processes are promised (vm.overcommit_memory), say. */
static bool memory_is_used_up;

__attribute__((visibility("default"))) int memfd_create(const char *name, unsigned int flags)
{
	int (*real)(const char *, unsigned int) = dlsym(RTLD_NEXT, "memfd_create");

	return memory_is_used_up ? open("/dev/full", O_RDWR) : real(name, flags);
}

static void open_fails(int error)
{
	int count;
	struct ibv_device **list = ibv_get_device_list(&count);

	ck_assert_int_eq(count, 1);
	binding_error = error == EACCES ? EACCES : 0;
	eventfds_are_forbidden = error == ENOSYS;
	memory_is_used_up = error == ENOMEM;
	if (error == EMFILE)
		allow_no_descriptors();
	ck_assert_ptr_null(ibv_open_device(list[0]));
	ck_assert_int_eq(errno, error);
}

static void no_directory_to_capture(void)
{
	setenv("URXE_PCAP", "/no/such/directory/a.pcap", 1);
	open_fails(ENOENT);
}

static void address_in_use(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(4791)};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	inet_pton(AF_INET, fixture_address(), &address.sin_addr);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	open_fails(EADDRINUSE);
}

static void forbidden_address(void)
{
	open_fails(EACCES);
}

static void no_descriptors_to_open(void)
{
	open_fails(EMFILE);
}

/* Whichever it is. */
static void one_descriptor_too_few(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context;
	struct rlimit limit;

	allow_no_descriptors();
	getrlimit(RLIMIT_NOFILE, &limit);
	while (!(context = ibv_open_device(list[0]))) {
		ck_assert_int_eq(errno, EMFILE);
		limit.rlim_cur++;
		ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	}
	fixture_close(context);
}

static void no_memory_to_open(void)
{
	open_fails(ENOMEM);
}

static void no_memory_to_bind(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	binding_error = ENOMEM;
	ck_assert_ptr_null(ibv_open_device(list[0]));
	ck_assert_int_eq(errno, ENOMEM);
}

static void no_eventfd_to_open(void)
{
	open_fails(ENOSYS);
}

static void no_eventfd_for_a_channel(void)
{
	struct ibv_context *context = fixture_open();

	eventfds_are_forbidden = true;
	ck_assert_ptr_null(ibv_create_comp_channel(context));
	ck_assert_int_eq(errno, ENOSYS);
}

#define DESCRIPTORS 100

static bool is_open(int fd, bool *pipe_or_socket)
{
	struct stat status;
	bool open = fstat(fd, &status) == 0;

	*pipe_or_socket = open && (S_ISSOCK(status.st_mode) || S_ISFIFO(status.st_mode));
	return open;
}

/* Another part of the program closes descriptors that it doesn't know. */
static void open_a_failed_device(void)
{
	bool before[DESCRIPTORS], to_close;
	struct ibv_context *context;
	struct ibv_async_event event;

	for (int fd = 0; fd < DESCRIPTORS; fd++)
		before[fd] = is_open(fd, &to_close);
	context = fixture_open();
	for (int fd = 0; fd < DESCRIPTORS; fd++) {
		if (!before[fd] && is_open(fd, &to_close) && to_close)
			close(fd);
	}
	do {
		ck_assert_int_eq(ibv_get_async_event(context, &event), 0);
		ibv_ack_async_event(&event);
	} while (event.event_type != IBV_EVENT_DEVICE_FATAL);
	open_fails(EIO);
}

static void close_with_objects(void)
{
	struct ibv_context *context = fixture_open();

	ck_assert_ptr_nonnull(ibv_alloc_pd(context));
	ck_assert_int_eq(ibv_close_device(context), 0);
}

static void close_with_device_memory(void)
{
	struct ibv_alloc_dm_attr attr = {.length = 64};
	struct ibv_context *context = fixture_open();

	ck_assert_ptr_nonnull(ibv_alloc_dm(context, &attr));
	ck_assert_int_eq(ibv_close_device(context), 0);
}

/* --- asking --------------------------------------------------------------------------------- */

static void port_2(void)
{
	struct ibv_port_attr attr;

	ck_assert_int_eq(ibv_query_port(fixture_open(), 2, &attr), EINVAL);
}

static void gid_minus_1(void)
{
	union ibv_gid gid;

	ck_assert_int_eq(ibv_query_gid(fixture_open(), 1, -1, &gid), -1);
}

static void gid_of_no_address(void)
{
	struct ibv_gid_entry entry;

	ck_assert_int_eq(ibv_query_gid_ex(fixture_open(), 1, 500, &entry, 0), ENODATA);
}

static void no_space_for_gids(void)
{
	struct ibv_gid_entry entry;

	ck_assert_int_eq(ibv_query_gid_table(fixture_open(), &entry, 0, 0), -EINVAL);
}

static void pkey_3(void)
{
	__be16 key;

	ck_assert_int_eq(ibv_query_pkey(fixture_open(), 1, 3, &key), -1);
}

static void another_pkey(void)
{
	ck_assert_int_eq(ibv_get_pkey_index(fixture_open(), 1, htobe16(0x8001)), -1);
}

static void small_structure(void)
{
	struct ibv_context *context = fixture_open();
	struct ibv_device_attr_ex attr;

	ck_assert_int_eq(verbs_get_ctx_op(context, query_device_ex)
				 ->query_device_ex(context, NULL, &attr, 8),
			 EINVAL);
}

static void newer_values(void)
{
	struct ibv_values_ex values = {.comp_mask = 1 << 30};

	ck_assert_int_eq(ibv_query_rt_values_ex(fixture_open(), &values), EINVAL);
}

static const struct cause_row rows[] = {
	{CAUSE_CONFIGURATION, unreadable_mode, "URXE_MODE=software is not emu, hw or both"},
	{CAUSE_NODE_ADDRESSES, host_name, "\"no-such-host\""},
	{CAUSE_NODE_PORTS, three_ports, "\"127.0.0.3\" is one more"},
	{CAUSE_NODE_ADDRESS_TWICE, address_twice, "its other port"},
	{CAUSE_NODE_NOT_LOCAL, address_of_another_host, "192.0.2.77"},
	{CAUSE_NODE_NOT_LOCAL, address_of_another_host, "this machine has "},
	{CAUSE_NODE_UNKNOWN, no_addresses_to_be_had, "this machine's addresses"},
	{CAUSE_DEVICES_LIST, device_without_name, "URXE_DEVICES=127.0.0.1 is not of the form"},
	{CAUSE_NO_HARDWARE, no_hardware, "no libibverbs.so.1"},
	{CAUSE_CAPTURE_FILE, no_directory_to_capture, "/no/such/directory/a.pcap"},
	{CAUSE_ADDRESS_IN_USE, address_in_use, " has UDP port 4791"},
	{CAUSE_ADDRESS_UNUSABLE, forbidden_address, "Permission denied"},
	{CAUSE_DESCRIPTORS_USED_UP, no_descriptors_to_open, "this process may have "},
	{CAUSE_DESCRIPTORS_USED_UP, one_descriptor_too_few, "this process may have ",
	 CAUSE_ADDRESS_UNUSABLE},
	{CAUSE_OUT_OF_MEMORY, no_memory_to_open, "for ibv_open_device()"},
	{CAUSE_OUT_OF_MEMORY, no_memory_to_bind, "for ibv_open_device()", CAUSE_ADDRESS_UNUSABLE},
	{CAUSE_SYSTEM_CALL_FORBIDDEN, no_eventfd_to_open, "ibv_open_device(): Function not"},
	{CAUSE_SYSTEM_CALL_FORBIDDEN, no_eventfd_for_a_channel, "comp_channel(): Function not"},
	{CAUSE_DEVICE_FAILED, open_a_failed_device, "1 contexts of it are still open"},
	{CAUSE_CONTEXT_BUSY, close_with_objects, "1 object of urxe0 is not destroyed (domains"},
	{CAUSE_CONTEXT_BUSY, close_with_device_memory, "device memory"},
	{CAUSE_PORT_UNKNOWN, port_2, "port_num is 2; the last port of urxe0 is 1"},
	{CAUSE_GID_INDEX, gid_minus_1, "index is -1; the last one is 1023"},
	{CAUSE_GID_EMPTY, gid_of_no_address, "GID 500 of port 1"},
	{CAUSE_GID_TABLE_SHORT, no_space_for_gids, "max_entries is 0"},
	{CAUSE_PKEY, pkey_3, "index is 3"},
	{CAUSE_PKEY, another_pkey, "pkey is 0x8001"},
	{CAUSE_QUERY_SIZE, small_structure, "the structure has 8 bytes"},
	{CAUSE_QUERY_MASK, newer_values, "0x40000000"},
};

static const struct cause_table table = {
	.name = "causes of devices",
	.first = 0x4900,
	.last = 0x4fff,
	.rows = rows,
	.count = sizeof(rows) / sizeof(rows[0]),
};

int main(void)
{
	return run_suite(causes_suite(&table));
}
