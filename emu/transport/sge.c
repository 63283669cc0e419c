/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Scatter/gather lists: emu/transport/sge.h says who calls this. An SGE of length zero
 * names no memory, and its key is not checked (IBA 10.6.3.2, as hardware does).
 */
#include "emu/transport/sge.h"

#include <errno.h>
#include <string.h>

#include "emu/objects/mr.h"

int sge_check(struct hca *hca, const struct pd *pd, const struct ibv_sge *sge, uint32_t count,
	      int access)
{
	struct mr_pin pin;

	for (uint32_t i = 0; i < count; i++) {
		int error;

		if (!sge[i].length)
			continue;
		error = mr_pin(hca, pd, sge[i].lkey, sge[i].addr, sge[i].length, access, &pin);
		if (error)
			return error;
		mr_unpin(hca, &pin);
	}
	return 0;
}

int sge_scatter_pinned(struct hca *hca, const struct pd *pd, const struct ibv_sge *sge,
		       uint32_t count, uint64_t offset, const void *data, uint32_t length,
		       struct mr_pin *pin)
{
	const uint8_t *from = data;

	for (uint32_t i = 0; i < count && length; i++) {
		uint8_t *to;
		uint32_t part;

		if (offset >= sge[i].length) {
			offset -= sge[i].length;
			continue;
		}
		part = sge[i].length - offset;
		if (part > length)
			part = length;
		to = mr_repin(hca, pin, pd, NULL, sge[i].lkey, sge[i].addr + offset, part,
			      IBV_ACCESS_LOCAL_WRITE);
		if (!to)
			return EACCES;
		memcpy(to, from, part);
		from += part;
		length -= part;
		offset = 0;
	}
	return 0;
}

int sge_scatter(struct hca *hca, const struct pd *pd, const struct ibv_sge *sge, uint32_t count,
		uint64_t offset, const void *data, uint32_t length)
{
	struct mr_pin pin = {0};
	int error = sge_scatter_pinned(hca, pd, sge, count, offset, data, length, &pin);

	if (pin.key)
		mr_unpin(hca, &pin);
	return error;
}

uint64_t sge_total(const struct ibv_sge *sge, uint32_t count)
{
	uint64_t total = 0;

	for (uint32_t i = 0; i < count; i++)
		total += sge[i].length;
	return total;
}
