/* SPDX-License-Identifier: BSD-2-Clause */
/* Refused calls about any object, addresses and multicast groups. */
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/verbs/causes_calls.h"
#include "tests/verbs/fixture.h"

/* --- memory ---------------------------------------------------------------------------------- */

/* Whether @make, which makes something large, finds no memory when there is none left to map. */
static void ck_no_memory(void *(*make)(void))
{
	struct rlimit limit = {}, before;

	open_device();
	ck_assert_int_eq(getrlimit(RLIMIT_AS, &before), 0);
	limit.rlim_max = before.rlim_max;
	ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
	ck_assert_ptr_null(make());
	ck_assert_int_eq(errno, ENOMEM);
	ck_assert_int_eq(setrlimit(RLIMIT_AS, &before), 0);
}

static void *make_cq(void)
{
	return ibv_create_cq(context, 65536, NULL, NULL, 0);
}

static void *make_dm(void)
{
	struct ibv_alloc_dm_attr attr = {.length = 1 << 20};

	return ibv_alloc_dm(context, &attr);
}

static void no_memory(void)
{
	ck_no_memory(make_cq);
}

static void no_device_memory(void)
{
	ck_no_memory(make_dm);
}

/* --- paths ----------------------------------------------------------------------------------- */

static void create_ah(struct ibv_ah_attr attr, int error)
{
	open_device();
	ck_assert_ptr_null(ibv_create_ah(pd, &attr));
	ck_assert_int_eq(errno, error);
}

static void path_without_grh(void)
{
	create_ah((struct ibv_ah_attr){.dlid = 42, .port_num = 1}, EINVAL);
}

static void path_without_port(void)
{
	create_ah((struct ibv_ah_attr){.is_global = 1}, EINVAL);
}

static void path_from_no_gid(void)
{
	create_ah((struct ibv_ah_attr){.is_global = 1, .port_num = 1, .grh.sgid_index = 3},
		  ENODATA);
}

static void path_between_families(void)
{
	create_ah((struct ibv_ah_attr){.is_global = 1, .port_num = 1}, EINVAL);
}

/* --- any object ------------------------------------------------------------------------------ */

static void no_cq(void)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC};

	open_device();
	ck_assert_ptr_null(ibv_create_qp(pd, &attr));
	ck_assert_int_eq(errno, EINVAL);
}

static void no_pd(void)
{
	struct ibv_qp_init_attr_ex attr = {.qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq};

	open_device();
	ck_assert_ptr_null(ibv_create_qp_ex(context, &attr));
	ck_assert_int_eq(errno, EINVAL);
}

static void overwritten(void)
{
	struct ibv_qp *qp = qp_in_reset(IBV_QPT_RC);

	qp->handle = 4711;
	ck_assert_int_eq(ibv_destroy_qp(qp), ENOENT);
}

static void cq_of_another_context(void)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC};

	open_device();
	attr.send_cq = cq;
	attr.recv_cq = ibv_create_cq(fixture_open(), 1, NULL, NULL, 0);
	ck_assert_ptr_null(ibv_create_qp(pd, &attr));
	ck_assert_int_eq(errno, EINVAL);
}

static void pd_in_use(void)
{
	static char memory[64];

	qp_in_reset(IBV_QPT_RC);
	for (int i = 0; i < 3; i++)
		ck_assert_ptr_nonnull(ibv_reg_mr(pd, memory, sizeof(memory), 0));
	ck_assert_int_eq(ibv_dealloc_pd(pd), EBUSY);
}

static void cq_in_use(void)
{
	qp_in_reset(IBV_QPT_RC);
	make_qp(IBV_QPT_UC);
	ck_assert_int_eq(ibv_destroy_cq(cq), EBUSY);
}

static void parent_in_use(void)
{
	struct ibv_parent_domain_init_attr attr = {};
	struct ibv_pd *parent;

	open_device();
	attr.pd = pd;
	parent = ibv_alloc_parent_domain(context, &attr);
	pd = parent;
	make_qp(IBV_QPT_RC);
	ck_assert_int_eq(ibv_dealloc_pd(parent), EBUSY);
}

