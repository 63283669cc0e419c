/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An application that posts, polls until that has completed, and then waits for its memory to
 * change without polling: what comes meanwhile has to wait for the progress thread, which has to
 * wait for a CPU, since those of the machine may all have threads that spin like this one. So
 * where that was seen, the poll that finds the completion doesn't return at once, but receives
 * for a while. What is lost of a ping-pong then costs what it takes the peer to send it again.
 *
 * An application that computes in between, instead of waiting, loses that time: so each one in vain
 * is followed by twice as many that aren't done.
 */
#include "net/tuning.h"
#include "verbs/progress_internal.h"

bool progress_awaits(struct progress_client *client)
{
	unsigned int pauses = atomic_load_explicit(&client->await_pauses, memory_order_relaxed);

	if (!progress_is_neglected_now(client))
		return false;
	if (pauses)
		atomic_store_explicit(&client->await_pauses, pauses - 1, memory_order_relaxed);
	return !pauses;
}

/* What took long would have been neglected: the application still waits without polling. */
void progress_awaited(struct progress_client *client, uint64_t passed, bool came)
{
	unsigned int paused = atomic_load_explicit(&client->await_paused, memory_order_relaxed);

	paused = came ? 0 : paused < PROGRESS_AWAIT_PAUSES ? 2 * paused + 1 : paused;
	atomic_store_explicit(&client->await_paused, paused, memory_order_relaxed);
	atomic_store_explicit(&client->await_pauses, paused, memory_order_relaxed);
	if (came && passed > PROGRESS_AWAIT_LONG)
		atomic_store(&client->neglected_until, clock_now() + PROGRESS_NEGLECT_FOR);
}
