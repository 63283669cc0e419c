/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the processes of this user show of themselves (net/observe/record.h), in this network
 * namespace. For the program urxe, and for a requester whose peer on this machine doesn't answer.
 *
 * Each file is copied at once, so nothing changes under the caller, and no process can truncate
 * what is being read. All in it may be any bytes; but what these functions return is within its
 * bounds, and strings end. No state, no locks; a caller's own file is read as the others are.
 */
#ifndef URXE_NET_OBSERVE_READER_H
#define URXE_NET_OBSERVE_READER_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "net/observe/record.h"

enum observed_state {
	OBSERVED_RUNNING,
	OBSERVED_STOPPED, /* by a signal or a debugger */
	OBSERVED_ENDED,
};

/* "running", "stopped", "ended" */
const char *observed_state_name(enum observed_state state);

struct observed {
	struct observe_header header;
	enum observed_state state;
	uint8_t *blocks; /* the copy */
	unsigned int block_count;
	char path[512];
	struct observed *next; /* utlist */
};

struct observed_options {
	const char *directory; /* NULL: OBSERVE_DIRECTORY */
	const char *session;   /* only those of this `urxe stat`; NULL: all */
	bool all_namespaces;
	bool ended; /* those that have ended, too */
	/*
	 * Called for each file that is left out for its version, for want of a descriptor, or
	 * because it can't be one; may be NULL.
	 */
	void (*left_out)(void *context, const char *path, const char *why);
	void *context;
};

/* Sorted by process id. Returns 0 or an errno of opening the directory; ENOMEM. */
int observed_read(const struct observed_options *options, struct observed **processes);
void observed_free(struct observed *processes);

/* The record of @kind behind @previous (NULL: the first one), or NULL. */
const void *observed_next(const struct observed *process, enum observe_kind kind,
			  const void *previous);
/* The device with @id, or NULL. */
const struct observe_device *observed_device(const struct observed *process, uint32_t id);

/* What is known of a queue pair of this machine. */
struct observed_qp {
	pid_t pid;
	char command[OBSERVE_COMMAND];
	enum observed_state process;
	struct observe_qp qp; /* of a process that has ended: as it was then */
};

/*
 * The QP with number @qpn at address @gid, of any process of this user and network namespace, this
 * one included. False: none has it, as far as can be seen: it was destroyed, its process has ended
 * in good order or is another user's, or it isn't on this machine. Reads a file for each process:
 * some milliseconds.
 */
bool observe_find_qp(const union ibv_gid *gid, uint32_t qpn, struct observed_qp *found);

#endif
