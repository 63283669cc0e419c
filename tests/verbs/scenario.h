/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a program does from its beginning to its end, for tests that take something from it:
 * memory, descriptors. Each call may fail with an errno, and then everything that was made is
 * destroyed. What a call says wrongly, or what is waited for in vain, ends the test.
 */
#ifndef URXE_TESTS_SCENARIO_H
#define URXE_TESTS_SCENARIO_H

/* A device, each kind of object, all queries, and data by each kind of request. 0 or an errno. */
int scenario_verbs(void);

/* A connection of librdmacm with itself, and data over it. 0 or an errno. */
int scenario_manager(void);

/* rsockets: a stream between two of them, with a mapping, and datagrams. 0 or an errno. */
int scenario_sockets(void);

#endif
