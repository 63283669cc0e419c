/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The language of URXE_FAULTS to a user: net/fault/fault.h has it for engineers.
 */
#ifndef URXE_FAULTS_H
#define URXE_FAULTS_H

/* Dies when URXE_FAULTS can't be read. */
void faults_check(void);

/* What "urxe help faults" shows. */
extern const char faults_help[];

#endif
