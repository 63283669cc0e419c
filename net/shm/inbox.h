/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The inbox of a link of shared memory: a file in /dev/shm, by which other members of the roster
 * tell it which rings they write for it (net/shm/ring.h), and that one of them has something new.
 * Its number is random and stands in the roster; so do files of a process that was killed and of
 * one that got its place in the roster never have one name.
 *
 * A process holds a lock on its inbox as long as it lives, and removes it at its exit. A link that
 * makes one removes the files whose inbox nothing has locked: those of dead processes. But not the
 * rings that a living process has in its inbox, and hasn't opened yet: what the dead sent last, an
 * acknowledgement perhaps, is in there.
 *
 * Called by net/shm: shm_send for the inboxes of others, shm and shm_receive for our own. No locks:
 * a sender writes the entry of its own member number only, the receiver clears it. What the file
 * says is another process's word, which may be anything: numbers to look a ring up by, and hints of
 * where something is. So all that is lost with what is written over it is time: once in SHM_CHECK
 * the receiver looks without hints, and a sender whose ring isn't open by then looks whether its
 * entry still stands.
 */
#ifndef URXE_NET_SHM_INBOX_H
#define URXE_NET_SHM_INBOX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "net/descriptor.h"
#include "net/share/roster.h"
#include "net/shm/ring.h"

#define SHM_DIRECTORY "/dev/shm"
#define SHM_PATH 128

/* Which ring of a member is to be opened: files are named by both numbers. */
struct inbox_entry {
	_Atomic uint64_t sender; /* the number of its inbox */
	_Atomic uint32_t ring;	 /* counted by the sender, from 1 on; 0: none */
};

#define INBOX_WORDS (ROSTER_MEMBERS / 64 + 1)

struct inbox_file {
	uint64_t size;
	/*
	 * The receiver sleeps: the number of its sleep, another one each time. A sender wakes it
	 * and then clears the number that it saw.
	 */
	_Alignas(CACHE_LINE) _Atomic uint32_t sleeping;
	/* The doorbell: a bit of the members that have rung, and whether any has. */
	_Alignas(CACHE_LINE) _Atomic uint32_t rung;
	_Atomic uint64_t members[INBOX_WORDS];
	_Alignas(CACHE_LINE) struct inbox_entry entries[ROSTER_MEMBERS + 1];
};

struct inbox {
	struct inbox_file *file; /* NULL: there is none */
	uint64_t number;
	int fd; /* with the lock; -1 */
	struct descriptor_identity identity;
	char directory[SHM_PATH / 2];
};

/* Make one, and sweep what dead processes left in @directory. Returns 0 or an errno. */
int inbox_create(struct inbox *inbox, const char *directory);
/* Remove its file, and the rings that weren't opened: no other process finds them. */
void inbox_unlink(const struct inbox *inbox);
void inbox_destroy(struct inbox *inbox);
void inbox_after_fork_child(struct inbox *inbox);

/* That of another member. NULL: it isn't there, or not safely ours. */
struct inbox_file *inbox_open(const char *directory, uint64_t number);
void inbox_close(struct inbox_file *file);

/* The name of a ring, counted by the sender whose inbox has the number @sender; 0: of the inbox. */
void shm_path(char path[SHM_PATH], const char *directory, uint64_t sender, uint32_t ring);

/* Ask the receiver to open a ring of @member's; whether that still stands there. */
void inbox_offer(struct inbox_file *file, uint32_t member, uint64_t sender, uint32_t ring);
bool inbox_is_offered(const struct inbox_file *file, uint32_t member, uint64_t sender,
		      uint32_t ring);
/* The receiver: which ring @member has for us to open; that it is open, or won't be. */
bool inbox_next_offer(const struct inbox_file *file, uint32_t member, uint64_t *sender,
		      uint32_t *ring);
void inbox_end_offer(struct inbox_file *file, uint32_t member, uint32_t ring);

/*
 * Say to the receiver that @member's ring has something new. Either the receiver sees that before
 * it sleeps, or what is read of the file from then on says that it sleeps.
 */
void inbox_ring_bell(struct inbox_file *file, uint32_t member);

/*
 * Whether a bell was rung; and whose, to be called until it returns 0. A member that found its bell
 * rung already, and left it so, had written before what is found in its ring from then on.
 */
static inline bool inbox_is_rung(const struct inbox_file *file)
{
	return atomic_load_explicit(&file->rung, memory_order_relaxed);
}

uint32_t inbox_next_rung(struct inbox_file *file);

#endif
