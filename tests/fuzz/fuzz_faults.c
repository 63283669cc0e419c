/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fault specifications. One that can be read gets some packets to act on, in
 * both directions, and is asked of everything else; one that can't names a place within itself.
 */
#include "input.h"
#include "net/fault/fault.h"
#include "net/fault/injector.h"
#include "net/wire/mad.h"

#define PACKETS 8

static const uint8_t bytes[] = {WIRE_RC | WIRE_SEND_ONLY,
				0,
				0xff,
				0xff,
				0,
				0,
				0,
				17,
				0,
				0,
				0,
				1,
				'd',
				'a',
				't',
				'a',
				0,
				0,
				0,
				0};

static struct path path;
static unsigned int given; /* frames, by receive() */

static unsigned int end_send(struct link *link, struct link_packet *packets, unsigned int count,
			     uint64_t now)
{
	for (unsigned int i = 0; i < count; i++) {
		must(packets[i].path && packets[i].headers_length == sizeof(struct bth));
		must(packets[i].payload_length == 4 && packets[i].payload_count == 1);
		must(memcmp(packets[i].payload[0].iov_base, "data", 4) == 0);
	}
	return 0;
}

static unsigned int end_receive(struct link *link, struct link_frame *frames, unsigned int max,
				uint64_t now)
{
	unsigned int count = 0;

	for (; count < max && given < PACKETS; count++, given++)
		frames[count] = (struct link_frame){.data = bytes, .length = sizeof(bytes)};
	return count;
}

static uint64_t end_deadline(struct link *link)
{
	return TIME_NEVER;
}

static void end_close(struct link *link)
{
}

static const struct link_ops end_ops = {
	.send = end_send,
	.receive = end_receive,
	.deadline = end_deadline,
	.close = end_close,
};
static struct link end = {&end_ops};

static void send_packets(struct link *link, uint64_t now)
{
	static const struct iovec data = {(void *)"data", 4};
	struct link_packet packets[PACKETS];

	for (unsigned int i = 0; i < PACKETS; i++) {
		packets[i] = (struct link_packet){
			.path = &path,
			.payload = &data,
			.payload_length = 4,
			.payload_count = 1,
			.headers_length = sizeof(struct bth),
			.trailer_length = ICRC_LENGTH,
		};
		memcpy(packets[i].headers, bytes, sizeof(struct bth));
	}
	link->ops->send(link, packets, PACKETS, now);
}

static void receive_frames(struct link *link, uint64_t now)
{
	struct link_frame frames[3];
	unsigned int count;

	given = 0;
	while ((count = link->ops->receive(link, frames, 3, now)) > 0)
		for (unsigned int i = 0; i < count; i++)
			must(frames[i].length == sizeof(bytes));
}

static void ask(const char *specification)
{
	struct fault_hit hit = {};
	struct injector injector;

	injector_init(&injector);
	must(injector_set(&injector, specification, NULL) == 0);
	for (unsigned int i = 0; i < PACKETS; i++) {
		must(injector_call(&injector, i % FAULT_CALLS, &hit) >= 0);
		injector_complete(&injector, i, i, &hit);
		injector_late(&injector, FAULT_WORK_RECV, i, &hit);
		injector_message(&injector, &injector, i, 17);
		injector_cm(&injector, CM_REQ + i, &hit);
		injector_coalesce(&injector, &hit);
		injector_spurious(&injector, &hit);
		while (injector_due(&injector, &injector, i * 1000000000ull, &hit))
			must(hit.action < ACTIONS && strlen(hit.clause) < sizeof(hit.clause));
		must(injector_deadline(&injector) > 0);
	}
	injector_destroy(&injector);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *specification = malloc(size + 1);
	struct fault_error error = {};
	struct link *link;
	uint64_t now = 0;

	must(specification);
	memcpy(specification, data, size);
	specification[size] = '\0';
	if (fault_link_create(&end, specification, &link, &error) != 0) {
		must(error.place >= specification &&
		     error.place <= specification + strlen(specification));
		must(error.expected && *error.expected);
	} else {
		for (unsigned int i = 0; i < 3; i++) {
			send_packets(link, now);
			receive_frames(link, now);
			now = link->ops->deadline(link);
			if (now == TIME_NEVER)
				break;
		}
		link->ops->close(link);
		ask(specification);
	}
	free(specification);
	return 0;
}
