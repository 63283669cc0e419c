/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The port of a device, read from its network device at the time of asking.
 * For ibv_query_port() and sysfs, which have to agree.
 */
#ifndef URXE_VERBS_PORT_H
#define URXE_VERBS_PORT_H

#include <infiniband/verbs.h>
#include <stdbool.h>

struct device;

/*
 * Everything but max_msg_sz. Returns 0, or the errno of what kept us from asking, such as EMFILE;
 * @attr has what could be learned.
 */
int port_query(struct device *device, struct ibv_port_attr *attr);

/* Whether the network device is up and has a carrier. */
bool port_is_active(struct device *device);

/* Widths and speeds, as sysfs says them: "100 Gb/sec (4X EDR)". */
void port_rate_text(const struct ibv_port_attr *attr, char *text, size_t size);

#endif
