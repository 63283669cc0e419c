/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the device and its ports say about themselves. The limits are the HCA's,
 * which enforces them; a port is the network device of its GID 0.
 */
#include <inttypes.h>
#include <string.h>

#include "emu/capacity.h"
#include "emu/objects/odp.h"
#include "net/cause/cause.h"
#include "net/clock.h"
#include "net/newer_verbs.h"
#include "verbs/context.h"
#include "verbs/port.h"
#include "verbs/profile.h"
#include "verbs/registry.h"

/* Of newer headers: the sysfs names of GID types, "IB/RoCE v1" and "RoCE v2". */
enum { GID_TYPE_SYSFS_IB_ROCE_V1, GID_TYPE_SYSFS_ROCE_V2 };

/* kHz: the device's clock, which completions are stamped with, is clock_now(). */
#define CORE_CLOCK 1000000

static struct device *device_of(struct ibv_context *context)
{
	return to_context(context)->device;
}

/* NULL: there is no such port, and @call fails. */
static struct port *port_of(struct ibv_context *context, unsigned int port_num, const char *call)
{
	struct device *device = device_of(context);
	struct port *port = device_port(device, port_num);

	if (!port)
		refuse(EINVAL, CAUSE_PORT_UNKNOWN, "%s: port_num is %u; the last port of %s is %u",
		       call, port_num, device->ibv.name, port_gids_count(&device->gids));
	return port;
}

/* Bits of comp_mask or flags that @call doesn't know. */
static int refuse_mask(const char *call, uint64_t mask)
{
	return refuse(EINVAL, CAUSE_QUERY_MASK, "%s: 0x%" PRIx64, call, mask);
}

/* --- device ------------------------------------------------------------------ */

int urxe_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	*attr = to_hca(context)->limits.device;
	attr->node_guid = device_of(context)->guid;
	attr->sys_image_guid = attr->node_guid;
	memcpy(attr->fw_ver, registry_configuration()->profile->fw_ver, sizeof(attr->fw_ver));
	return 0;
}

int urxe_query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
			 struct ibv_device_attr_ex *attr, size_t attr_size)
{
	const struct hca_limits *limits = &to_hca(context)->limits;
	struct ibv_device_attr_ex all = {};

	if (attr_size < sizeof(all.orig_attr))
		return set_errno(refuse(EINVAL, CAUSE_QUERY_SIZE,
					"ibv_query_device_ex(): the structure has %zu bytes, of at "
					"least %zu",
					attr_size, sizeof(all.orig_attr)));
	if (input && input->comp_mask)
		return set_errno(
			refuse_mask("ibv_query_device_ex(), input->comp_mask", input->comp_mask));
	urxe_query_device(context, &all.orig_attr);
	all.device_cap_flags_ex = all.orig_attr.device_cap_flags | limits->cap_flags_ex;
	if (!limits->no_odp)
		all.odp_caps = odp_caps;
	if (!limits->no_odp && capacity_has(to_hca(context), IBV_DEVICE_XRC))
		all.xrc_odp_caps = odp_xrc_caps;
	all.max_dm_size = limits->max_dm_size;
	all.phys_port_cnt_ex = all.orig_attr.phys_port_cnt;
	all.completion_timestamp_mask = limits->completion_timestamp_mask;
	all.hca_core_clock = all.completion_timestamp_mask ? CORE_CLOCK : 0;
	all.cq_mod_caps = (struct ibv_cq_moderation_caps){
		.max_cq_count = limits->max_cq_count,
		.max_cq_period = limits->max_cq_period,
	};
	/* The application's structure may be older or newer than ours. */
	memset(attr, 0, attr_size);
	memcpy(attr, &all, attr_size < sizeof(all) ? attr_size : sizeof(all));
	return 0;
}

