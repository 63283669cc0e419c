/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The steering program: in libpcap's interpreter for every slot, and in the
 * kernel for real sockets.
 */
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <pcap/pcap.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/share/slot.h"
#include "net/share/steer.h"
#include "net/wire/mad.h"
#include "net/wire/wire.h"
#include "own_network.h"
#include "tests/must.h"
#include "tests/run_suite.h"

#define SECRET 0x0123456789abcdefu
#define ADDRESS 0x7f4d0202 /* 127.77.2.2 */
#define SOCKETS 64

static struct sock_filter code[STEER_PROGRAM_MAX];
static struct steer_plan plan = {.secret = SECRET, .sockets = SOCKETS};
static uint8_t packet[320];

static void make_packet(uint32_t qpn)
{
	struct bth bth = {.opcode = WIRE_RC | WIRE_SEND_ONLY,
			  .dest_qp = htobe32(0xc0000000 | qpn)}; /* FECN and BECN */

	memset(packet, 0, sizeof(packet));
	memcpy(packet, &bth, sizeof(bth));
}

static void make_signal(uint64_t secret, uint32_t index)
{
	struct steer_signal signal;

	memset(packet, 0, sizeof(packet));
	steer_fill(&signal, secret, index);
	memcpy(packet, &signal, sizeof(signal));
}

/* struct bpf_insn and struct sock_filter are the same. */
static uint32_t run(uint32_t length)
{
	const struct bpf_program program = {.bf_len = STEER_PROGRAM_MAX,
					    .bf_insns = (struct bpf_insn *)code};
	const struct pcap_pkthdr header = {.caplen = length, .len = length};

	return pcap_offline_filter(&program, &header, packet);
}

static uint32_t expected(uint32_t slot)
{
	for (unsigned int i = 0; i < plan.range_count; i++) {
		if (plan.ranges[i].first <= slot && slot <= plan.ranges[i].last)
			return plan.ranges[i].index;
	}
	return UINT32_MAX;
}

/* What steer_target() says of the packet leads to the same socket. */
static void check_target(uint32_t length)
{
	const struct steer_target target = steer_target(packet, length);

	ck_assert(!target.request);
	ck_assert_uint_eq(run(length), expected(target.slot));
}

static void check_all(void)
{
	unsigned int length = steer_program(&plan, code);

	ck_assert_uint_le(length, STEER_PROGRAM_MAX);
	ck_assert_int_eq(bpf_validate((const struct bpf_insn *)code, length), 1);
	for (uint32_t slot = 1; slot < SLOTS; slot++) {
		make_packet(slot << SLOT_QPN_BITS | (slot & 1 ? 0xfff : 0));
		must(run(sizeof(packet)) == expected(slot));
		check_target(sizeof(packet));
	}
}

/* Narrow ranges, and such that touch each other. */
START_TEST(slots_find_their_socket)
{
	static const unsigned int counts[] = {0, 1, 2, 3, 7, 100, 129, STEER_RANGES_MAX};
	unsigned int count = counts[_i], step = count ? (SLOTS - 2) / count : 1;

	plan.range_count = count;
	plan.service_count = _i * STEER_SERVICES_MAX / 7;
	for (unsigned int width = 1; width <= step; width += step > 1 ? step - 1 : 1) {
		for (unsigned int i = 0; i < count; i++)
			plan.ranges[i] = (struct steer_range){1 + i * step, i * step + width,
							      (i * 37 + 5) % SOCKETS};
		check_all();
	}
}
END_TEST

START_TEST(signals_find_their_socket)
{
	plan.ranges[0] = (struct steer_range){1, SLOTS - 2, 9};
	plan.range_count = 1;
	steer_program(&plan, code);
	for (uint32_t index = 0; index < 70; index++) {
		make_signal(SECRET, index);
		ck_assert_uint_eq(run(sizeof(struct steer_signal)), index);
		make_signal(SECRET ^ 1, index);
		ck_assert_uint_eq(run(sizeof(struct steer_signal)), 9);
		make_signal(SECRET ^ 1ull << 63, index);
		ck_assert_uint_eq(run(sizeof(struct steer_signal)), 9);
	}
	/* Too short for any header: the program ends with 0. */
	make_packet(0x123456);
	for (uint32_t length = 0; length < 8; length++)
		ck_assert_uint_eq(run(length), 0);
}
END_TEST

