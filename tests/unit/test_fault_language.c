/* SPDX-License-Identifier: BSD-2-Clause */
/* The language of faults (urxe-faults(7)): what can be read, and where what can't be goes wrong. */
#include <check.h>
#include <errno.h>

#include "net/fault/fault.h"
#include "net/sim/sim.h"
#include "tests/run_suite.h"

static const char *const readable[] = {
	"",
	" ; , ",
	"seed=7",
	"seed=0xffffffffffffffff",
	"seed=7;drop=1%;dup=0.5%;reorder=0.5%",
	"drop#3/RC_ACKNOWLEDGE@rx",
	"drop=0.01@tx/RC_SEND>0x11, corrupt=100%@rx>17/UD",
	"delay(500us)=100% ; delay(2ms)#1,delay(1s)=0.5,delay(7ns)=5%",
	"drop=0;drop=1%;drop=1.%;drop=0.999;drop=100.00%",
	"\tdrop=0.5 ;",
	"mark=1%;mark#7@rx",
	"drop#3+@rx[10.0.0.1],drop=1%[fd00::1]/RC_SEND;dup#1+",
	"drop#2*;corrupt#100*/UD@rx",
	"drop#1/CM_REP;delay(2s)#1/CM_RTU;dup#1/CM_SIDR_REP/CM_LAP/RC_SEND",
	"fail#1",
	"fail(ENOMEM)#3/ibv_reg_mr;fail(EAGAIN)=1%/rdma_;fail(12)#5+/ibv_post_send/ibv_post_recv",
	"complete(RETRY_EXC_ERR)#10/RDMA_WRITE;complete(WR_FLUSH_ERR)=1%/RECV>17",
	"late(2ms)#7*/SEND>0x11;late(1us)=100%",
	"event(PORT_ERR)@2s;event(PORT_ACTIVE)@3s;event(QP_FATAL)#3/SEND>17;event(LID_CHANGE)=1%",
	"down(500ms)@2s;down(1s)#100;remove@10s;remove#1000",
	"connection(ADDR_ERROR)#1;connection(UNREACHABLE)=10%;connection(ADDR_CHANGE)#2*",
	"reject#1;reject(NO_RESOURCES)#2/CM_REQ;reject(28)#1+/CM_REP;reject=10%/CM_RE",
	"coalesce(4);coalesce(2)#10+;spurious#3;spurious=10%",
	"seed=7;drop=1%;fail#3/ibv_create_qp;event(DEVICE_FATAL)@1s",
};

START_TEST(the_language_is_understood)
{
	struct sim *sim = sim_create(&(struct sim_options){0});
	struct link *link;

	ck_assert_int_eq(fault_link_create(sim_link_create(sim), readable[_i], &link, NULL), 0);
	link->ops->close(link);
	sim_destroy(sim);
}
END_TEST

static const struct {
	const char *text;
	unsigned int place;
} unreadable[] = {
	{"x", 0},
	{"drop", 4},
	{"drop=", 5},
	{"drop=1", 5},
	{"drop=1.0", 5},
	{"drop=1.01", 5},
	{"drop=101%", 5},
	{"drop=-1", 5},
	{"drop=.5", 5},
	{"drop=1%%", 7},
	{"drop=1% dup=1%", 8},
	{"drop#0", 5},
	{"drop#", 5},
	{"drop#99999999999999999999", 5},
	{"dup=1%;dorp=1%", 7},
	{"drop=1%@up", 7},
	{"drop=1%/RC_SENT", 8},
	{"drop=1%/", 8},
	{"drop=1%/rc_send", 8},
	{"drop=1%>0x1000000", 8},
	{"drop=1%>", 8},
	{"drop=1%[10.0.0]", 8},
	{"drop=1%[10.0.0.1", 8},
	{"drop=1%[]", 8},
	{"drop=1%[0000:0000:0000:0000:0000:0000:0000:0000:0000:0000]", 8},
	{"drop=1%+", 7},
	{"drop#+", 5},
	{"delay=1", 0},
	{"delay(1)=1", 7},
	{"delay(1min)=1", 7},
	{"delay(1ms=1", 9},
	{"seed=", 5},
	{"seed=-1", 5},
	{"seed=18446744073709551616", 5},
	{"seed=1x", 6},
	{"drop#2**", 7},
	{"drop#2+*", 7},
	{"drop@2s", 4},
	{"drop(1s)#1", 4},
	{"drop#1/CM_REPLY", 7},
	{"fail(EFOO)#3", 5},
	{"fail(enomem)#3", 5},
	{"fail(ENOMEM#3", 11},
	{"fail()#3", 5},
	{"fail(0)#3", 5},
	{"fail(4096)#3", 5},
	{"fail(0x)#3", 5},
	{"fail#3/ibv_reg_mrs", 7},
	{"fail#3/RC_SEND", 7},
	{"fail#3@tx", 6},
	{"fail#3>17", 6},
	{"fail@2s", 4},
	{"complete#3", 0},
	{"complete(SUCCESS)#3", 9},
	{"complete(IBV_WC_FATAL_ERR)#3", 9},
	{"complete(12)#3", 9},
	{"complete(FATAL_ERR)#3/CM_REQ", 22},
	{"complete(FATAL_ERR)#3>", 22},
	{"complete(FATAL_ERR)@1s", 19},
	{"event(WQ_FATAL)@1s", 6},
	{"event(DEVICE_SPEED_CHANGE)@1s", 6},
	{"event(PORT_ERR)", 15},
	{"event(PORT_ERR)@1", 17},
	{"event(PORT_ERR)@tx", 16},
	{"event#1", 0},
	{"down#1", 0},
	{"down(500ms)", 11},
	{"down(500)@2s", 8},
	{"remove", 6},
	{"remove(1s)@1s", 6},
	{"reject(SPITE)#1", 7},
	{"reject(0)#1", 7},
	{"reject#1/CM_RTU", 9},
	{"reject", 6},
	{"late#1", 0},
	{"late(1s)@1s", 8},
	{"coalesce#1", 0},
	{"coalesce(0)", 9},
	{"coalesce(65536)", 9},
	{"coalesce(4)/SEND", 11},
	{"connection#1", 0},
	{"connection(ESTABLISHED)#1", 11},
	{"connection(ADDR_ERROR)@1s", 22},
	{"connection(ADDR_ERROR)#1/CM_REQ", 24},
	{"spurious", 8},
	{"drop=1%>1>2", 9},
	{"drop=1%@tx@rx", 10},
	{"drop=1%[10.0.0.1][10.0.0.2]", 17},
	{"seed=7;seed=8", 12},
};

START_TEST(errors_have_a_place)
{
	const char *text = unreadable[_i].text;
	struct fault_error error = {};
	struct sim *sim = sim_create(&(struct sim_options){0});
	struct link *inner = sim_link_create(sim), *link = NULL;

	ck_assert_int_eq(fault_link_create(inner, text, &link, NULL), EINVAL);
	ck_assert_int_eq(fault_link_create(inner, text, &link, &error), EINVAL);
	ck_assert_ptr_null(link);
	ck_assert_msg(error.place == text + unreadable[_i].place, "%s: at %td", text,
		      error.place - text);
	ck_assert_ptr_nonnull(error.expected);
	sim_destroy(sim);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("fault_language");
	TCase *tests = tcase_create("fault_language");

	tcase_add_loop_test(tests, the_language_is_understood, 0,
			    sizeof(readable) / sizeof(readable[0]));
	tcase_add_loop_test(tests, errors_have_a_place, 0,
			    sizeof(unreadable) / sizeof(unreadable[0]));
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