int urxe_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values)
{
	if (!to_hca(context)->limits.completion_timestamp_mask)
		return set_errno(refuse(EOPNOTSUPP, CAUSE_NOT_SUPPORTED,
					"ibv_query_rt_values_ex(): the device has no clock"));
	if (values->comp_mask & ~(uint32_t)IBV_VALUES_MASK_RAW_CLOCK)
		return set_errno(
			refuse_mask("ibv_query_rt_values_ex(), comp_mask", values->comp_mask));
	/* As mlx5 has it: ticks of the device's clock, whatever the name of their member. */
	if (values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK)
		values->raw_clock = (struct timespec){.tv_nsec = clock_now()};
	return 0;
}

/* --- port ---------------------------------------------------------------------- */

/* PortInfo's counters have 16 bits and stay at their end (IBA 14.2.5.6). */
static uint32_t violations(uint64_t count)
{
	return count < UINT16_MAX ? count : UINT16_MAX;
}

/* Any version of the structure. */
union port_attr {
	struct ibv_port_attr known;
	struct {
		char older[PORT_ATTR_ACTIVE_SPEED_EX];
		uint32_t active_speed_ex; /* active_speed, which has eight bits */
	};
};

int urxe_query_port_ex(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr,
		       size_t attr_size)
{
	struct counters *counters = to_hca(context)->counters;
	struct port *port = port_of(context, port_num, "ibv_query_port()");
	union port_attr all = {};
	int error;

	if (!port)
		return set_errno(EINVAL);
	error = port_query(port, &all.known);
	if (error)
		return set_errno(refuse_system_error(error, "ibv_query_port()"));
	all.known.bad_pkey_cntr = violations(counters->bad_pkey);
	all.known.qkey_viol_cntr = violations(counters->bad_qkey);
	all.known.max_msg_sz = to_hca(context)->limits.max_message;
	all.active_speed_ex = all.known.active_speed;
	memset(attr, 0, attr_size);
	memcpy(attr, &all, attr_size < sizeof(all) ? attr_size : sizeof(all));
	return 0;
}

/* The caller's structure ends where ibv_port_attr did when this symbol got its version. */
int urxe_query_port(struct ibv_context *context, uint8_t port_num,
		    struct _compat_ibv_port_attr *attr)
{
	return urxe_query_port_ex(context, port_num, (struct ibv_port_attr *)attr,
				  offsetof(struct ibv_port_attr, port_cap_flags2));
}

/* What the width and the speed of the port come to, in units of 100 Mbit/s. */
int urxe_query_port_speed(struct ibv_context *context, uint32_t port_num, uint64_t *port_speed)
{
	struct ibv_port_attr attr;
	int error;

	if (!port_of(context, port_num, "ibv_query_port_speed()"))
		return EINVAL;
	error = urxe_query_port_ex(context, port_num, &attr, sizeof(attr));
	if (!error)
		*port_speed = port_rate(&attr);
	return error;
}

/* --- GIDs ------------------------------------------------------------------------ */

static int check_gid_index(unsigned int index, const char *call)
{
	unsigned int length = registry_configuration()->profile->port.gid_tbl_len;

	if (index < length)
		return 0;
	return refuse(EINVAL, CAUSE_GID_INDEX, "%s: index is %d; the last one is %d", call,
		      (int)index, (int)length - 1);
}

int urxe_query_gid(struct ibv_context *context, uint8_t port_num, int index, union ibv_gid *gid)
{
	struct port *port = port_of(context, port_num, "ibv_query_gid()");
	struct gid_entry entry;
	int error = EINVAL;

	if (port && check_gid_index(index, "ibv_query_gid()") == 0)
		error = gid_table_get(&port->gids, index, &entry);
	if (error && error != ENODATA) {
		errno = error;
		return -1;
	}
	/* An empty slot reads as zeros here (ibv_query_gid_ex() has ENODATA for it). */
	if (error)
		memset(gid, 0, sizeof(*gid));
	else
		*gid = entry.gid;
	return 0;
}

