/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/preload/sysfs_attributes.h"

#include <endian.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "net/wire/wire.h"
#include "verbs/counters.h"
#include "verbs/device.h"
#include "verbs/port.h"
#include "verbs/profile.h"
#include "verbs/registry.h"

#define TEXT_SIZE 160

/* What an attribute may be made of. */
struct subject {
	struct device *device;
	struct port *port; /* the first one, for attributes of the device */
	struct ibv_port_attr attr;
	struct gid_entry netdev;
	struct urxe_counter counters[COUNTERS_MAX];
	unsigned int counter_count;
};

typedef void text_function(const struct subject *subject, char *text);

#define TEXT(name, ...)                                                                            \
	static void name(const struct subject *subject, char *text)                                \
	{                                                                                          \
		snprintf(text, TEXT_SIZE, __VA_ARGS__);                                            \
	}

static uint64_t counter(const struct subject *subject, const char *name)
{
	for (unsigned int i = 0; i < subject->counter_count; i++) {
		if (strcmp(subject->counters[i].name, name) == 0)
			return subject->counters[i].value;
	}
	return 0;
}

static void guid(const struct subject *subject, char *text)
{
	uint64_t number = be64toh(subject->device->guid);

	snprintf(text, TEXT_SIZE, "%04x:%04x:%04x:%04x\n", (unsigned int)(number >> 48),
		 (unsigned int)(number >> 32 & 0xffff), (unsigned int)(number >> 16 & 0xffff),
		 (unsigned int)(number & 0xffff));
}

/* Memory near the device is memory near any CPU. */
static void local_cpus(const struct subject *subject, char *text)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	size_t used = 0;

	for (long word = (cpus - 1) / 32; word >= 0 && used < TEXT_SIZE - 12; word--) {
		long bits = cpus - word * 32;
		uint32_t mask = bits >= 32 ? UINT32_MAX : (1u << bits) - 1;

		used += snprintf(text + used, TEXT_SIZE - used, "%08x%s", mask, word ? "," : "\n");
	}
}

static void state(const struct subject *subject, char *text)
{
	snprintf(text, TEXT_SIZE, "%d: %s\n", subject->attr.state,
		 subject->attr.state == IBV_PORT_ACTIVE ? "ACTIVE" : "DOWN");
}

static void phys_state(const struct subject *subject, char *text)
{
	static const char *const names[] = {[2] = "Polling", [3] = "Disabled", [5] = "LinkUp"};

	snprintf(text, TEXT_SIZE, "%d: %s\n", subject->attr.phys_state,
		 names[subject->attr.phys_state]);
}

static void rate(const struct subject *subject, char *text)
{
	port_rate_text(&subject->attr, text, TEXT_SIZE - 1);
	strcat(text, "\n");
}

TEXT(node_type, "1: CA\n")
TEXT(node_desc, "urxe\n")
TEXT(hca_type, "%s\n",
     *registry_configuration()->profile->name ? registry_configuration()->profile->name : "urxe")
TEXT(fw_ver, "%s\n", registry_configuration()->profile->fw_ver)
TEXT(parent, "%s\n", subject->netdev.netdev)
TEXT(no_node, "-1\n")
TEXT(zero_id, "0x0000\n")
TEXT(cpu_list, "0-%ld\n", sysconf(_SC_NPROCESSORS_CONF) - 1)
TEXT(link_layer, "Ethernet\n")
TEXT(zero_hex, "0x0\n")
TEXT(zero, "0\n")
TEXT(cap_mask, "0x%08x\n", subject->attr.port_cap_flags)
TEXT(pkey, "0x%04x\n", PKEY_DEFAULT)
TEXT(lifespan, "0\n")
/* IBA 16.1.3.5 counts data in units of four bytes. */
TEXT(xmit_data, "%llu\n", (unsigned long long)counter(subject, "sent_bytes") / 4)
TEXT(rcv_data, "%llu\n", (unsigned long long)counter(subject, "rcvd_bytes") / 4)
TEXT(xmit_packets, "%llu\n", (unsigned long long)counter(subject, "sent_pkts"))
TEXT(rcv_packets, "%llu\n", (unsigned long long)counter(subject, "rcvd_pkts"))
TEXT(rcv_errors, "%llu\n",
     (unsigned long long)(counter(subject, "icrc_errors") + counter(subject, "malformed_packets")))

