/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The counters of a device by name, as urxe_counters() has them (verbs/api.c), for sysfs. Any
 * thread may call this, which takes device.lock.
 */
#ifndef URXE_VERBS_COUNTERS_H
#define URXE_VERBS_COUNTERS_H

#include "include/urxe.h"

struct port;

#define COUNTERS_MAX 64

/*
 * What the device of @port counts; of what is counted by port, that of @port. Returns how many
 * there are.
 */
unsigned int device_port_counters(struct port *port, struct urxe_counter counters[COUNTERS_MAX]);

#endif
