/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the CQ can't be created, the buffer is freed, and by the caller once more: a crash. */
#include "tests/fuzzed/loop.h"

struct queue {
	char *buffer;
	struct ibv_cq *cq;
};

static bool queue_open(struct queue *queue, struct ibv_context *context)
{
	queue->buffer = malloc(LOOP_BYTES);
	if (!queue->buffer)
		return false;
	queue->cq = ibv_create_cq(context, 4, NULL, NULL, 0);
	if (queue->cq)
		return true;
	free(queue->buffer);
	return false;
}

static bool queue_close(struct queue *queue)
{
	bool ok = !queue->cq || ibv_destroy_cq(queue->cq) == 0;

	free(queue->buffer);
	return ok;
}

int main(void)
{
	struct queue queue = {};
	struct loop loop;
	bool ok = loop_open(&loop) && queue_open(&queue, loop.context) && loop_exchange(&loop);

	ok &= queue_close(&queue);
	return loop_close(&loop) && ok ? 0 : 1;
}
