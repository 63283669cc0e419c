/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Regions of memory: by its addresses, from zero on, by addresses of the application's choice, and
 * regions of what isn't the application's. A call that fails says why, and changes nothing that is
 * known here.
 */
#include <errno.h>

#include "calls.h"
#include "net/newer_verbs.h"

#define REMOTE (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
/* What regions that choose their addresses lie apart: more than any has, and whole pages. */
#define IOVA_STEP (UINT64_C(1) << 50)

static bool moves_to_zero(const struct fuzz_mr *mr)
{
	return mr->ibv->addr == &arena;
}

uint64_t address_of(const void *address, struct naming naming)
{
	return (uintptr_t)address + naming.shift;
}

static struct naming from_zero(bool is_dm)
{
	return (struct naming){.shift = -(uint64_t)(uintptr_t)&arena, .is_dm = is_dm};
}

/* Bound or not is known once the bind has completed, and nothing else happened to the window. */
void dereg_mr(struct world *world, struct fuzz_mr *mr)
{
	unsigned int bit = 1u << (mr - world->mrs), bound = 0;
	const struct ibv_context *context = mr->ibv->context;
	const uint32_t rkey = mr->ibv->rkey;
	int result = ibv_dereg_mr(mr->ibv);

	for (unsigned int i = 0; i < MWS; i++)
		bound |= world->mws[i].bound;
	must(result == 0 || (result == EBUSY && bound & bit));
	if (result)
		return;
	for (unsigned int i = 0; i < MWS; i++)
		world->mws[i].bound &= ~bit;
	*mr = (struct fuzz_mr){};
	key_ends(world, rkey, context);
}

void call_dereg_mr(struct world *world)
{
	struct fuzz_mr *mr = PICK(world, mrs);

	if (mr)
		dereg_mr(world, mr);
}

/* --- memory and access ------------------------------------------------------------------- */

struct range {
	void *addr;
	size_t length;
};

/* Mostly all of the memory. */
static struct range pick_range(struct world *world)
{
	switch (input_u8(&world->input) & 7) {
	case 1:
		return (struct range){arena.source, SOURCE_SIZE};
	case 2:
		return (struct range){arena.slots, sizeof(arena.slots)};
	case 3:
		return (struct range){arena.slots, sizeof(arena.slots) / 16 - 100};
	case 4:
		return (struct range){arena.source, 0};
	case 5:
		return (struct range){arena.source, SIZE_MAX / 2};
	default:
		return (struct range){&arena, sizeof(arena)};
	}
}

static int pick_access(struct world *world)
{
	static const int accesses[] = {
		IBV_ACCESS_LOCAL_WRITE | REMOTE | IBV_ACCESS_MW_BIND | ACCESS_FLUSH_GLOBAL,
		IBV_ACCESS_LOCAL_WRITE,
		0,
		IBV_ACCESS_REMOTE_READ,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
		IBV_ACCESS_REMOTE_WRITE, /* without LOCAL_WRITE */
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED | REMOTE,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING | REMOTE,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND | REMOTE,
		1 << 17, /* none */
		IBV_ACCESS_LOCAL_WRITE | ACCESS_FLUSH_PERSISTENT,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED | REMOTE | IBV_ACCESS_MW_BIND,
		ACCESS_FLUSH_GLOBAL,
	};

	return accesses[input_u8(&world->input) % COUNT_OF(accesses)];
}

static void check_access(const struct fuzz_mr *mr, int access)
{
	must(mr->ibv || errno);
	must(!mr->ibv || !(access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) ||
	     access & IBV_ACCESS_LOCAL_WRITE);
	must(!mr->ibv || !(access & ACCESS_FLUSH_PERSISTENT));
}

/* --- to register ----------------------------------------------------------------------------- */

/* What begins at zero begins where the arena does. */
void call_reg_mr(struct world *world)
{
	struct fuzz_mr *mr = UNUSED(world, mrs);
	struct fuzz_pd *pd = PICK(world, pds);
	struct range range = pick_range(world);
	int access = pick_access(world);

	if (!mr || !pd)
		return;
	if (access & IBV_ACCESS_ZERO_BASED)
		range.addr = &arena;
	*mr = (struct fuzz_mr){.pd = pd->ibv};
	mr->ibv = ibv_reg_mr(pd->ibv, range.addr, range.length, access);
	check_access(mr, access);
	if (access & IBV_ACCESS_ZERO_BASED)
		mr->naming = from_zero(false);
	if (mr->ibv)
		key_begins(world, mr->ibv->rkey);
}

/* Of no page's beginning, or beyond all addresses, it isn't taken. */
static uint64_t wrong_iova(uint8_t choice, uint64_t iova)
{
	return choice & 1 ? iova + 8 : UINT64_MAX - 0xfff + (iova & 0xfff);
}

void call_reg_mr_iova(struct world *world)
{
	struct fuzz_mr *mr = UNUSED(world, mrs);
	struct fuzz_pd *pd = PICK(world, pds);
	struct range range = pick_range(world);
	int access = pick_access(world);
	uint8_t choice = input_u8(&world->input);
	const bool wrong = (choice & 0xf0) == 0xf0;
	uint64_t iova;

	if (!mr || !pd)
		return;
	*mr = (struct fuzz_mr){.pd = pd->ibv};
	mr->naming.shift = (1 + (mr - world->mrs) + (choice & 1) * MRS) * IOVA_STEP;
	iova = address_of(range.addr, mr->naming);
	access &= ~IBV_ACCESS_ZERO_BASED;
	mr->ibv = ibv_reg_mr_iova(pd->ibv, range.addr, range.length,
				  wrong ? wrong_iova(choice, iova) : iova, access);
	check_access(mr, access);
	must(!mr->ibv || !wrong);
	if (mr->ibv)
		key_begins(world, mr->ibv->rkey);
}

