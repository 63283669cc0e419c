/* SPDX-License-Identifier: BSD-2-Clause */
/* An event of a QP is told and not acknowledged, which destroying the QP waits for: a hang. */
#include <fcntl.h>
#include <poll.h>

#include "tests/fuzzed/loop.h"

/* Whether one comes within a second, which a thread may be kept from a CPU for a part of. */
static bool tell_event(struct ibv_context *context)
{
	struct pollfd events = {.fd = context->async_fd, .events = POLLIN};
	struct ibv_async_event event;

	if (poll(&events, 1, 1000) != 1 || ibv_get_async_event(context, &event) != 0)
		return false;
	fprintf(stderr, "event: %s\n", ibv_event_type_str(event.event_type));
	return true;
}

int main(void)
{
	struct loop loop;
	bool ok = loop_open(&loop) && loop_exchange(&loop);

	if (loop.context && tell_event(loop.context))
		ok = false;
	return loop_close(&loop) && ok ? 0 : 1;
}
