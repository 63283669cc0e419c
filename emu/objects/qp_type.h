/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The transport services (IBA 9.1) as data: what a QP type is on the wire and
 * what it promises. Everything that differs between QP types reads this table; a
 * new type is a line of it. Constant: no lock.
 */
#ifndef URXE_EMU_QP_TYPE_H
#define URXE_EMU_QP_TYPE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

struct qp_type {
	enum ibv_qp_type ibv;
	uint8_t transport; /* enum wire_transport */
	bool reliable;	   /* acknowledged and retried; otherwise what is lost stays lost */
	bool connected;	   /* to one QP; otherwise each request has its address handle */
	bool srq;	   /* may take its receives from one (IBA 10.2.9) */
	bool xrcd;	   /* belongs to an XRC domain (Annex A14), not to a PD */
	uint8_t abilities; /* enum qp_ability: which it has at all */
	int ignored; /* enum ibv_qp_attr_mask: accepted and without effect, as in Linux: those of
			the half that a type of XRC lacks */
	uint8_t state_on_error; /* enum ibv_qp_state: where a failed send request leads */
};

/* NULL for a type that this device lacks. */
const struct qp_type *qp_type_find(enum ibv_qp_type type);

/* @ability: enum qp_ability. A queue that it lacks has no attributes, and no objects. */
static inline bool qp_type_has(enum ibv_qp_type type, unsigned int ability)
{
	const struct qp_type *known = qp_type_find(type);

	return known && known->abilities & ability;
}

/* Sets of types, for tables that say which types a row is for. */
enum qp_type_set {
	QP_RC = 1 << IBV_QPT_RC,
	QP_UC = 1 << IBV_QPT_UC,
	QP_UD = 1 << IBV_QPT_UD,
	QP_XRC_SEND = 1 << IBV_QPT_XRC_SEND,
	QP_XRC_RECV = 1 << IBV_QPT_XRC_RECV,
};

static inline bool qp_type_in(unsigned int set, const struct qp_type *type)
{
	return set >> type->ibv & 1;
}

#endif
