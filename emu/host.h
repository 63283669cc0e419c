/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the core asks of the machine that it runs on, beside its link and the time.
 * Given with struct hca_options, so that a simulation answers in the machine's place.
 *
 * Called by any thread, with locks held: an answer may take a while, but never waits
 * for the HCA.
 */
#ifndef URXE_EMU_HOST_H
#define URXE_EMU_HOST_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gid_entry;
union ibv_gid;

struct hca_host {
	/* Let another thread have the CPU: the caller waits for what that thread does. */
	void (*yield)(void);

	/* A power of two; offsets into pages are the same for an address and its IOVA. */
	size_t (*page_size)(void);

	/*
	 * 0 when every byte of @length at @addr is mapped and can be read (and, with
	 * @write, written), else EFAULT. For hardware, pinning finds this out.
	 */
	int (*check_memory)(const void *addr, size_t length, bool write);

	/*
	 * 0, or ENETUNREACH or EHOSTUNREACH where the machine has no route from @source to
	 * @destination, which is no group. NULL: every address has one.
	 */
	int (*check_route)(const struct gid_entry *source, const union ibv_gid *destination);

	/*
	 * Take @lock at the end of the process, when its holder may be a thread that is
	 * gone. False when it wasn't to be had for a while.
	 */
	bool (*lock_at_exit)(pthread_mutex_t *lock);

	/* Wake the threads that sleep until *@word changes. */
	void (*wake)(const _Atomic uint32_t *word);
};

#endif
