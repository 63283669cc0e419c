/* SPDX-License-Identifier: BSD-2-Clause */
#include "own_network.h"

#include <unistd.h>

#include "net/share/roster.h"
#include "tests/verbs/namespace.h"

static void bring_up_loopback(void)
{
	ip("link set lo up");
}

/* No other process is in this namespace, nor will be. */
static void remove_roster(void)
{
	char path[ROSTER_PATH_SIZE];

	if (roster_usual_path(path) == 0)
		unlink(path);
}

void own_network_enter(TCase *tests)
{
	if (namespace_enter())
		tcase_add_unchecked_fixture(tests, bring_up_loopback, remove_roster);
}
