/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Scatter/gather lists: emu/transport/sge.h says who calls this. An SGE of length zero
 * names no memory, and its key is not checked (IBA 10.6.3.2, as hardware does).
 */
#include "emu/transport/sge.h"

#include <string.h>

#include "emu/objects/mr.h"

int sge_check(struct hca *hca, const struct pd *pd, const struct ibv_sge *sge, uint32_t count,
	      int access)
{
	struct mr_hold hold;

	for (uint32_t i = 0; i < count; i++) {
		int error;

		if (!sge[i].length)
			continue;
		error = mr_hold(hca, pd, sge[i].lkey, sge[i].addr, sge[i].length, access, &hold);
		if (error)
			return error;
		mr_release(hca, &hold);
	}
	return 0;
}

int sge_scatter(struct hca *hca, const struct pd *pd, const struct ibv_sge *sge, uint32_t count,
		uint64_t offset, const void *data, uint32_t length)
{
	const uint8_t *from = data;
	struct mr_hold hold;

	for (uint32_t i = 0; i < count && length; i++) {
		uint32_t part;
		int error;

		if (offset >= sge[i].length) {
			offset -= sge[i].length;
			continue;
		}
		part = sge[i].length - offset;
		if (part > length)
			part = length;
		error = mr_hold(hca, pd, sge[i].lkey, sge[i].addr + offset, part,
				IBV_ACCESS_LOCAL_WRITE, &hold);
		if (error)
			return error;
		memcpy(hold.address, from, part);
		mr_release(hca, &hold);
		from += part;
		length -= part;
		offset = 0;
	}
	return 0;
}

uint64_t sge_total(const struct ibv_sge *sge, uint32_t count)
{
	uint64_t total = 0;

	for (uint32_t i = 0; i < count; i++)
		total += sge[i].length;
	return total;
}
