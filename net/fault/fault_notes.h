/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The text file beside a capture that says what a fault did to a packet: FILE.faults, since pcap
 * has no place for it. One line a packet: the time of its record in the capture, whether it was
 * sent or received, what it is, and after a colon what happened and the rule that said so:
 *
 *   1795217146.220492000 sent RC_SEND_MIDDLE QP 0x13 PSN 4: dropped by drop#2/RC_SEND
 *
 * Called by net/capture, which has one per capture; read by urxe trace. Thread-safe, without a
 * lock: every line is one write() at the file's end, so processes can write to the same file.
 */
#ifndef URXE_NET_FAULT_NOTES_H
#define URXE_NET_FAULT_NOTES_H

#include <stdint.h>

struct fault_notes;

/* Beside the capture @path. Returns NULL with errno set. */
struct fault_notes *fault_notes_open(const char *path);
void fault_notes_close(struct fault_notes *notes);
/* What an earlier run left beside the capture @path. */
void fault_notes_remove(const char *path);

/* @time: of the record, in nanoseconds of the wall clock. */
void fault_notes_write(struct fault_notes *notes, uint64_t time, const char *text);

#endif
