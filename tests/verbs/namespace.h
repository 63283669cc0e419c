/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A network namespace of the test's own, for tests that make network devices or change
 * what the machine's are like. An ordinary user may, where user namespaces are allowed.
 */
#ifndef URXE_TESTS_NAMESPACE_H
#define URXE_TESTS_NAMESPACE_H

#include <stdbool.h>

#define SKIPPED 77 /* what main() returns for meson to say so */

/*
 * Before there are threads. The user is root in there; nothing is in it but a loopback device that
 * is down. False if it isn't permitted, which is said on stdout.
 */
bool namespace_enter(void);

/* The command of iproute2, which has to succeed. */
void ip(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The kernel takes note of the carrier of a network device that is up a little later. */
void wait_until_running(const char *name);

/*
 * An IPv6 address can be bound as soon as it was added, but the route by which what is sent to it
 * stays here follows a little later.
 */
void wait_until_local(const char *address);

/* Two network devices that are up, and have no addresses, link-local ones included; @name runs. */
void make_veth(const char *name, const char *peer);

bool write_file(const char *path, const char *text);

#endif
