/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/transport/grh.h"

#include "net/wire/ip.h"

/* Where an IPv4 header begins. */
#define GRH_IPV4 20

/*
 * RoCE has no service levels. In their place ConnectX says what kind of header the
 * GRH is, and UCX looks there to tell IPv4 from IPv6: without it none of its
 * datagrams arrives, hence no MPI.
 */
enum { KIND_IPV6 = 1, KIND_IPV4 = 2 };

/* The bytes before an IPv4 header are zeros, unless the device isn't known for it. */
static void fill_ipv4(struct grh *grh, const struct hca *hca)
{
	switch (hca->behaviour.grh_ipv4_first_20_bytes) {
	case GRH_UNTOUCHED:
		grh->untouched = GRH_IPV4;
		break;
	case GRH_FILLED:
		memset(grh->bytes, 0xff, GRH_IPV4);
		break;
	}
}

void grh_fill(struct grh *grh, const struct hca *hca, const struct link_frame *frame)
{
	const struct ip_fields fields = {
		.source = &frame->source,
		.destination = &frame->destination,
		.length = frame->length,
		.id = frame->ip_id == IP_ID_UNKNOWN ? 0 : frame->ip_id,
		.traffic_class = frame->traffic_class,
		.flow_label = frame->flow_label,
		.hop_limit = frame->hop_limit,
	};
	bool ipv4 = gid_is_ipv4(&frame->destination);

	*grh = (struct grh){0};
	ip_write(ipv4 ? grh->bytes + GRH_IPV4 : grh->bytes, &fields);
	if (ipv4)
		fill_ipv4(grh, hca);
	if (!hca->behaviour.wc_sl_unset)
		grh->service_level = ipv4 ? KIND_IPV4 : KIND_IPV6;
}