/* Answers of the connection manager go by the comm id that the request came from. */
START_TEST(mads_find_their_socket)
{
	static const struct {
		uint16_t attribute;
		uint32_t index;
	} cases[] = {
		{0x11, 6}, /* MRA */
		{0x12, 6}, /* REJ */
		{0x13, 6}, /* REP */
		{0x14, 6}, /* RTU */
		{0x15, 6}, /* DREQ */
		{0x16, 6}, /* DREP */
		{0x18, 5}, /* SIDR_REP */
		{0x19, 6}, /* LAP */
	};
	const __be32 ids[] = {htobe32(0x123fffff), htobe32(0x45600000)};

	plan.ranges[0] = (struct steer_range){0x123, 0x123, 5};
	plan.ranges[1] = (struct steer_range){0x456, 0x456, 6};
	plan.range_count = 2;
	for (unsigned int i = 0; i < STEER_SERVICES_MAX; i++)
		plan.services[i] = (struct steer_service){0x01060000 + i, i + 10};
	plan.service_count = STEER_SERVICES_MAX;
	steer_program(&plan, code);
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		make_packet(1);
		packet[20 + 17] = cases[i].attribute;
		memcpy(packet + 20 + 24, ids, sizeof(ids));
		ck_assert_uint_eq(run(sizeof(packet)), cases[i].index);
		check_target(sizeof(packet));
	}
	packet[20 + 28]++;
	ck_assert_uint_eq(run(sizeof(packet)), UINT32_MAX);
	check_target(sizeof(packet));

	for (unsigned int i = 0; i < 2 * STEER_SERVICES_MAX; i++) {
		const __be64 service_id = htobe64(0x01060000 + i / 2);

		make_packet(1);
		packet[20 + 17] = i & 1 ? 0x10 : 0x17;
		memcpy(packet + 20 + 24 + 8, &service_id, sizeof(service_id));
		ck_assert_uint_eq(run(sizeof(packet)), i / 2 + 10);
		ck_assert(steer_target(packet, sizeof(packet)).request);
		ck_assert_uint_eq(steer_target(packet, sizeof(packet)).service_id,
				  0x01060000 + i / 2);
	}
}
END_TEST

/* Nothing is read behind the end. */
START_TEST(short_packets_have_no_target)
{
	make_packet(0x123456);
	for (uint32_t length = 0; length < sizeof(struct bth); length++)
		ck_assert_uint_eq(steer_target(packet, length).slot, 0);
	ck_assert_uint_eq(steer_target(packet, sizeof(struct bth)).slot, 0x123);
	make_packet(1);
	packet[20 + 17] = 0x15;
	packet[20 + 28] = 0x12;
	for (uint32_t length = 0; length < 20 + MAD_LENGTH; length++)
		ck_assert_uint_eq(steer_target(packet, length).slot, 0);
	ck_assert_uint_eq(steer_target(packet, 20 + MAD_LENGTH).slot, 0x120);
}
END_TEST

/* --- in the kernel --------------------------------------------------------------------- */

static int sockets[SOCKETS], sender;

static struct sockaddr_in address_of(void)
{
	return (struct sockaddr_in){.sin_family = AF_INET,
				    .sin_port = htons(ROCE_V2_UDP_PORT),
				    .sin_addr.s_addr = htonl(ADDRESS)};
}

static void open_sockets(void)
{
	struct sockaddr_in address = address_of();
	int on = 1;

	for (int i = 0; i < SOCKETS; i++) {
		sockets[i] = socket(AF_INET, SOCK_DGRAM, 0);
		ck_assert_int_eq(setsockopt(sockets[i], SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)),
				 0);
		ck_assert_int_eq(bind(sockets[i], (struct sockaddr *)&address, sizeof(address)), 0);
	}
	sender = socket(AF_INET, SOCK_DGRAM, 0);
}

static void close_sockets(void)
{
	for (int i = 0; i < SOCKETS; i++) {
		if (sockets[i] >= 0)
			close(sockets[i]);
	}
	close(sender);
}

