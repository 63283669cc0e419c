/* SPDX-License-Identifier: BSD-2-Clause */
/* For tests that bind addresses: a network of the test's own. */
#ifndef URXE_TESTS_UNIT_OWN_NETWORK_H
#define URXE_TESTS_UNIT_OWN_NETWORK_H

#include <check.h>

/*
 * In main(): the tests have a network of their own where that is permitted. Otherwise the roster,
 * and addresses, are also those of other processes of the user, of this very program for instance.
 * An ordinary user is root in it.
 */
void own_network_enter(TCase *tests);

#endif
