/* SPDX-License-Identifier: BSD-2-Clause */
/* Objects that are destroyed, of another context, still in use, or left; and forks. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/check/case.h"
#include "tests/verbs/newer_regions.h"

static struct rig rig;

/* --- destroyed ------------------------------------------------------------------------- */

static void use_destroyed_cq(void)
{
	struct ibv_cq *cq;
	struct ibv_wc wc;

	rig_open(&rig);
	cq = ibv_create_cq(rig.context, 1, NULL, NULL, 0);
	must(ibv_destroy_cq(cq) == 0);
	must(ibv_poll_cq(cq, 1, &wc) == -EINVAL);
	must(ibv_req_notify_cq(cq, 0) == EINVAL);
	must(ibv_resize_cq(cq, 2) == EINVAL);
	rig_close(&rig);
}

static void use_destroyed_qp(void)
{
	struct ibv_qp_init_attr attr = {.cap = {.max_send_wr = 1}, .qp_type = IBV_QPT_UD};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad = NULL;
	struct ibv_recv_wr receive = {}, *bad_receive = NULL;
	struct ibv_qp_attr state = {.qp_state = IBV_QPS_ERR};
	struct ibv_qp *qp;

	rig_open(&rig);
	attr.send_cq = attr.recv_cq = rig.cq;
	qp = ibv_create_qp(rig.pd, &attr);
	must(ibv_destroy_qp(qp) == 0);
	must(ibv_post_send(qp, &wr, &bad) == EINVAL && bad == &wr);
	must(ibv_post_recv(qp, &receive, &bad_receive) == EINVAL && bad_receive == &receive);
	must(ibv_post_send(qp, &wr, NULL) == EINVAL);
	must(ibv_post_recv(qp, &receive, NULL) == EINVAL);
	must(ibv_modify_qp(qp, &state, IBV_QP_STATE) == EINVAL);
	rig_close(&rig);
}

/* In a call that makes something of it, and by attributes. */
static void use_destroyed_pd(void)
{
	struct ibv_qp_init_attr_ex attr = {.qp_type = IBV_QPT_RC, .comp_mask = IBV_QP_INIT_ATTR_PD};
	struct ibv_pd *pd;

	rig_open(&rig);
	pd = ibv_alloc_pd(rig.context);
	must(ibv_dealloc_pd(pd) == 0);
	errno = 0;
	must(!ibv_reg_mr(pd, rig.buffer, 1, 0) && errno == EINVAL);
	attr.pd = pd;
	attr.send_cq = attr.recv_cq = rig.cq;
	must(!ibv_create_qp_ex(rig.context, &attr) && errno == EINVAL);
	rig_close(&rig);
}

static struct ibv_ah *make_ah(void)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 1}};
	struct ibv_ah *ah;

	must(ibv_query_gid(rig.context, 1, 0, &attr.grh.dgid) == 0);
	ah = ibv_create_ah(rig.pd, &attr);
	must(ah);
	return ah;
}

static void use_destroyed_ah(void)
{
	struct ibv_qp_init_attr attr = {.cap = {.max_send_wr = 1}, .qp_type = IBV_QPT_UD};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad = NULL;
	struct ibv_qp *qp;

	rig_open(&rig);
	attr.send_cq = attr.recv_cq = rig.cq;
	qp = ibv_create_qp(rig.pd, &attr);
	wr.wr.ud.ah = make_ah();
	must(ibv_destroy_ah(wr.wr.ud.ah) == 0);
	must(ibv_post_send(qp, &wr, &bad) == EINVAL);
	must(ibv_destroy_qp(qp) == 0);
	rig_close(&rig);
}

/* Named by a request that is built. */
static void build_with_destroyed_ah(void)
{
	struct ibv_qp_init_attr_ex attr = {
		.cap = {.max_send_wr = 1, .max_send_sge = 1},
		.qp_type = IBV_QPT_UD,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};
	struct ibv_qp_ex *ex;
	struct ibv_ah *ah;

	rig_open(&rig);
	attr.pd = rig.pd;
	attr.send_cq = attr.recv_cq = rig.cq;
	ex = ibv_qp_to_qp_ex(ibv_create_qp_ex(rig.context, &attr));
	must(ex);
	ah = make_ah();
	must(ibv_destroy_ah(ah) == 0);
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_ud_addr(ex, ah, 1, 0);
	ibv_wr_set_sge(ex, 0, 0, 0);
	must(ibv_wr_complete(ex) == EINVAL);
	must(ibv_destroy_qp(&ex->qp_base) == 0);
	rig_close(&rig);
}

