/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion channels, to those that put events into them or end them: the rest of verbs/channel.c
 * are verbs (verbs/ours.h). The core's events come by verbs/event.c, in any thread; a channel's
 * queue has its own lock (verbs/event_fd.h), the list of a device's channels is under
 * device.contexts_lock.
 */
#ifndef URXE_VERBS_CHANNEL_H
#define URXE_VERBS_CHANNEL_H

#include <infiniband/verbs.h>
#include <stdbool.h>

struct device;

struct event_fd *channel_events(struct ibv_comp_channel *channel);

/* Nothing completes on @device any more: to wait for events of it fails with EIO. */
void channel_end_all(struct device *device);

/*
 * Whether the thread that will wait for the next event of @channel is likely to make progress
 * itself meanwhile, so that the progress thread needn't. If it doesn't, that finds out with its
 * next tick.
 */
bool channel_is_polled(struct ibv_comp_channel *channel);

#endif
