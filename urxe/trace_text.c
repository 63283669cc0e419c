/* SPDX-License-Identifier: BSD-2-Clause */
/* Names and numbers as text, and memory for it. */
#include <stdarg.h>
#include <stdlib.h>

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
