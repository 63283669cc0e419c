/* SPDX-License-Identifier: BSD-2-Clause */
#include "urxe/faults.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "net/fault/fault_clause.h"
#include "net/wire/wire.h"
#include "urxe/command.h"

static const char grammar[] =
	"A fault specification (--faults, URXE_FAULTS) is a list of clauses separated by ';' or "
	"',':\n"
	"\n"
	"  seed=N               of the random choices, default 1: the same seed and packets give\n"
	"                       the same faults\n"
	"  ACTION=RATE[MATCH]   to this share of the matching packets: 1%, or 0.01 (100% is all)\n"
	"  ACTION#N[MATCH]      to the N-th matching packet, counted from 1\n"
	"  ACTION#N+[MATCH]     to that and all after it\n"
	"\n"
	"ACTION is one of\n"
	"\n"
	"  drop                 the packet is lost\n"
	"  dup                  it comes twice\n"
	"  reorder              it comes behind the next one\n"
	"  corrupt              one bit is wrong\n"
	"  mark                 it says that it has experienced congestion, if it is capable of "
	"that\n"
	"  delay(TIME)          it comes later: 500us, 2ms\n"
	"\n"
	"MATCH is any of\n"
	"\n"
	"  @tx, @rx             packets that this node sends (default), or receives\n"
	"  /OPCODE              an opcode such as RC_SEND_ONLY, or the beginning of its name: "
	"RC_SEND\n"
	"  >QPN                 packets to this queue pair number\n"
	"  [ADDRESS]            packets from or to this IP address\n"
	"\n"
	"Examples:\n"
	"\n"
	"  seed=7;drop=1%;dup=0.5%\n"
	"  drop#3/RC_ACKNOWLEDGE@rx\n"
	"  delay(2ms)=10%/RC_SEND[127.0.0.2]\n";

void faults_print_grammar(void)
{
	fputs(grammar, stdout);
}

void faults_print_opcodes(void)
{
	for (unsigned int number = 0; number <= UINT8_MAX; number++) {
		const struct opcode *opcode = opcode_find(number);

		if (opcode)
			puts(opcode->name);
	}
}

void faults_check(const char *specification, const char *whose)
{
	struct fault_clauses clauses;
	struct fault_error error;
	int status = specification ? fault_clauses_read(&clauses, specification, &error) : 0;

	if (status == EINVAL)
		die("%s can't be read at \"%s\": expected is %s; see urxe help faults", whose,
		    error.place, error.expected);
	else if (status)
		die("out of memory");
	if (specification)
		fault_clauses_destroy(&clauses);
}