/* By functions that are the object's. */
static void build_on_destroyed_qp(void)
{
	struct ibv_qp_init_attr_ex attr = {
		.cap = {.max_send_wr = 1, .max_send_sge = 1},
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};
	struct ibv_qp_ex *ex;

	rig_open(&rig);
	attr.pd = rig.pd;
	attr.send_cq = attr.recv_cq = rig.cq;
	ex = ibv_qp_to_qp_ex(ibv_create_qp_ex(rig.context, &attr));
	must(ex && ibv_destroy_qp(&ex->qp_base) == 0);
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_sge(ex, 0, 0, 0);
	must(ibv_wr_complete(ex) == EINVAL);
	rig_close(&rig);
}

static void poll_destroyed_cq_ex(void)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 1};
	struct ibv_poll_cq_attr poll = {};
	struct ibv_cq_ex *cq;

	rig_open(&rig);
	cq = ibv_create_cq_ex(rig.context, &attr);
	must(cq && ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0);
	must(ibv_start_poll(cq, &poll) == EINVAL);
	ibv_end_poll(cq);
	rig_close(&rig);
}

static void copy_to_freed_dm(void)
{
	struct ibv_alloc_dm_attr attr = {.length = 4096};
	uint8_t data[8] = {};
	struct ibv_dm *dm;

	rig_open(&rig);
	dm = ibv_alloc_dm(rig.context, &attr);
	must(dm);
	must(ibv_free_dm(dm) == 0);
	must(ibv_memcpy_to_dm(dm, 0, data, sizeof(data)) == EINVAL);
	must(ibv_memcpy_from_dm(data, dm, 0, sizeof(data)) == EINVAL);
	rig_close(&rig);
}

/* At one place, which is reported once. */
static void use_again_and_again(void)
{
	struct ibv_cq *cq;
	struct ibv_wc wc;

	rig_open(&rig);
	cq = ibv_create_cq(rig.context, 1, NULL, NULL, 0);
	must(ibv_destroy_cq(cq) == 0);
	for (unsigned int i = 0; i < 5; i++)
		must(ibv_poll_cq(cq, 1, &wc) == -EINVAL);
	rig_close(&rig);
}

static void use_closed_context(void)
{
	struct ibv_context *context = open_device();
	struct ibv_device_attr attr;
	struct ibv_gid_entry entry;

	must(ibv_close_device(context) == 0);
	must(!ibv_alloc_pd(context));
	must(ibv_query_gid_ex(context, 1, 0, &entry, 0) == EINVAL);
	must(ibv_query_device(context, &attr) == EINVAL);
}

static void use_others_after_destroying(void)
{
	struct ibv_wc wc;

	rig_open(&rig);
	for (unsigned int i = 0; i < 100; i++)
		must(ibv_destroy_cq(ibv_create_cq(rig.context, 1, NULL, NULL, 0)) == 0);
	must(ibv_destroy_ah(make_ah()) == 0);
	must(ibv_poll_cq(rig.cq, 1, &wc) == 0);
	rig_close(&rig);
}

/* A queue pair that only sends has no use for the rest. */
static void use_half_of_the_attributes(void)
{
	struct ibv_qp_init_attr attr = {.cap = {.max_send_wr = 1}, .qp_type = IBV_QPT_XRC_SEND};
	struct ibv_qp *qp;

	rig_open(&rig);
	attr.send_cq = rig.cq;
	attr.recv_cq = ibv_create_cq(rig.context, 1, NULL, NULL, 0);
	must(ibv_destroy_cq(attr.recv_cq) == 0);
	qp = ibv_create_qp(rig.pd, &attr);
	must(qp);
	must(ibv_destroy_qp(qp) == 0);
	rig_close(&rig);
}

static void destroy_cq_twice(void)
{
	struct ibv_cq *cq;

	rig_open(&rig);
	cq = ibv_create_cq(rig.context, 1, NULL, NULL, 0);
	must(ibv_destroy_cq(cq) == 0);
	must(ibv_destroy_cq(cq) == EINVAL);
	rig_close(&rig);
}

