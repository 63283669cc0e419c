/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The constants of queue pairs in words, for what is said of a failure (net/cause/cause.h) and for
 * the program urxe. Called by any thread, without state.
 */
#ifndef URXE_NET_QP_TEXT_H
#define URXE_NET_QP_TEXT_H

#include <infiniband/verbs.h>

#include "net/cause/words.h"

/* "RTR"; "unknown" for what is no state. */
const char *qp_state_text(enum ibv_qp_state state);
/* "ARMED"; "unknown" for what is no state of path migration. */
const char *qp_mig_state_text(enum ibv_mig_state state);
/* "XRC_SEND"; "unknown" for what is no type. */
const char *qp_type_text(enum ibv_qp_type type);
/* "IBV_QP_AV | IBV_QP_DEST_QPN": the bits of ibv_modify_qp(). Returns @text. */
const char *qp_attributes_text(unsigned int mask, char text[BITS_TEXT]);

#endif
