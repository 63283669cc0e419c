/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the process has one of: the configuration, our devices, the progress thread,
 * the capture file. Nothing happens before a program lists devices (or asks for one
 * of our paths): then the devices are made, and what is wrong with the configuration
 * is one line on stderr and leaves no devices.
 *
 * Configuration and devices are immutable once made. registry.lock protects the rest.
 */
#ifndef URXE_VERBS_REGISTRY_H
#define URXE_VERBS_REGISTRY_H

#include <stdbool.h>

#include "net/capture.h"
#include "verbs/configuration.h"
#include "verbs/progress.h"

struct device;

/* Reads the environment when first called. */
const struct configuration *registry_configuration(void);

static inline enum mode registry_mode(void)
{
	return registry_configuration()->mode;
}

/* Our devices, none in mode hw or with a bad configuration. Returns how many there are. */
unsigned int registry_devices(struct device **devices);
/* Whether they couldn't be made, which was logged. */
bool registry_failed(void);
struct device *registry_device(const char *name);

/* The progress thread and the capture file, shared by the open devices. 0 or an errno. */
int registry_acquire(struct progress **progress, struct capture **capture);
void registry_release(void);

#endif
