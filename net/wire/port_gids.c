/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/wire/port_gids.h"

unsigned int port_gids_count(const struct port_gids *gids)
{
	unsigned int count = 0;

	while (count < PORTS_MAX && gids->tables[count])
		count++;
	return count;
}

struct gid_table *port_gids_table(const struct port_gids *gids, unsigned int port_num)
{
	return port_num >= 1 && port_num <= PORTS_MAX ? gids->tables[port_num - 1] : NULL;
}

bool port_gids_find(const struct port_gids *gids, const union ibv_gid *gid, struct gid_place *place)
{
	for (unsigned int i = 0; i < port_gids_count(gids); i++) {
		int index = gid_table_find(gids->tables[i], gid);

		*place = (struct gid_place){.port_num = i + 1, .index = index};
		if (index >= 0 && gid_table_get(gids->tables[i], index, &place->entry) == 0)
			return true;
	}
	*place = (struct gid_place){.port_num = 1};
	return false;
}