/* The socket that gets @packet, which must be exactly one. */
static int receiver(void)
{
	struct sockaddr_in address = address_of();
	int found = -1;

	ck_assert_int_eq(sendto(sender, packet, sizeof(packet), 0, (struct sockaddr *)&address,
				sizeof(address)),
			 sizeof(packet));
	for (int i = 0; i < SOCKETS; i++) {
		uint8_t got[sizeof(packet)];

		if (sockets[i] < 0 || recv(sockets[i], got, sizeof(got), MSG_DONTWAIT) < 0)
			continue;
		ck_assert_mem_eq(got, packet, sizeof(packet));
		ck_assert_int_eq(found, -1);
		found = i;
	}
	ck_assert_int_ne(found, -1);
	return found;
}

START_TEST(the_kernel_agrees)
{
	unsigned int length, various = 0;
	int before = -1;

	open_sockets();
	for (int i = 0; i < SOCKETS; i++)
		plan.ranges[i] = (struct steer_range){10 + 3 * i, 11 + 3 * i, SOCKETS - 1 - i};
	plan.range_count = SOCKETS;
	length = steer_program(&plan, code);
	ck_assert_int_eq(steer_attach(sockets[3], code, length), 0);
	for (int i = 0; i < SOCKETS; i++) {
		make_packet((10 + 3 * i) << SLOT_QPN_BITS | i);
		ck_assert_int_eq(receiver(), SOCKETS - 1 - i);
		make_signal(SECRET, i);
		ck_assert_int_eq(receiver(), i);
		/* A REQ to QP 1 is for any socket, and repeated for another one. */
		make_packet(1);
		packet[20 + 17] = 0x10;
		various += receiver() != before;
		before = receiver();
	}
	ck_assert_uint_gt(various, SOCKETS / 2);
	plan.first = 60;
	plan.sockets = 2;
	length = steer_program(&plan, code);
	ck_assert_int_eq(steer_attach(sockets[9], code, length), 0);
	make_packet(1);
	packet[20 + 17] = 0x17;
	for (int i = 0; i < SOCKETS; i++)
		ck_assert_int_eq(receiver() / 2, 30);

	/* The last one takes the place of one that is gone, and the program outlives its author. */
	close(sockets[3]);
	sockets[3] = -1;
	make_signal(SECRET, 3);
	ck_assert_int_eq(receiver(), SOCKETS - 1);
	make_signal(SECRET, SOCKETS - 1);
	receiver(); /* any */
	make_signal(SECRET, SOCKETS - 2);
	ck_assert_int_eq(receiver(), SOCKETS - 2);

	ck_assert_int_eq(steer_detach(sockets[5]), 0);
	ck_assert_int_eq(steer_detach(sockets[5]), ENOENT);
	close_sockets();
}
END_TEST

/* The longest program must be within what kernels allow. */
START_TEST(the_kernel_takes_the_longest)
{
	unsigned int length;

	open_sockets();
	for (unsigned int i = 0; i < STEER_RANGES_MAX; i++)
		plan.ranges[i] = (struct steer_range){1 + 2 * i, 1 + 2 * i, i % SOCKETS};
	plan.range_count = STEER_RANGES_MAX;
	plan.service_count = STEER_SERVICES_MAX;
	length = steer_program(&plan, code);
	ck_assert_int_eq(steer_attach(sockets[0], code, length), 0);
	for (unsigned int i = 0; i < STEER_RANGES_MAX; i++) {
		make_packet((1 + 2 * i) << SLOT_QPN_BITS);
		ck_assert_int_eq(receiver(), i % SOCKETS);
	}
	close_sockets();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("steer");
	TCase *tests = tcase_create("steer");

	tcase_set_timeout(tests, 100);
	tcase_add_loop_test(tests, slots_find_their_socket, 0, 8);
	tcase_add_test(tests, signals_find_their_socket);
	tcase_add_test(tests, mads_find_their_socket);
	tcase_add_test(tests, short_packets_have_no_target);
	tcase_add_test(tests, the_kernel_agrees);
	tcase_add_test(tests, the_kernel_takes_the_longest);
	own_network_enter(tests);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
