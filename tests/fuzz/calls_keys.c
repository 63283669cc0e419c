/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * R_Keys that name nothing any more: what asks for access with one of them fails. Devices give out
 * their keys independently, so that one's dead key may be another one's that isn't.
 */
#include "calls.h"

/* Whether an object has it, but of @but. */
static bool is_owned(const struct world *world, uint32_t rkey, const struct ibv_context *but)
{
	bool owned = false;

	for (unsigned int i = 0; i < MRS; i++)
		owned |= world->mrs[i].ibv && world->mrs[i].ibv->rkey == rkey &&
			 world->mrs[i].ibv->context != but;
	for (unsigned int i = 0; i < MWS; i++)
		owned |= world->mws[i].ibv && world->mws[i].ibv->rkey == rkey &&
			 world->mws[i].ibv->context != but;
	return owned;
}

bool key_is_dead(const struct world *world, uint32_t rkey)
{
	for (unsigned int i = 0; i < world->dead_count; i++)
		if (world->dead_keys[i] == rkey)
			return true;
	return false;
}

void key_begins(struct world *world, uint32_t rkey)
{
	for (unsigned int i = 0; i < world->dead_count; i++)
		if (world->dead_keys[i] == rkey)
			world->dead_keys[i] = world->dead_keys[--world->dead_count];
	for (uint32_t i = 0; i < world->work_count; i++)
		if (world->works[i].rkey == rkey)
			world->works[i].must_fail = false;
}

void key_ends(struct world *world, uint32_t rkey, const struct ibv_context *context)
{
	if (world->dead_count < DEAD_KEYS && !is_owned(world, rkey, context) &&
	    !key_is_dead(world, rkey))
		world->dead_keys[world->dead_count++] = rkey;
}

uint32_t pick_dead_key(const struct world *world, uint8_t choice)
{
	return world->dead_count ? world->dead_keys[choice % world->dead_count] : 0;
}