static void deregister_twice(void)
{
	struct ibv_mr *mr;

	rig_open(&rig);
	mr = ibv_reg_mr(rig.pd, rig.buffer, 1, 0);
	must(ibv_dereg_mr(mr) == 0);
	must(ibv_dereg_mr(mr) == EINVAL);
	rig_close(&rig);
}

static void free_buffer_twice(void)
{
	struct buf *buf;

	rig_open(&rig);
	must(newer_alloc_buf(rig.pd, 8, &buf));
	newer_free_buf(buf);
	newer_free_buf(buf);
	rig_close(&rig);
}

static void close_twice(void)
{
	struct ibv_context *context = open_device();

	must(ibv_close_device(context) == 0);
	must(ibv_close_device(context) == EINVAL);
}

static void free_list_twice(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	ibv_free_device_list(list);
	ibv_free_device_list(list);
}

static void destroy_each_once(void)
{
	rig_open(&rig);
	rig_close(&rig);
	rig_open(&rig);
	rig_close(&rig);
}

/* --- of something else -------------------------------------------------------------------- */

static void mix_contexts(void)
{
	struct ibv_context *other = open_device();
	struct ibv_qp_init_attr attr = {.cap = {.max_send_wr = 1}, .qp_type = IBV_QPT_RC};
	struct ibv_qp *qp;

	rig_open(&rig);
	attr.send_cq = rig.cq;
	attr.recv_cq = ibv_create_cq(other, 1, NULL, NULL, 0);
	qp = ibv_create_qp(rig.pd, &attr);
	must(!qp || ibv_destroy_qp(qp) == 0);
	must(ibv_destroy_cq(attr.recv_cq) == 0);
	rig_close(&rig);
	must(ibv_close_device(other) == 0);
}

static void import_of_other_context(void)
{
	struct ibv_parent_domain_init_attr attr = {};
	struct ibv_pd *imported, *parent;
	struct ibv_context *other;
	struct ibv_mr *mr;

	rig_open(&rig);
	other = ibv_import_device(dup(rig.context->cmd_fd));
	must(other);
	imported = ibv_import_pd(other, rig.pd->handle);
	must(imported);
	mr = ibv_reg_mr(imported, rig.buffer, 1, 0);
	must(mr && ibv_dereg_mr(mr) == 0);
	attr.pd = rig.pd;
	parent = ibv_alloc_parent_domain(other, &attr);
	must(parent && ibv_dealloc_pd(parent) == 0);
	ibv_unimport_pd(imported);
	must(ibv_close_device(other) == 0);
	rig_close(&rig);
}

static void use_pointer_of_other_kind(void)
{
	rig_open(&rig);
	must(ibv_destroy_srq((void *)rig.cq) == EINVAL);
	rig_close(&rig);
}

/* A CQ is one of both kinds. */
static void use_extended_cq_as_cq(void)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 1};
	struct ibv_cq_ex *cq;

	rig_open(&rig);
	cq = ibv_create_cq_ex(rig.context, &attr);
	must(cq);
	must(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0);
	rig_close(&rig);
}

/* --- in use ------------------------------------------------------------------------------ */

static void close_in_use(void)
{
	struct ibv_context *context = open_device();

	must(ibv_alloc_pd(context));
	must(ibv_create_cq(context, 1, NULL, NULL, 0));
	must(ibv_close_device(context) == 0);
}

static void close_unused(void)
{
	struct ibv_context *context = open_device(), *other = open_device();
	struct ibv_pd *pd = ibv_alloc_pd(other);

	must(ibv_close_device(context) == 0);
	must(ibv_dealloc_pd(pd) == 0);
	must(ibv_close_device(other) == 0);
}

/* What it left was told when it was closed. */
static void use_after_close(void)
{
	struct ibv_context *context = open_device();
	struct ibv_pd *pd = ibv_alloc_pd(context);

	must(ibv_close_device(context) == 0);
	must(ibv_dealloc_pd(pd) == 0);
}

/* Of the context by its protection domain. */
static void deregister_after_close(void)
{
	struct ibv_context *context = open_device();
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_mr *mr = ibv_reg_mr(pd, rig.buffer, sizeof(rig.buffer), 0);

	must(ibv_close_device(context) == 0);
	must(ibv_dereg_mr(mr) == 0);
	must(ibv_dealloc_pd(pd) == 0);
}

