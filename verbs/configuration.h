/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the environment says. Read once, by the registry, at the first call that
 * needs any of it: a program may set variables in main() before its first verbs
 * call (or before it loads libibverbs by name), and may change its environment later
 * without effect. A forked child keeps the configuration of its parent.
 *
 *   URXE_MODE     emu (default): our devices; hw: the real ones; both
 *   URXE_NODE     addresses of the one device urxe0, "127.0.0.2,fd00::2"
 *   URXE_DEVICES  several devices instead, "rail0=10.0.0.1;rail1=10.0.1.1,fd00::1"
 *                 ('/' in either: of the second port, "10.0.0.1/10.0.1.1")
 *   URXE_PCAP     capture file; "%p" becomes the process id
 *   URXE_FAULTS   faults to inject: urxe-faults(7), net/fault/fault_clause.h
 *   URXE_PROFILE  the card that devices are like (verbs/profile.h)
 *   URXE_STAT     measure latencies, and keep all figures for the `urxe stat` that has this name
 *   URXE_CALLS    the file in which `urxe fuzz` has calls counted (net/fault/call_counts.h)
 *   URXE_LOG      error, warn (default), info, debug
 *   URXE_EXPLAIN  1: a paragraph about each failure (net/cause/cause.h)
 *   URXE_CHECK    1, or options: a sanitizer for verbs (verbs/check/options.h)
 *   URXE_LINK     udp (default), or shm: memory between processes of one machine (net/shm/shm.h)
 *   URXE_ICRC     always: computed and checked there, too
 *   URXE_RCVBUF   bytes of socket buffer, with K or M
 *   URXE_NO_GSO   1: one datagram per system call, for wire-exact captures
 *
 * Empty is the same as unset. Of other variables: SYSFS_PATH, RDMAV_FORK_SAFE and IBV_FORK_SAFE,
 * which are rdma-core's, and XDG_RUNTIME_DIR and TMPDIR, where files may be put.
 *
 * Reading says nothing: a value that can't be read is told by configuration.error,
 * other variables that begin with URXE_ (a name misspelt) by configuration.unknown.
 * Both are logged when a program asks for devices (verbs/devices.c).
 */
#ifndef URXE_VERBS_CONFIGURATION_H
#define URXE_VERBS_CONFIGURATION_H

#include <stdbool.h>

#include "net/log.h"
#include "verbs/check/options.h"

struct profile;

enum mode { MODE_EMU, MODE_HW, MODE_BOTH };

/* Immutable once read; strings are NULL where the variable is unset. */
struct configuration {
	enum mode mode;
	enum log_level log_level;
	bool explain;
	struct check_options check;
	const char *node;    /* a list of addresses */
	const char *devices; /* names with lists of addresses; not together with node */
	const char *pcap;
	const char *faults;
	const char *stat;
	const char *calls;
	const struct profile *profile; /* the default where the variable is unset; never freed */
	unsigned int receive_buffer;   /* 0: the default */
	bool segmentation;
	bool shared_memory, icrc;
	bool fork_safe;		/* RDMAV_FORK_SAFE: libibverbs calls ibv_fork_init() itself */
	bool forks_rsockets;	/* RDMAV_FORK_SAFE=1: librspreload expects servers that fork */
	const char *sysfs_path; /* without slashes at its end */
	const char *runtime_directory, *temporary_directory;
	const char *error;   /* what is wrong with the first value that can't be read, or NULL */
	const char *unknown; /* names of URXE_ variables that mean nothing to us, or NULL */
};

/* The only caller of getenv(). */
void configuration_read(struct configuration *configuration);

#endif
