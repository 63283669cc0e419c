/* SPDX-License-Identifier: BSD-2-Clause */
/* How long a thread keeps its CPU while others want it. Called by the progress thread. */
#ifndef URXE_VERBS_TIME_SLICE_H
#define URXE_VERBS_TIME_SLICE_H

/*
 * Have the calling thread run for shorter times, but sooner: when it is woken it gets the CPU from
 * a thread with longer ones at once (EEVDF, since Linux 6.12), rather than at the next tick of the
 * timer. Older kernels have slices of one length. Its priority and its share stay what they are.
 */
void time_slice_shorten(void);

#endif