static void ignore_busy(void)
{
	rig_open(&rig);
	must(ibv_dealloc_pd(rig.pd) == EBUSY);
	must(ibv_destroy_qp(rig.qp) == 0);
	must(ibv_destroy_cq(rig.cq) == 0);
	must(ibv_destroy_comp_channel(rig.channel) == 0);
	must(ibv_dereg_mr(rig.mr) == 0);
	exit(0);
}

static void repeat_busy(void)
{
	rig_open(&rig);
	must(ibv_dealloc_pd(rig.pd) == EBUSY);
	must(ibv_destroy_cq(rig.cq) == EBUSY);
	rig_close(&rig);
}

/* --- left -------------------------------------------------------------------------------- */

static void leak_regions(void)
{
	rig_open(&rig);
	for (unsigned int i = 0; i < 12; i++)
		must(ibv_reg_mr(rig.pd, rig.buffer, 1, 0));
	must(ibv_destroy_qp(rig.qp) == 0);
	must(ibv_destroy_cq(rig.cq) == 0);
	must(ibv_destroy_comp_channel(rig.channel) == 0);
	exit(0);
}

/* It is called what it is now. */
static void leak_reregistered(void)
{
	struct ibv_mr *mr;

	rig_open(&rig);
	mr = ibv_reg_mr(rig.pd, rig.buffer, 3, 0);
	must(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, rig.buffer, 7, 0) == 0);
	must(ibv_destroy_qp(rig.qp) == 0);
	must(ibv_destroy_cq(rig.cq) == 0);
	must(ibv_destroy_comp_channel(rig.channel) == 0);
	exit(0);
}

static void leak_buffer(void)
{
	struct ibv_pd *pd = ibv_alloc_pd(open_device());
	struct buf *buf;

	must(newer_alloc_buf(pd, 8, &buf));
	exit(0);
}

static void leak_list(void)
{
	must(ibv_get_device_list(NULL));
}

static void leak_in_silence(void)
{
	leak_regions();
}

/* --- forks -------------------------------------------------------------------------------- */