static const struct attribute {
	const char *name;
	text_function *text;
} device_attributes[] = {
	{"node_type", node_type},
	{"node_guid", guid},
	{"sys_image_guid", guid},
	{"node_desc", node_desc},
	{"fw_ver", fw_ver},
	{"hca_type", hca_type},
	{"board_id", node_desc},
	{"parent", parent},
	{"device/numa_node", no_node},
	{"device/local_cpus", local_cpus},
	{"device/local_cpulist", cpu_list},
	{"device/vendor", zero_id},
	{"device/device", zero_id},
	{},
};

/* In ports/1 and so on. */
static const struct attribute port_attributes[] = {
	{"state", state},
	{"phys_state", phys_state},
	{"rate", rate},
	{"link_layer", link_layer},
	{"lid", zero_hex},
	{"lid_mask_count", zero},
	{"sm_lid", zero_hex},
	{"sm_sl", zero},
	{"cap_mask", cap_mask},
	{"pkeys/0", pkey},
	{"counters/port_xmit_data", xmit_data},
	{"counters/port_rcv_data", rcv_data},
	{"counters/port_xmit_packets", xmit_packets},
	{"counters/port_rcv_packets", rcv_packets},
	{"counters/port_rcv_errors", rcv_errors},
	{"counters/port_xmit_discards", zero},
	{"counters/link_downed", zero},
	{"hw_counters/lifespan", lifespan},
	{},
};

struct writer {
	const char *name; /* the one attribute wanted, or NULL */
	void (*write)(void *context, const char *name, const char *text);
	void *context;
};

static void offer(const struct writer *writer, const char *name, const char *text)
{
	if (!writer->name || strcmp(writer->name, name) == 0)
		writer->write(writer->context, name, text);
}

/* @name is one of the port's. */
static void offer_of_port(const struct writer *writer, const struct subject *subject,
			  const char *name, const char *text)
{
	char path[128];

	snprintf(path, sizeof(path), "ports/%u/%s", subject->port->number, name);
	offer(writer, path, text);
}

static void offer_counters(const struct writer *writer, const struct subject *subject)
{
	char name[96], text[TEXT_SIZE];

	for (unsigned int i = 0; i < subject->counter_count; i++) {
		snprintf(name, sizeof(name), "hw_counters/%s", subject->counters[i].name);
		snprintf(text, sizeof(text), "%llu\n",
			 (unsigned long long)subject->counters[i].value);
		offer_of_port(writer, subject, name, text);
	}
}

static void gid_text(const union ibv_gid *gid, char *text)
{
	size_t used = 0;

	for (int i = 0; i < 16; i += 2)
		used += snprintf(text + used, TEXT_SIZE - used, "%02x%02x%s", gid->raw[i],
				 gid->raw[i + 1], i < 14 ? ":" : "\n");
}

static void offer_gids(const struct writer *writer, const struct subject *subject)
{
	char name[64], text[TEXT_SIZE];
	struct gid_entry entry;

	for (unsigned int i = 0; gid_table_next(&subject->port->gids, &i, &entry); i++) {
		snprintf(name, sizeof(name), "gids/%u", i);
		gid_text(&entry.gid, text);
		offer_of_port(writer, subject, name, text);
		snprintf(name, sizeof(name), "gid_attrs/types/%u", i);
		offer_of_port(writer, subject, name, "RoCE v2\n");
		snprintf(name, sizeof(name), "gid_attrs/ndevs/%u", i);
		snprintf(text, sizeof(text), "%s\n", entry.netdev);
		offer_of_port(writer, subject, name, text);
	}
}

static void read_subject(struct subject *subject, struct port *port)
{
	subject->port = port;
	port_query(port, &subject->attr);
	port_netdev(port, &subject->netdev);
	subject->counter_count = device_port_counters(port, subject->counters);
}

static void offer_port(const struct writer *writer, const struct subject *subject)
{
	char text[TEXT_SIZE];

	for (const struct attribute *i = port_attributes; i->name; i++) {
		i->text(subject, text);
		offer_of_port(writer, subject, i->name, text);
	}
	offer_counters(writer, subject);
	offer_gids(writer, subject);
}

void sysfs_attributes(struct device *device, const char *name,
		      void (*write)(void *context, const char *name, const char *text),
		      void *context)
{
	const struct writer writer = {name, write, context};
	struct subject subject = {.device = device};
	char text[TEXT_SIZE];
	struct port *port;

	read_subject(&subject, device_port(device, 1));
	for (const struct attribute *i = device_attributes; i->name; i++) {
		i->text(&subject, text);
		offer(&writer, i->name, text);
	}
	for (unsigned int i = 1; (port = device_port(device, i)); i++) {
		read_subject(&subject, port);
		offer_port(&writer, &subject);
	}
}
