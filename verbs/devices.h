/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The devices of the process, as the configuration names them. They are made when a
 * program first lists devices or asks for one of our paths: what is wrong with the
 * configuration is then one line on stderr and leaves no devices.
 *
 * Called by any thread. The table is immutable once made; a forked child has the
 * same devices as its parent, none of them open.
 */
#ifndef URXE_VERBS_DEVICES_H
#define URXE_VERBS_DEVICES_H

#include <stdbool.h>

#include "verbs/device.h"

/* Our devices, none in mode hw or if they couldn't be made. Returns how many there are. */
unsigned int devices_all(struct device **devices);
struct device *devices_find(const char *name);
/* Whether they couldn't be made, which was logged. */
bool devices_failed(void);

#endif
