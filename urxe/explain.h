/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What other commands use of "urxe explain", and the catalogue of causes as a document: "urxe
 * explain --markdown" writes docs/errors.md.
 */
#ifndef URXE_EXPLAIN_H
#define URXE_EXPLAIN_H

void explain_markdown(void);

#endif
