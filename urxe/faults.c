/* SPDX-License-Identifier: BSD-2-Clause */
#include "urxe/faults.h"

#include <errno.h>
#include <stdio.h>

#include "net/fault/fault_clause.h"
#include "net/fault/fault_words.h"
#include "urxe/command.h"

static const char grammar[] =
	"A fault specification (--faults, URXE_FAULTS, urxe ctl) is a list of clauses separated "
	"by\n"
	"';' or ','; urxe-faults(7) says more:\n"
	"\n"
	"  seed=N               of the random choices, default 1\n"
	"  ACTION=RATE[MATCH]   this share of what matches: 1%, or 0.01 (100% is all)\n"
	"  ACTION#N[MATCH]      the N-th that matches, counted from 1\n"
	"  ACTION#N+[MATCH]     that and all after it\n"
	"  ACTION#N*[MATCH]     every N-th\n"
	"  ACTION@TIME[MATCH]   so long after the device was opened: event, down and remove alone\n"
	"\n"
	"ACTION is one of\n"
	"\n"
	"  drop                 a packet is lost\n"
	"  dup                  it comes twice\n"
	"  reorder              it comes behind the next one\n"
	"  corrupt              one bit is wrong\n"
	"  mark                 it says that it has experienced congestion, if it is capable of "
	"that\n"
	"  delay(TIME)          it comes later: 500us, 2ms\n"
	"  fail                 a call is refused, with the errno that is usual for it\n"
	"  fail(ERRNO)          or with this one: ENOMEM\n"
	"  complete(STATUS)     a work request completes with RETRY_EXC_ERR (urxe help statuses)\n"
	"  late(TIME)           a completion comes later\n"
	"  event(NAME)          an asynchronous event: PORT_ERR (urxe help events)\n"
	"  down(TIME)           the link is down so long\n"
	"  remove               the device is removed\n"
	"  reject               a REQ or REP of the connection manager is rejected\n"
	"  reject(REASON)       for this reason (urxe help reasons)\n"
	"  connection(NAME)     a step of librdmacm ends with ADDR_ERROR, ROUTE_ERROR, UNREACHABLE "
	"or\n"
	"                       MULTICAST_ERROR, or ADDR_CHANGE follows\n"
	"  coalesce(N)          one completion event for N completions; always unless it says "
	"when\n"
	"  spurious             a completion event without a completion\n"
	"\n"
	"MATCH is any of\n"
	"\n"
	"  @tx, @rx             packets that this node sends (default), or receives\n"
	"  /NAME                of what it is: an opcode or a message of the connection manager\n"
	"                       (urxe help opcodes), a call (urxe help calls), a work request "
	"(urxe\n"
	"                       help work); or the beginning of its name: RC_SEND\n"
	"  >QPN                 packets to this queue pair number; work requests of this queue "
	"pair\n"
	"  [ADDRESS]            packets from or to this IP address\n"
	"\n"
	"Examples:\n"
	"\n"
	"  seed=7;drop=1%;dup=0.5%\n"
	"  drop#3/RC_ACKNOWLEDGE@rx\n"
	"  delay(2ms)=10%/RC_SEND[127.0.0.2]\n"
	"  drop#1/CM_REP;fail(ENOMEM)#3/ibv_reg_mr\n"
	"  complete(RETRY_EXC_ERR)#10/RDMA_WRITE;event(PORT_ERR)@2s\n";

void faults_print_grammar(void)
{
	fputs(grammar, stdout);
}

static void print_words(const struct fault_words *words)
{
	for (unsigned int number = 0; number < words->count; number++) {
		const char *name = words->name(number);

		if (name)
			puts(name);
	}
}

void faults_print_opcodes(void)
{
	print_words(&fault_packets);
}

void faults_print_calls(void)
{
	print_words(&fault_call_names);
}

void faults_print_work(void)
{
	print_words(&fault_works);
}

void faults_print_statuses(void)
{
	print_words(&fault_statuses);
}

void faults_print_events(void)
{
	print_words(&fault_events);
}

void faults_print_reasons(void)
{
	print_words(&fault_reasons);
}

void faults_check(const char *specification, const char *whose)
{
	struct fault_clauses clauses;
	struct fault_error error;
	int status = specification ? fault_clauses_read(&clauses, specification, &error) : 0;
	const char *text = status == EINVAL ? fault_error_text(&error, whose) : NULL;

	if (text)
		die("%s; see urxe help faults", text);
	if (status)
		die("out of memory");
	if (specification)
		fault_clauses_destroy(&clauses);
}