/* Returns its status. */
static int fork_and(void (*child)(void))
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		child();
		exit(0);
	}
	must(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void do_nothing(void)
{
}

static void fork_with_regions(void)
{
	int status;

	rig_open(&rig);
	status = fork_and(do_nothing);
	rig_close(&rig);
	exit(status);
}

static void fork_prepared(void)
{
	int status;

	must(ibv_fork_init() == 0);
	rig_open(&rig);
	status = fork_and(do_nothing);
	rig_close(&rig);
	exit(status);
}

static void fork_unneeded(void)
{
	int status;

	must(ibv_is_fork_initialized() == IBV_FORK_UNNEEDED);
	rig_open(&rig);
	status = fork_and(do_nothing);
	rig_close(&rig);
	exit(status);
}

static void fork_without_regions(void)
{
	rig_open(&rig);
	rig_close(&rig);
	exit(fork_and(do_nothing));
}

static void prepare_late(void)
{
	rig_open(&rig);
	must(ibv_fork_init() == 0);
	rig_close(&rig);
}

static void poll_parents(void)
{
	struct ibv_wc wc;

	must(ibv_poll_cq(rig.cq, 1, &wc) == 0);
}

static void destroy_parents(void)
{
	must(ibv_destroy_qp(rig.qp) == 0);
}

static void child_polls(void)
{
	int status;

	must(ibv_fork_init() == 0);
	rig_open(&rig);
	status = fork_and(poll_parents);
	rig_close(&rig);
	exit(status);
}

static void child_destroys(void)
{
	int status;

	must(ibv_fork_init() == 0);
	rig_open(&rig);
	status = fork_and(destroy_parents);
	rig_close(&rig);
	exit(status);
}

static void open_in_child(void)
{
	static struct rig own;

	rig_open(&own);
	rig_close(&own);
}

static void child_opens(void)
{
	int status;

	must(ibv_fork_init() == 0);
	rig_open(&rig);
	status = fork_and(open_in_child);
	rig_close(&rig);
	exit(status);
}

/* At a place that the parent's report is of. */
static void child_repeats(void)
{
	destroy_cq_twice();
	must(fork_and(destroy_cq_twice) != 0);
}

static const struct check_case cases[] = {
	BAD(OBJECT_USED_DESTROYED, use_destroyed_cq, .said = "destroyed at objects.c:"),
	BAD(OBJECT_USED_DESTROYED, use_destroyed_qp, .said = "(UD)"),
	BAD(OBJECT_USED_DESTROYED, use_destroyed_pd, .said = "ibv_reg_mr"),
	BAD(OBJECT_USED_DESTROYED, use_destroyed_ah),
	BAD(OBJECT_USED_DESTROYED, build_with_destroyed_ah, .said = "ibv_wr_complete(): address"),
	BAD(OBJECT_USED_DESTROYED, build_on_destroyed_qp, .said = "ibv_wr_start()"),
	BAD(OBJECT_USED_DESTROYED, poll_destroyed_cq_ex, .said = "ibv_start_poll()"),
	BAD(OBJECT_USED_DESTROYED, copy_to_freed_dm, .said = "ibv_memcpy_to_dm()"),
	BAD(OBJECT_USED_DESTROYED, use_again_and_again, .said = "1 misuse, 5 occurrences"),
	BAD(OBJECT_USED_DESTROYED, use_closed_context),
	GOOD(OBJECT_USED_DESTROYED, use_others_after_destroying),
	GOOD(OBJECT_USED_DESTROYED, use_half_of_the_attributes),
	BAD(OBJECT_DESTROYED_TWICE, destroy_cq_twice),
	BAD(OBJECT_DESTROYED_TWICE, deregister_twice),
	BAD(OBJECT_DESTROYED_TWICE, free_buffer_twice, .said = "buffer of 8 bytes at"),
	BAD(OBJECT_DESTROYED_TWICE, close_twice),
	BAD(OBJECT_DESTROYED_TWICE, free_list_twice),
	BAD(OBJECT_DESTROYED_TWICE, child_repeats),
	GOOD(OBJECT_DESTROYED_TWICE, destroy_each_once),
	BAD(OBJECT_OF_OTHER_CONTEXT, mix_contexts),
	GOOD(OBJECT_OF_OTHER_CONTEXT, import_of_other_context),
	BAD(OBJECT_OF_CLOSED_DEVICE, use_after_close, .also = CAUSE_OBJECT_DESTROYED_IN_USE),
	BAD(OBJECT_OF_CLOSED_DEVICE, deregister_after_close, .also = CAUSE_OBJECT_DESTROYED_IN_USE,
	    .said = "ibv_dereg_mr(): region"),
	GOOD(OBJECT_OF_CLOSED_DEVICE, close_unused),
	BAD(OBJECT_DESTROYED_IN_USE, close_in_use, .said = "in use by"),
	GOOD(OBJECT_DESTROYED_IN_USE, close_unused),
	BAD(OBJECT_BUSY_IGNORED, ignore_busy, .also = CAUSE_OBJECT_LEAKED),
	GOOD(OBJECT_BUSY_IGNORED, repeat_busy),
	BAD(OBJECT_OF_OTHER_KIND, use_pointer_of_other_kind),
	GOOD(OBJECT_OF_OTHER_KIND, use_extended_cq_as_cq),
	BAD(OBJECT_LEAKED, leak_regions, .said = "12 memory regions"),
	BAD(OBJECT_LEAKED, leak_reregistered, .said = "(7 bytes at"),
	BAD(OBJECT_LEAKED, leak_buffer, .said = "buffer of 8 bytes at"),
	BAD(OBJECT_LEAKED, leak_list),
	GOOD(OBJECT_LEAKED, leak_in_silence, .options = "no-leaks"),
	BAD(FORK_WITHOUT_INIT, fork_with_regions),
	GOOD(FORK_WITHOUT_INIT, fork_prepared),
	GOOD(FORK_WITHOUT_INIT, fork_unneeded),
	GOOD(FORK_WITHOUT_INIT, fork_without_regions),
	BAD(FORK_INIT_LATE, prepare_late),
	GOOD(FORK_INIT_LATE, fork_prepared),
	BAD(OBJECT_OF_PARENT, child_polls),
	BAD(OBJECT_OF_PARENT, child_destroys),
	GOOD(OBJECT_OF_PARENT, child_opens),
};

const struct check_table object_cases = CHECK_TABLE(cases, 0x7000, 0x70ff);
