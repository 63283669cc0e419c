/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The language of URXE_FAULTS to a user: urxe-faults(7) describes it, net/fault/fault_clause.h has
 * it for engineers.
 */
#ifndef URXE_FAULTS_H
#define URXE_FAULTS_H

/* Dies when @specification, which messages call @whose, can't be read. NULL: there is none. */
void faults_check(const char *specification, const char *whose);

/* What "urxe help faults" shows, and the names in it: a line each. */
void faults_print_grammar(void);
void faults_print_opcodes(void);
void faults_print_calls(void);
void faults_print_work(void);
void faults_print_statuses(void);
void faults_print_events(void);
void faults_print_reasons(void);

#endif
