/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/objects/qp_type.h"

#include <stddef.h>

#include "net/wire/wire.h"

#define ROW(type, ...) [IBV_QPT_##type] = {IBV_QPT_##type, WIRE_##type, __VA_ARGS__}

/* clang-format off */
static const struct qp_type types[] = {
	/*  reliable, connected, srq,   state_on_error */
	ROW(RC, true,  true,     true,  IBV_QPS_ERR),
	ROW(UC, false, true,     false, IBV_QPS_SQE),
	ROW(UD, false, false,    true,  IBV_QPS_SQE),
};
/* clang-format on */

#define TYPES (sizeof(types) / sizeof(types[0]))

const struct qp_type *qp_type_find(enum ibv_qp_type type)
{
	/* No type is 0: that marks an absent row. */
	return (unsigned int)type < TYPES && types[type].ibv ? &types[type] : NULL;
}