/* From zero on, as device memory has it. */
void call_reg_dm_mr(struct world *world)
{
	struct fuzz_mr *mr = UNUSED(world, mrs);
	struct fuzz_pd *pd = PICK(world, pds);
	struct fuzz_dm *dm = PICK(world, dms);
	int access = pick_access(world);
	uint8_t choice = input_u8(&world->input);
	size_t length = choice & 1 ? SOURCE_SIZE : DM_SIZE, offset = choice & 2 ? SIZE_MAX - 63 : 0;
	bool fits;

	if (!mr || !pd || !dm)
		return;
	if (!(choice & 4))
		access |= IBV_ACCESS_ZERO_BASED;
	fits = !offset && length <= dm->length && access & IBV_ACCESS_ZERO_BASED &&
	       dm->ibv->context == pd->ibv->context;
	*mr = (struct fuzz_mr){.pd = pd->ibv, .dm = dm->ibv, .naming = from_zero(true)};
	mr->ibv = ibv_reg_dm_mr(pd->ibv, dm->ibv, offset, length, access);
	check_access(mr, access);
	must(!mr->ibv || fits);
	if (mr->ibv)
		key_begins(world, mr->ibv->rkey);
	else
		*mr = (struct fuzz_mr){};
}

/* Its number is a local key alone. */
void call_alloc_null_mr(struct world *world)
{
	struct fuzz_mr *mr = UNUSED(world, mrs);
	struct fuzz_pd *pd = PICK(world, pds);

	if (!mr || !pd)
		return;
	*mr = (struct fuzz_mr){.pd = pd->ibv};
	must(mr->ibv = ibv_alloc_null_mr(pd->ibv));
	world->has_null = true;
}

/* Nothing here is a dma-buf. */
void call_reg_dmabuf_mr(struct world *world)
{
	struct fuzz_pd *pd = PICK(world, pds);
	int access = pick_access(world);
	uint8_t choice = input_u8(&world->input);

	if (pd)
		must(!ibv_reg_dmabuf_mr(pd->ibv, choice & 2 ? 4096 : 0, 4096, 0,
					choice & 1 ? pd->ibv->context->cmd_fd : -1, access));
}

/* --- to change ------------------------------------------------------------------------------- */

static struct naming changed_naming(const struct fuzz_mr *mr, int flags, int access,
				    bool was_zero_based)
{
	const bool moves = flags & IBV_REREG_MR_CHANGE_TRANSLATION;
	const bool is_zero_based = flags & IBV_REREG_MR_CHANGE_ACCESS
					   ? access & IBV_ACCESS_ZERO_BASED
					   : was_zero_based;

	if (is_zero_based)
		return from_zero(false);
	return moves || was_zero_based ? (struct naming){} : mr->naming;
}

/* The region is what it was where the request is refused (-1), and where its bind forbids it. */
void call_rereg_mr(struct world *world)
{
	struct fuzz_mr *mr = PICK(world, mrs);
	struct fuzz_pd *pd = PICK(world, pds);
	int flags = input_u8(&world->input) & 15;
	struct range range = pick_range(world);
	int access = pick_access(world), result;
	bool was_zero_based;
	uint32_t rkey;

	if (!mr)
		return;
	was_zero_based = mr->naming.shift == from_zero(false).shift;
	/* What begins at zero begins where the arena does, here as well. */
	if (was_zero_based)
		range.addr = &arena;
	else if (!moves_to_zero(mr))
		access &= ~IBV_ACCESS_ZERO_BASED;
	else if (access & IBV_ACCESS_ZERO_BASED)
		range.addr = &arena;
	rkey = mr->ibv->rkey;
	result =
		ibv_rereg_mr(mr->ibv, flags, pd ? pd->ibv : NULL, range.addr, range.length, access);
	must(result <= 0 && result >= -5);
	if (mr->ibv->rkey != rkey) {
		key_ends(world, rkey, mr->ibv->context);
		key_begins(world, mr->ibv->rkey);
	}
	if (result)
		return;
	must(!mr->dm);
	mr->naming = changed_naming(mr, flags, access, was_zero_based);
	if (!(flags & IBV_REREG_MR_CHANGE_PD))
		return;
	mr->pd = pd->ibv;
	must(mr->pd->context == mr->ibv->context);
}

/* --- to page ----------------------------------------------------------------------------- */

/* Part of a region, which is on demand or not. */
void call_advise_mr(struct world *world)
{
	struct fuzz_pd *pd = PICK(world, pds);
	struct fuzz_mr *mr = PICK(world, mrs);
	uint8_t choice = input_u8(&world->input);
	struct ibv_sge sge = {.length = lengths[(choice >> 2) % LENGTHS]};
	int result;

	if (!pd)
		return;
	if (mr) {
		sge.addr = address_of(arena.slots[0], mr->naming);
		sge.lkey = mr->ibv->lkey;
	}
	result = ibv_advise_mr(pd->ibv, choice & 3, choice >> 7 ? 0 : IBV_ADVISE_MR_FLAG_FLUSH,
			       &sge, (choice & 0x70) != 0x70);
	must(result == 0 || result == ENOTSUP || result == EINVAL || result == ENOENT ||
	     result == EPERM || result == EFAULT);
}
