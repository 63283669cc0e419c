/* SPDX-License-Identifier: BSD-2-Clause */
/* Names, numbers and lists as text, and memory for it. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "net/clock.h"
#include "net/wire/mad.h"
#include "urxe/command.h"
#include "urxe/trace.h"

void *trace_allocate(size_t size)
{
	void *memory = malloc(size ? size : 1);

	if (!memory)
		die("out of memory");
	return memory;
}

/* The capacity is the next power of two. */
void *trace_grow(void *array, size_t count, size_t size)
{
	if (count & (count - 1))
		return array;
	array = reallocarray(array, count ? 2 * count : 1, size);
	if (!array)
		die("out of memory");
	return array;
}

char *trace_text(const char *format, ...)
{
	va_list arguments;
	char *text;

	va_start(arguments, format);
	if (vasprintf(&text, format, arguments) < 0)
		die("out of memory");
	va_end(arguments);
	return text;
}

const char *trace_transport_name(uint8_t transport)
{
	switch (transport) {
	case WIRE_RC:
		return "RC";
	case WIRE_UC:
		return "UC";
	case WIRE_UD:
		return "UD";
	case WIRE_XRC:
		return "XRC";
	default:
		return "?";
	}
}

const char *trace_cm_name(unsigned int attribute)
{
	static const char *const names[] = {
		[CM_REQ] = "REQ",   [CM_MRA] = "MRA",		[CM_REJ] = "REJ",
		[CM_REP] = "REP",   [CM_RTU] = "RTU",		[CM_DREQ] = "DREQ",
		[CM_DREP] = "DREP", [CM_SIDR_REQ] = "SIDR REQ", [CM_SIDR_REP] = "SIDR REP",
		[CM_LAP] = "LAP",   [CM_APR] = "APR",
	};

	return attribute < sizeof(names) / sizeof(*names) && names[attribute] ? names[attribute]
									      : "message";
}

const char *trace_nak_name(uint8_t syndrome)
{
	static const char *const names[] = {
		[AETH_NAK_PSN_SEQUENCE - AETH_NAK] = "PSN sequence error",
		[AETH_NAK_INVALID_REQUEST - AETH_NAK] = "invalid request",
		[AETH_NAK_REMOTE_ACCESS - AETH_NAK] = "remote access error",
		[AETH_NAK_REMOTE_OPERATION - AETH_NAK] = "remote operational error",
		[AETH_NAK_INVALID_RD_REQUEST - AETH_NAK] = "invalid RD request",
	};
	unsigned int code = syndrome & AETH_VALUE_MASK;

	return code < sizeof(names) / sizeof(*names) ? names[code] : "reserved code";
}

/* IBA 9.7.5.2.8, table 45. */
uint64_t trace_rnr_delay(uint8_t syndrome)
{
	static const uint32_t microseconds[32] = {
		655360, 10,    20,    30,    40,    60,	    80,	    120,    160,    240,    320,
		480,	640,   960,   1280,  1920,  2560,   3840,   5120,   7680,   10240,  15360,
		20480,	30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520,
	};

	return microseconds[syndrome & AETH_VALUE_MASK] * 1000ull;
}

const char *trace_message_name(unsigned int flags, uint8_t opcode)
{
	static const struct {
		unsigned int flags;
		const char *name;
	} names[] = {
		{OPCODE_SEND | OPCODE_IMMEDIATE, "SEND_IMM"},
		{OPCODE_SEND | OPCODE_INVALIDATE, "SEND_INV"},
		{OPCODE_SEND, "SEND"},
		{OPCODE_WRITE | OPCODE_IMMEDIATE, "WRITE_IMM"},
		{OPCODE_WRITE, "WRITE"},
		{OPCODE_READ, "READ"},
		{OPCODE_ATOMIC_WRITE, "ATOMIC_WRITE"},
		{OPCODE_FLUSH, "FLUSH"},
	};

	if (flags & OPCODE_ATOMIC)
		return (opcode & WIRE_OPERATION_MASK) == WIRE_COMPARE_SWAP ? "CMP_SWAP"
									   : "FETCH_ADD";
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if ((flags & names[i].flags) == names[i].flags)
			return names[i].name;
	}
	return "unknown";
}