static void parent_of_parent(void)
{
	struct ibv_parent_domain_init_attr attr = {};

	open_device();
	attr.pd = pd;
	attr.pd = ibv_alloc_parent_domain(context, &attr);
	ck_assert_ptr_nonnull(attr.pd);
	ck_assert_ptr_null(ibv_alloc_parent_domain(context, &attr));
	ck_assert_int_eq(errno, EINVAL);
}

static void import_of_stdin(void)
{
	ck_assert_ptr_null(ibv_import_device(STDIN_FILENO));
	ck_assert_int_eq(errno, EINVAL);
}

static void import_of_no_pd(void)
{
	open_device();
	ck_assert_ptr_null(ibv_import_pd(context, 4711));
	ck_assert_int_eq(errno, ENOENT);
}

static void child_posts(void)
{
	struct ibv_qp *qp = qp_in_rts(IBV_QPT_RC);
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;
	pid_t child = fork();
	int status;

	if (child == 0)
		_exit(ibv_post_send(qp, &wr, &bad));
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), EOPNOTSUPP);
}

static void child_creates(void)
{
	pid_t child;
	int status;

	open_device();
	child = fork();
	if (child == 0)
		_exit(ibv_create_cq(context, 1, NULL, NULL, 0) ? 0 : errno);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), EOPNOTSUPP);
}

/* --- multicast ------------------------------------------------------------------------------- */

static const union ibv_gid group = {.raw = {[10] = 0xff, [11] = 0xff, [12] = 224, [15] = 42}};
static const union ibv_gid host = {.raw = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 42}};
static const union ibv_gid group_ipv6 = {.raw = {0xff, 0x05, [15] = 42}};

static void group_of_rc(void)
{
	ck_assert_int_eq(ibv_attach_mcast(qp_in_reset(IBV_QPT_RC), &group, 0), EINVAL);
}

static void group_of_a_host(void)
{
	ck_assert_int_eq(ibv_attach_mcast(qp_in_reset(IBV_QPT_UD), &host, 0), EINVAL);
}

static void detached(void)
{
	ck_assert_int_eq(ibv_detach_mcast(qp_in_reset(IBV_QPT_UD), &group, 0), EINVAL);
}

static void attached(void)
{
	struct ibv_qp *qp = qp_in_reset(IBV_QPT_UD);

	ck_assert_int_eq(ibv_attach_mcast(qp, &group, 0), 0);
	ck_assert_int_eq(ibv_destroy_qp(qp), EBUSY);
}

static void too_many_attached(void)
{
	struct ibv_device_attr limits;

	open_device();
	ck_assert_int_eq(ibv_query_device(context, &limits), 0);
	for (int i = 0; i < limits.max_mcast_qp_attach; i++)
		ck_assert_int_eq(ibv_attach_mcast(make_qp(IBV_QPT_UD), &group, 0), 0);
	ck_assert_int_eq(ibv_attach_mcast(make_qp(IBV_QPT_UD), &group, 0), ENOMEM);
}

/* The device has no address that a group of IPv6 could be joined by. */
static void no_way_to_join(void)
{
	ck_assert_int_ne(ibv_attach_mcast(qp_in_reset(IBV_QPT_UD), &group_ipv6, 0), 0);
}

/* --- the way back, and the Ethernet's -------------------------------------------------------- */

static void no_header(void)
{
	struct ibv_wc wc = {.wc_flags = IBV_WC_GRH};
	struct ibv_ah_attr attr;
	struct ibv_grh grh = {};

	open_device();
	ck_assert_int_eq(ibv_init_ah_from_wc(context, 1, &wc, &grh, &attr), -1);
	ck_assert_int_eq(errno, ENODATA);
}

