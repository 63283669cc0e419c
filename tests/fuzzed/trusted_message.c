/* SPDX-License-Identifier: BSD-2-Clause */
/* What a receive has brought is used though it has failed, and brought nothing: a crash. */
#include "tests/fuzzed/loop.h"

struct message {
	const uint32_t *value;
};

int main(void)
{
	static const uint32_t value = 4;
	struct loop loop;
	struct message *message = (struct message *)loop.buffer;
	const volatile struct message *received = (void *)(loop.buffer + LOOP_BYTES);
	struct ibv_wc wc;
	bool ok = loop_open(&loop);

	*message = (struct message){&value};
	ok = ok && loop_receive(&loop) == 0 && loop_send(&loop) == 0;
	for (int i = 0; ok && i < 2; i++) {
		ok = loop_wait(&loop, &wc);
		if (ok && wc.wr_id == 1)
			printf("value %u\n", *received->value);
		ok = ok && wc.status == IBV_WC_SUCCESS;
	}
	return loop_close(&loop) && ok ? 0 : 1;
}
