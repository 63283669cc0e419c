/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The one global of the process: configuration from the environment, our
 * devices, the progress thread, the capture file. Nothing happens before a
 * program lists devices (or asks for one of our paths); a value of the
 * environment that can't be read is one line on stderr and leaves no devices.
 *
 *   URXE_MODE     emu (default): our devices; hw: the real ones; both
 *   URXE_NODE     addresses of the one device urxe0, "127.0.0.2,fd00::2"
 *   URXE_DEVICES  several devices instead, "rail0=10.0.0.1;rail1=10.0.1.1,fd00::1"
 *   URXE_PCAP     capture file; "%p" becomes the process id
 *   URXE_FAULTS   see net/fault/fault.h
 *   URXE_LOG      error, warn (default), info, debug
 *   URXE_RCVBUF   bytes of socket buffer, with K or M
 *   URXE_NO_GSO   1: one datagram a system call, for wire-exact captures
 *
 * The configuration is immutable once read. registry.lock protects the rest.
 */
#ifndef URXE_VERBS_REGISTRY_H
#define URXE_VERBS_REGISTRY_H

#include <stdbool.h>

#include "net/capture.h"
#include "verbs/progress.h"

struct device;

enum mode { MODE_EMU, MODE_HW, MODE_BOTH };

struct configuration {
	enum mode mode;
	const char *pcap;
	const char *faults;
	unsigned int receive_buffer;
	bool segmentation;
	bool bad; /* something could not be read, and was reported */
};

/* Reads the environment when first called. */
const struct configuration *registry_configuration(void);

/* What URXE_MODE says, without reading or reporting anything else. */
enum mode registry_mode(void);

/* Our devices, none in mode hw or with a bad configuration. Returns how many there are. */
unsigned int registry_devices(struct device **devices);
struct device *registry_device(const char *name);

/* The progress thread and the capture file, shared by the open devices. 0 or an errno. */
int registry_acquire(struct progress **progress, struct capture **capture);
void registry_release(void);

#endif
