/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The processes that have devices open, for the commands that show them: ps, top and stat, and ctl.
 * What they show of themselves is read by net/observe/reader; here it gets words, as JSON or for
 * lines of text. It may be torn, or nonsense: a difference of two marks is never taken to be huge.
 */
#ifndef URXE_PROCESSES_H
#define URXE_PROCESSES_H

#include <jansson.h>

#include "net/observe/reader.h"

/* Files that can't be read are told of on stderr, once. Ends with die() where none can be. */
struct observed *processes_read(const struct observed_options *options);
/* The same for commands that go on without: false, told of on stderr, once. */
bool processes_try_read(const struct observed_options *options, struct observed **processes);

#define ABSENCE_TEXT 64
/* Why process @pid isn't among those that are read: "there is no process 7". */
const char *absence_text(pid_t pid, char text[ABSENCE_TEXT]);

json_t *process_json(const struct observed *process);
json_t *losses_json(const struct observe_losses *losses);

/* What the process has done, with what its destroyed queue pairs did. */
struct observe_totals process_totals(const struct observed *process);

/* For URXE_STAT: no other process has this name. */
void session_name(char name[OBSERVE_SESSION]);
/* All that were measured. */
uint64_t latency_messages(const struct observe_latency *latency);

/* Work requests that aren't completed; those of them that are on their way. */
uint32_t qp_outstanding(const struct observe_qp *qp);
uint32_t qp_sent(const struct observe_qp *qp);

/* "unknown" for numbers that mean nothing. */
const char *recovery_name(unsigned int state);
const char *armed_name(unsigned int armed);
const char *class_name(enum observe_class class);
const char *wc_status_name(unsigned int status); /* IBV_WC_RETRY_EXC_ERR */

#define ADDRESS_TEXT 48
/* An IPv4 address as it is written; "" for zeros. */
const char *address_text(const uint8_t gid[16], char text[ADDRESS_TEXT]);

#define AMOUNT_TEXT 16
/* "999", "1.23k", "45.6M". */
const char *amount_text(double amount, char text[AMOUNT_TEXT]);
/* "850 ns", "1.2 us", "3.4 s" */
const char *time_text(double nanoseconds, char text[AMOUNT_TEXT]);
/* How long ago @time was; "?": it is yet to come, by the clock of another time namespace. */
const char *ago_text(uint64_t time, char text[AMOUNT_TEXT]);

#endif
