/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether a descriptor of ours still is what we opened. Applications close descriptors that
 * aren't theirs: closefrom(), close_range(), a loop in a daemon, a close() too many. What they
 * open next gets the numbers, and what we wrote to such a number, read from it or closed would be
 * theirs. So the file behind the number is compared, by device and inode.
 *
 * Sockets and pipes each have an inode of their own. Eventfds and epolls share one with all their
 * kind: of them it is only known that the number doesn't stand for a file, socket or pipe.
 *
 * Called by whatever opens descriptors that it keeps. Not on each use in the data path, for it
 * costs as much as an empty read.
 */
#ifndef URXE_NET_DESCRIPTOR_H
#define URXE_NET_DESCRIPTOR_H

#include <errno.h>
#include <stdbool.h>
#include <sys/types.h>

/* There is nothing left to open one with, which says nothing of what was to be opened. */
static inline bool descriptor_is_exhaustion(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOMEM;
}

struct descriptor_identity {
	dev_t device;
	ino_t inode;
};

/* Whether both are of the same file. */
static inline bool descriptor_same(const struct descriptor_identity *a,
				   const struct descriptor_identity *b)
{
	return a->device == b->device && a->inode == b->inode;
}

/* Of @fd, which is open; of what isn't: one that no descriptor has. */
struct descriptor_identity descriptor_identify(int fd);
bool descriptor_is(int fd, const struct descriptor_identity *identity);

/*
 * If *@fd isn't ours any more, make it -1: calls with it fail from then on. Returns false if so.
 * Any thread may do so; a thread that closes *@fd makes it -1 before.
 */
bool descriptor_verify(int *fd, const struct descriptor_identity *identity);

/* To be used: *@fd as it is, while another thread may make it -1. */
static inline int descriptor_number(const int *fd)
{
	return __atomic_load_n(fd, __ATOMIC_RELAXED);
}

/* To be closed: *@fd as it was, which is -1 from now on. */
static inline int descriptor_take(int *fd)
{
	return __atomic_exchange_n(fd, -1, __ATOMIC_RELAXED);
}

/* Close @fd if it still is what it was. */
void descriptor_close(int fd, const struct descriptor_identity *identity);

/*
 * Of what was opened: @fd, or another number for it where the application has closed its stdin,
 * stdout or stderr. What is printed there, our log too, would else be written to a file or a socket
 * of ours, and a daemon that opens them again would close it. -1 with errno: there is none, or @fd
 * is -1.
 */
int descriptor_above_standard(int fd);

#endif
