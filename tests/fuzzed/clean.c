/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Nothing is wrong: it checks each call, completion and event, and destroys what it has made.
 */
#include <fcntl.h>

#include "tests/fuzzed/loop.h"

/* Whether an event has come after which no completion may. */
static bool has_failed(struct ibv_context *context)
{
	struct ibv_async_event event;
	bool failed = false;

	while (ibv_get_async_event(context, &event) == 0) {
		failed |= event.event_type == IBV_EVENT_CQ_ERR ||
			  event.event_type == IBV_EVENT_QP_FATAL ||
			  event.event_type == IBV_EVENT_DEVICE_FATAL;
		ibv_ack_async_event(&event);
	}
	return failed || errno != EAGAIN;
}

static bool wait_for_success(struct loop *loop)
{
	struct ibv_wc wc;
	int count;

	while ((count = ibv_poll_cq(loop->cq, 1, &wc)) == 0) {
		if (has_failed(loop->context))
			return false;
		usleep(2000);
	}
	return count == 1 && wc.status == IBV_WC_SUCCESS;
}

static bool exchange(struct loop *loop)
{
	return loop_receive(loop) == 0 && loop_send(loop) == 0 && wait_for_success(loop) &&
	       wait_for_success(loop);
}

int main(void)
{
	struct loop loop;
	bool ok = loop_open(&loop) && fcntl(loop.context->async_fd, F_SETFL, O_NONBLOCK) == 0 &&
		  exchange(&loop) && exchange(&loop);

	return loop_close(&loop) && ok ? 0 : 1;
}