/* As much of the entry as the caller knows of. */
static void put_entry(struct ibv_gid_entry *to, size_t size, const struct gid_entry *from,
		      uint32_t port_num, uint32_t index)
{
	const struct ibv_gid_entry all = {
		.gid = from->gid,
		.gid_index = index,
		.port_num = port_num,
		.gid_type = IBV_GID_TYPE_ROCE_V2,
		.ndev_ifindex = from->ifindex,
	};

	memset(to, 0, size);
	memcpy(to, &all, size < sizeof(all) ? size : sizeof(all));
}

int urxe_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index,
		      struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
	struct gid_entry found;
	struct port *port;
	int error;

	if (flags)
		return refuse_mask("ibv_query_gid_ex(), flags", flags);
	port = port_of(context, port_num, "ibv_query_gid_ex()");
	error = port ? check_gid_index(gid_index, "ibv_query_gid_ex()") : EINVAL;
	if (error)
		return error;
	error = gid_table_get(&port->gids, gid_index, &found);
	if (error)
		return refuse(error, CAUSE_GID_EMPTY, "ibv_query_gid_ex(): GID %u of port %u",
			      gid_index, port_num);
	put_entry(entry, entry_size, &found, port_num, gid_index);
	return 0;
}

/* Appends those of @port to the @count there are. Returns how many they are then, or -EINVAL. */
static ssize_t append_entries(struct port *port, struct ibv_gid_entry *entries, size_t max_entries,
			      size_t count, size_t entry_size)
{
	const uint32_t length = registry_configuration()->profile->port.gid_tbl_len;
	struct gid_entry found;

	for (uint32_t i = 0; gid_table_next(&port->gids, &i, &found) && i < length; i++) {
		if (count == max_entries)
			return -refuse(EINVAL, CAUSE_GID_TABLE_SHORT,
				       "ibv_query_gid_table(): max_entries is %zu", max_entries);
		put_entry((void *)((char *)entries + count++ * entry_size), entry_size, &found,
			  port->number, i);
	}
	return count;
}

ssize_t urxe_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
			     size_t max_entries, uint32_t flags, size_t entry_size)
{
	ssize_t count = 0;
	struct port *port;

	if (flags)
		return -refuse_mask("ibv_query_gid_table(), flags", flags);
	for (unsigned int i = 1; count >= 0 && (port = device_port(device_of(context), i)); i++)
		count = append_entries(port, entries, max_entries, count, entry_size);
	return count;
}

int urxe_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index,
			int *type)
{
	struct port *port = port_of(context, port_num, "ibv_query_gid_type()");
	struct gid_entry entry;

	if (!port || check_gid_index(index, "ibv_query_gid_type()") != 0) {
		errno = EINVAL;
		return -1;
	}
	/* An empty slot isn't an error: libibverbs has this one for it. */
	*type = gid_table_get(&port->gids, index, &entry) == 0 ? GID_TYPE_SYSFS_ROCE_V2
							       : GID_TYPE_SYSFS_IB_ROCE_V1;
	return 0;
}

/* --- P_Keys ------------------------------------------------------------------------- */

int urxe_query_pkey(struct ibv_context *context, uint8_t port_num, int index, __be16 *pkey)
{
	int error = port_of(context, port_num, "ibv_query_pkey()") ? 0 : EINVAL;

	if (index != 0)
		error = refuse(EINVAL, CAUSE_PKEY, "ibv_query_pkey(): index is %d", index);
	if (!error)
		*pkey = htobe16(PKEY_DEFAULT);
	return errno_result(error);
}

int urxe_get_pkey_index(struct ibv_context *context, uint8_t port_num, __be16 pkey)
{
	int error = port_of(context, port_num, "ibv_get_pkey_index()") ? 0 : EINVAL;

	if (pkey != htobe16(PKEY_DEFAULT))
		error = refuse(EINVAL, CAUSE_PKEY, "ibv_get_pkey_index(): pkey is 0x%04x",
			       be16toh(pkey));
	return errno_result(error);
}