char *trace_size(uint64_t bytes)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB"};
	unsigned int unit = 0;

	while (unit < 3 && bytes && bytes % 1024 == 0) {
		bytes /= 1024;
		unit++;
	}
	return trace_text("%llu %s", (unsigned long long)bytes, units[unit]);
}

char *trace_duration(uint64_t ns)
{
	if (ns < NS_PER_MS)
		return trace_text("%.1f us", ns / 1e3);
	if (ns < NS_PER_S)
		return trace_text("%.3f ms", ns / 1e6);
	return trace_text("%.3f s", ns / 1e9);
}

char *trace_end(const struct trace *trace, const struct end *end)
{
	if (!end->qpn)
		return trace_text("%s QP ?", trace->addresses[end->address]);
	return trace_text("%s QP 0x%x", trace->addresses[end->address], end->qpn);
}

/* Ranges behind @at that begin in it, or where it ends, become part of it. */
static void psn_list_close(struct psn_list *list, unsigned int at)
{
	struct psn_range *range = &list->ranges[at];
	unsigned int next = at + 1;

	for (; next < list->count && list->ranges[next].first <= range->last + 1; next++) {
		if (list->ranges[next].last > range->last)
			range->last = list->ranges[next].last;
	}
	memmove(&list->ranges[at + 1], &list->ranges[next],
		(list->count - next) * sizeof(*list->ranges));
	list->count -= next - at - 1;
}

static void psn_list_add_range(struct psn_list *list, struct psn_range added)
{
	unsigned int at = list->count;

	/* Mostly the last one. */
	while (at > 0 && list->ranges[at - 1].first > added.first)
		at--;
	if (at > 0 && added.first <= list->ranges[at - 1].last + 1) {
		at--;
		if (added.last > list->ranges[at].last)
			list->ranges[at].last = added.last;
	} else {
		list->ranges = trace_grow(list->ranges, list->count, sizeof(*list->ranges));
		memmove(&list->ranges[at + 1], &list->ranges[at],
			(list->count++ - at) * sizeof(*list->ranges));
		list->ranges[at] = added;
	}
	psn_list_close(list, at);
}

void psn_list_add(struct psn_list *list, uint64_t psn)
{
	psn_list_add_range(list, (struct psn_range){psn, psn});
}

uint64_t psn_list_last(const struct psn_list *list)
{
	return list->ranges[list->count - 1].last;
}

void psn_list_join(struct psn_list *list, const struct psn_list *other)
{
	for (unsigned int i = 0; i < other->count; i++)
		psn_list_add_range(list, other->ranges[i]);
}

char *psn_list_span(const struct psn_list *list)
{
	struct psn_range span = list->ranges[0];

	for (unsigned int i = 1; i < list->count; i++) {
		span.first =
			list->ranges[i].first < span.first ? list->ranges[i].first : span.first;
		span.last = list->ranges[i].last > span.last ? list->ranges[i].last : span.last;
	}
	return psn_list_text(&(struct psn_list){&span, 1});
}

#define RANGES_SHOWN 6

char *psn_list_text(const struct psn_list *list)
{
	char *text = NULL;
	size_t size;
	FILE *stream = open_memstream(&text, &size);

	if (!stream)
		die("out of memory");
	for (unsigned int i = 0; i < list->count && i < RANGES_SHOWN; i++) {
		const struct psn_range *range = &list->ranges[i];

		fprintf(stream, "%s%llu", i ? ", " : "",
			(unsigned long long)(range->first & PSN_MASK));
		if (range->last > range->first)
			fprintf(stream, "..%llu", (unsigned long long)(range->last & PSN_MASK));
	}
	if (list->count > RANGES_SHOWN)
		fprintf(stream, " and %u more", list->count - RANGES_SHOWN);
	if (fclose(stream) != 0)
		die("out of memory");
	return text;
}
