/* SPDX-License-Identifier: BSD-2-Clause */
/* What a receive of UD shows of the network header (Annex A17.4.5.2). */
#include <netinet/ip.h>
#include <netinet/ip6.h>

#include "core.h"
#include "emu/transport/grh.h"
#include "net/wire/gid.h"
#include "net/wire/ip.h"

static struct link_frame frame_of(const char *source, const char *destination)
{
	struct link_frame frame = {.length = 100,
				   .traffic_class = 0x68,
				   .flow_label = 0xabcde,
				   .hop_limit = 33,
				   .ip_id = 0x1234};

	gid_from_text(&frame.source, source);
	gid_from_text(&frame.destination, destination);
	return frame;
}

START_TEST(ipv6)
{
	const struct link_frame frame = frame_of("fd00::1", "fd00::2");
	struct ip6_hdr header;
	struct grh grh;

	grh_fill(&grh, &core, &frame);
	memcpy(&header, grh.bytes, sizeof(header));
	ck_assert_uint_eq(be32toh(header.ip6_flow), 0x668abcde);
	ck_assert_uint_eq(be16toh(header.ip6_plen), 8 + 100);
	ck_assert_uint_eq(header.ip6_nxt, IPPROTO_UDP);
	ck_assert_uint_eq(header.ip6_hlim, 33);
	ck_assert_mem_eq(&header.ip6_src, &frame.source, sizeof(frame.source));
	ck_assert_mem_eq(&header.ip6_dst, &frame.destination, sizeof(frame.destination));
	ck_assert_uint_eq(grh.untouched, 0);
	ck_assert_uint_eq(grh.service_level, 1);
}
END_TEST

/* The first twenty bytes are the card's. */
START_TEST(ipv4)
{
	static const struct {
		enum grh_bytes bytes;
		uint32_t untouched;
		uint8_t first;
	} rows[] = {{GRH_ZERO, 0, 0}, {GRH_UNTOUCHED, 20, 0}, {GRH_FILLED, 0, 0xff}};
	const struct link_frame frame = frame_of("10.0.0.1", "10.0.0.2");

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct iphdr header;
		struct grh grh;

		core.behaviour.grh_ipv4_first_20_bytes = rows[i].bytes;
		core.behaviour.wc_sl_unset = i > 0;
		grh_fill(&grh, &core, &frame);
		for (unsigned int k = 0; k < 20; k++)
			ck_assert_uint_eq(grh.bytes[k], rows[i].first);
		memcpy(&header, grh.bytes + 20, sizeof(header));
		ck_assert_uint_eq(header.version, 4);
		ck_assert_uint_eq(header.tos, 0x68);
		ck_assert_uint_eq(be16toh(header.tot_len), 20 + 8 + 100);
		ck_assert_uint_eq(be16toh(header.id), 0x1234);
		ck_assert_uint_eq(header.ttl, 33);
		ck_assert_uint_eq(ip4_checksum(&header), 0);
		ck_assert_uint_eq(grh.untouched, rows[i].untouched);
		ck_assert_uint_eq(grh.service_level, i ? 0 : 2);
	}
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {ipv6, ipv4, NULL};

	return core_run("grh", tests);
}
