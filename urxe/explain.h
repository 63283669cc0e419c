/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The catalogue of causes as a document: "urxe explain --markdown" writes docs/errors.md.
 */
#ifndef URXE_EXPLAIN_H
#define URXE_EXPLAIN_H

void explain_markdown(void);

#endif
