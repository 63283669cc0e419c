/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The counters of a device by name, for urxe_counters() and sysfs. Any thread may call these, which
 * take device.lock. They are in verbs/api.c.
 */
#ifndef URXE_VERBS_COUNTERS_H
#define URXE_VERBS_COUNTERS_H

#include "include/urxe.h"

struct device;
struct port;

#define COUNTERS_MAX 64

/* Fills up to @max; returns how many there are, at most COUNTERS_MAX. */
unsigned int device_counters(struct device *device, struct urxe_counter *counters,
			     unsigned int max);

/* The same, with what is counted by port that of @port. */
unsigned int device_port_counters(struct port *port, struct urxe_counter *counters,
				  unsigned int max);

#endif
