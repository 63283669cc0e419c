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

/* Called only for what is wanted: some ask the network device, and UCX reads a thousand files. */
typedef void text_function(struct port *port, char *text);

#define TEXT(name, ...)                                                                            \
	static void name(struct port *port, char *text)                                            \
	{                                                                                          \
		snprintf(text, TEXT_SIZE, __VA_ARGS__);                                            \
	}

static struct ibv_port_attr queried(struct port *port)
{
	struct ibv_port_attr attr;

	port_query(port, &attr);
	return attr;
}

static unsigned long long counter(struct port *port, const char *name)
{
	struct urxe_counter counters[COUNTERS_MAX];
	unsigned int count = device_port_counters(port, counters);

	for (unsigned int i = 0; i < count; i++) {
		if (strcmp(counters[i].name, name) == 0)
			return counters[i].value;
	}
	return 0;
}

static void guid(struct port *port, char *text)
{
	uint64_t number = be64toh(port->device->guid);

	snprintf(text, TEXT_SIZE, "%04x:%04x:%04x:%04x\n", (unsigned int)(number >> 48),
		 (unsigned int)(number >> 32 & 0xffff), (unsigned int)(number >> 16 & 0xffff),
		 (unsigned int)(number & 0xffff));
}

/* Memory near the device is memory near any CPU. */
static void local_cpus(struct port *port, char *text)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	size_t used = 0;

	for (long word = (cpus - 1) / 32; word >= 0 && used < TEXT_SIZE - 12; word--) {
		long bits = cpus - word * 32;
		uint32_t mask = bits >= 32 ? UINT32_MAX : (1u << bits) - 1;

		used += snprintf(text + used, TEXT_SIZE - used, "%08x%s", mask, word ? "," : "\n");
	}
}

static void state(struct port *port, char *text)
{
	enum ibv_port_state number = queried(port).state;

	snprintf(text, TEXT_SIZE, "%d: %s\n", number,
		 number == IBV_PORT_ACTIVE ? "ACTIVE" : "DOWN");
}

static void phys_state(struct port *port, char *text)
{
	static const char *const names[] = {[2] = "Polling", [3] = "Disabled", [5] = "LinkUp"};
	unsigned int number = queried(port).phys_state;

	snprintf(text, TEXT_SIZE, "%u: %s\n", number, names[number]);
}

static void rate(struct port *port, char *text)
{
	struct ibv_port_attr attr = queried(port);

	port_rate_text(&attr, text, TEXT_SIZE - 1);
	strcat(text, "\n");
}

static void parent(struct port *port, char *text)
{
	struct gid_entry entry;

	port_netdev(port, &entry);
	snprintf(text, TEXT_SIZE, "%s\n", entry.netdev);
}

TEXT(node_type, "1: CA\n")
TEXT(node_desc, "urxe\n")
TEXT(hca_type, "%s\n",
     *registry_configuration()->profile->name ? registry_configuration()->profile->name : "urxe")
TEXT(fw_ver, "%s\n", registry_configuration()->profile->fw_ver)
TEXT(no_node, "-1\n")
TEXT(zero_id, "0x0000\n")
TEXT(cpu_list, "0-%ld\n", sysconf(_SC_NPROCESSORS_CONF) - 1)
TEXT(link_layer, "Ethernet\n")
TEXT(zero_hex, "0x0\n")
TEXT(zero, "0\n")
TEXT(cap_mask, "0x%08x\n", queried(port).port_cap_flags)
TEXT(pkey, "0x%04x\n", PKEY_DEFAULT)
TEXT(lifespan, "0\n")
/* IBA 16.1.3.5 counts data in units of four bytes. */
TEXT(xmit_data, "%llu\n", counter(port, "sent_bytes") / 4)
TEXT(rcv_data, "%llu\n", counter(port, "rcvd_bytes") / 4)
TEXT(xmit_packets, "%llu\n", counter(port, "sent_pkts"))
TEXT(rcv_packets, "%llu\n", counter(port, "rcvd_pkts"))
TEXT(rcv_errors, "%llu\n", counter(port, "icrc_errors") + counter(port, "malformed_packets"))

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

static bool wants(const struct writer *writer, const char *name)
{
	return !writer->name || strcmp(writer->name, name) == 0;
}

static void offer(const struct writer *writer, struct port *port, const char *name,
		  text_function *text)
{
	char content[TEXT_SIZE];

	if (!wants(writer, name))
		return;
	text(port, content);
	writer->write(writer->context, name, content);
}

/* @name is one of the port's. */
static void offer_text(const struct writer *writer, const struct port *port, const char *name,
		       const char *text)
{
	char path[128];

	snprintf(path, sizeof(path), "ports/%u/%s", port->number, name);
	if (wants(writer, path))
		writer->write(writer->context, path, text);
}

static void offer_counters(const struct writer *writer, struct port *port)
{
	struct urxe_counter counters[COUNTERS_MAX];
	unsigned int count = device_port_counters(port, counters);
	char name[96], text[TEXT_SIZE];

	for (unsigned int i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "hw_counters/%s", counters[i].name);
		snprintf(text, sizeof(text), "%llu\n", (unsigned long long)counters[i].value);
		offer_text(writer, port, name, text);
	}
}

static void gid_text(const union ibv_gid *gid, char *text)
{
	size_t used = 0;

	for (int i = 0; i < 16; i += 2)
		used += snprintf(text + used, TEXT_SIZE - used, "%02x%02x%s", gid->raw[i],
				 gid->raw[i + 1], i < 14 ? ":" : "\n");
}

static void offer_gids(const struct writer *writer, struct port *port)
{
	char name[64], text[TEXT_SIZE];
	struct gid_entry entry;

	for (unsigned int i = 0; gid_table_next(&port->gids, &i, &entry); i++) {
		snprintf(name, sizeof(name), "gids/%u", i);
		gid_text(&entry.gid, text);
		offer_text(writer, port, name, text);
		snprintf(name, sizeof(name), "gid_attrs/types/%u", i);
		offer_text(writer, port, name, "RoCE v2\n");
		snprintf(name, sizeof(name), "gid_attrs/ndevs/%u", i);
		snprintf(text, sizeof(text), "%s\n", entry.netdev);
		offer_text(writer, port, name, text);
	}
}

static void offer_port(const struct writer *writer, struct port *port)
{
	char path[128];

	for (const struct attribute *i = port_attributes; i->name; i++) {
		snprintf(path, sizeof(path), "ports/%u/%s", port->number, i->name);
		offer(writer, port, path, i->text);
	}
	offer_counters(writer, port);
	offer_gids(writer, port);
}

void sysfs_attributes(struct device *device, const char *name,
		      void (*write)(void *context, const char *name, const char *text),
		      void *context)
{
	const struct writer writer = {name, write, context};
	struct port *port = device_port(device, 1);

	for (const struct attribute *i = device_attributes; i->name; i++)
		offer(&writer, port, i->name, i->text);
	for (unsigned int i = 1; (port = device_port(device, i)); i++)
		offer_port(&writer, port);
}