static void came_elsewhere(void)
{
	struct ibv_wc wc = {.wc_flags = IBV_WC_GRH};
	struct ibv_grh grh = {.version_tclass_flow = htobe32(6u << 28), .dgid = group_ipv6};

	open_device();
	ck_assert_ptr_null(ibv_create_ah_from_wc(pd, &wc, &grh, 1));
	ck_assert_int_eq(errno, ENODATA);
}

static void no_route(void)
{
	struct ibv_ah_attr attr = {.port_num = 1, .grh.dgid = host};
	uint8_t mac[ETHERNET_LL_SIZE];

	open_device();
	ck_assert_int_ne(ibv_resolve_eth_l2_from_gid(context, &attr, mac, NULL), 0);
}

static const struct cause_row rows[] = {
	{CAUSE_PATH_NOT_GLOBAL, path_without_grh, "is_global is 0, dlid 42"},
	{CAUSE_NO_PORT, path_without_port, "ah_attr.port_num is 0: ports are 1 to 1"},
	{CAUSE_PATH_NO_GID, path_from_no_gid, "sgid_index is 3: port 1 has the GIDs 0 127.86."},
	{CAUSE_PATH_FAMILIES, path_between_families, "(sgid_index 0) to :: (dgid)"},
	{CAUSE_PATH_FAMILIES, path_between_families, "port 1 has the GIDs 0 127.86."},
	{CAUSE_PATH_NO_NEIGHBOUR, no_route, " to 10.0.0.42: "},
	{CAUSE_AH_NO_SENDER, no_header, "no header of IPv4 or IPv6"},
	{CAUSE_AH_NO_SENDER, came_elsewhere, "it came to ff05::2a, which port 1 does not have"},
	{CAUSE_OBJECT_MISSING, no_cq, "RC queue pair: send_cq is NULL"},
	{CAUSE_OBJECT_MISSING, no_pd, "comp_mask lacks IBV_QP_INIT_ATTR_PD"},
	{CAUSE_HANDLE_CHANGED, overwritten, "ibv_destroy_qp(): handle is 4711, it was made with "},
	{CAUSE_OTHER_CONTEXT, cq_of_another_context, "recv_cq and pd"},
	{CAUSE_OBJECT_IN_USE, pd_in_use, "in use by 3 memory regions, 1 queue pair"},
	{CAUSE_OBJECT_IN_USE, cq_in_use, "ibv_destroy_cq(): in use by 2 queue pairs"},
	{CAUSE_OBJECT_IN_USE, parent_in_use, "in use by 1 objects that were made in the parent"},
	{CAUSE_LIMIT_REACHED, too_many_attached, "to the group: 1024 (max_mcast_qp_attach"},
	{CAUSE_FORKED_CHILD, child_posts, "ibv_post_send(), process "},
	{CAUSE_FORKED_CHILD, child_creates, "ibv_create_cq(), process "},
	{CAUSE_NO_DOMAIN_OF_KIND, parent_of_parent, "pd is a parent domain itself"},
	{CAUSE_IMPORT_UNKNOWN, import_of_stdin, "descriptor 0 is of no context"},
	{CAUSE_IMPORT_UNKNOWN, import_of_no_pd, "handle 4711"},
	{CAUSE_OUT_OF_MEMORY, no_memory, "for a completion queue of 65536 entries"},
	{CAUSE_OUT_OF_MEMORY, no_device_memory, "for 1048576 bytes of device memory"},

	{CAUSE_QP_ATTACHED, attached, " (UD): attached to 1 group"},

	{CAUSE_MCAST_NOT_UD, group_of_rc, " (RC)"},
	{CAUSE_MCAST_NO_GROUP, group_of_a_host, "10.0.0.42"},
	{CAUSE_MCAST_NOT_ATTACHED, detached, "group 224.0.0.42; it is attached to 0"},
	{CAUSE_MCAST_JOIN, no_way_to_join, "group ff05::2a: "},
};

const struct call_rows calls_objects = {rows, sizeof(rows) / sizeof(rows[0])};
