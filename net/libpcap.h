/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libpcap's functions, as far as they write captures. It is loaded for a capture (net/library.h):
 * with it come libdbus and libsystemd. Called by net/capture, which keeps the table. No locks.
 */
#ifndef URXE_NET_LIBPCAP_H
#define URXE_NET_LIBPCAP_H

#include <pcap/pcap.h>
#include <stdbool.h>

#define LIBPCAP_FUNCTIONS(function)                                                                \
	function(open_dead_with_tstamp_precision) function(close) function(dump_fopen)             \
		function(dump) function(dump_flush) function(dump_close)

struct libpcap {
#define LIBPCAP_MEMBER(name) __typeof__(pcap_##name) *name;
	LIBPCAP_FUNCTIONS(LIBPCAP_MEMBER)
#undef LIBPCAP_MEMBER
};

/* Returns false when there is no libpcap; dlerror() says why. */
bool libpcap_load(struct libpcap *libpcap);

#endif
