/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/explain/text.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>

#include "emu/objects/access.h"
#include "emu/objects/mr.h"
#include "emu/objects/qp.h"
#include "net/cause/origin.h"
#include "net/qp_text.h"
#include "net/wire/gid.h"

void text_add(struct text *text, const char *format, ...)
{
	size_t left = text->size - text->length;
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(text->bytes + text->length, left, format, arguments);
	va_end(arguments);
	if (length > 0)
		text->length += (size_t)length < left ? (size_t)length : left - 1;
}

void text_add_gid(struct text *text, const union ibv_gid *gid)
{
	char address[INET6_ADDRSTRLEN];

	text_add(text, "%s", gid_to_text(gid, address));
}

void text_add_time(struct text *text, uint64_t time)
{
	uint64_t tenths = time / 100;
	const char *unit = "us";

	if (tenths >= 10000) {
		tenths /= 1000;
		unit = "ms";
	}
	if (tenths >= 10000) {
		tenths /= 1000;
		unit = "s";
	}
	text_add(text, "%llu.%u %s", (unsigned long long)tenths / 10, (unsigned int)(tenths % 10),
		 unit);
}

/* --- memory --------------------------------------------------------------------------- */

void text_add_access(struct text *text, int access)
{
	char flags[ACCESS_TEXT];

	text_add(text, "%s", access_text(access, flags));
}

static void add_origin(struct text *text, const struct origin *origin, const char *before)
{
	char place[ORIGIN_TEXT];

	text_add(text, "%s", origin_phrase(origin, before, place));
}

void text_add_key(struct text *text, const struct key *key)
{
	bool window = key->kind == KEY_WINDOW;

	if (key->kind == KEY_NULL) {
		text_add(text, "null region");
		return;
	}
	text_add(text, "%s of %llu bytes at 0x%llx, ", window ? "window" : "region",
		 (unsigned long long)key->length, (unsigned long long)key->iova);
	add_origin(text, key->origin, window ? "allocated at " : "registered at ");
	if (window)
		text_add(text, key->origin ? " and bound" : "bound");
	else if (!key->origin)
		text_add(text, "registered");
	text_add(text, " with ");
	text_add_access(text, key->access);
}

/* --- queue pairs ----------------------------------------------------------------------- */

void text_add_qp(struct text *text, const struct qp *qp)
{
	text_add(text, "QP 0x%x (%s", qp->number, qp_type_text(qp->type->ibv));
	add_origin(text, qp->origin, ", created at ");
	text_add(text, ")");
	if (!qp->type->connected || qp->delegate)
		return;
	text_add(text, ", connected from ");
	text_add_gid(text, &qp->path.source);
	text_add(text, " to ");
	text_add_gid(text, &qp->path.destination);
	text_add(text, " QP 0x%x", qp->attr.dest_qp_num);
}

/* --- work requests ---------------------------------------------------------------------- */

static void add_sges(struct text *text, const struct send_wqe *wqe)
{
	const char *preposition = wqe->kind->data == DATA_SENT ? "from" : "into";

	if (wqe->flags & IBV_SEND_INLINE)
		text_add(text, " (inline)");
	else if (wqe->num_sge)
		text_add(text, " %s 0x%llx (lkey 0x%x)", preposition,
			 (unsigned long long)wqe->sge[0].addr, wqe->sge[0].lkey);
	if (wqe->num_sge > 1)
		text_add(text, " and %u more", wqe->num_sge - 1);
}

static void add_bind(struct text *text, const struct mw_bind *bind)
{
	text_add(text, " of window number 0x%x as rkey 0x%x to %llu bytes at 0x%llx (lkey 0x%x)",
		 bind->window, key_value(bind->window, bind->rkey),
		 (unsigned long long)bind->length, (unsigned long long)bind->addr, bind->region);
}

static void add_target(struct text *text, const struct send_wqe *wqe)
{
	if (wqe->kind->flags & REQUEST_REMOTE)
		text_add(text, "%s 0x%llx (rkey 0x%x)",
			 wqe->kind->data == DATA_READ ? " of peer's" : " to peer's",
			 (unsigned long long)wqe->remote_addr, wqe->rkey);
	if (wqe->kind->flags & REQUEST_INVALIDATE)
		text_add(text, ", invalidating rkey 0x%x", wqe->invalidate_rkey);
}

static void add_datagram(struct text *text, const struct send_wqe *wqe)
{
	text_add(text, " to ");
	text_add_gid(text, &wqe->path.destination);
	text_add(text, " QP 0x%x", wqe->remote_qpn);
}

void text_add_wqe(struct text *text, const struct qp *qp, const struct send_wqe *wqe)
{
	uint64_t length = wqe->kind->flags & REQUEST_FLUSH ? wqe->flush.length : wqe->length;

	if (wqe->status == IBV_WC_LOC_LEN_ERR && !length) /* refused: it isn't kept */
		length = sge_total(wqe->sge, wqe->num_sge);
	text_add(text, "wr_id %llu, %s", (unsigned long long)wqe->wr_id, wqe->kind->name);
	if (wqe->kind->flags & REQUEST_BIND)
		add_bind(text, &wqe->bind);
	if (!(wqe->kind->flags & REQUEST_LOCAL)) {
		text_add(text, " of %llu bytes", (unsigned long long)length);
		add_sges(text, wqe);
	}
	add_target(text, wqe);
	if (!qp->type->connected)
		add_datagram(text, wqe);
	if (wqe->started && wqe->psn_count)
		text_add(text, ", PSN %u", wqe->first_psn);
	if (wqe->started && wqe->psn_count > 1)
		text_add(text, " to %u", psn_add(wqe->first_psn, wqe->psn_count - 1));
}

/* --- packets ---------------------------------------------------------------------------- */

void text_add_packet(struct text *text, const struct packet *packet)
{
	const struct opcode *op = packet->op;

	text_add(text, "%s, PSN %u", op->name, packet->psn);
	if (op->reth) {
		const struct reth *reth = packet_reth(packet);

		text_add(text, ", %u bytes at 0x%llx with rkey 0x%x", be32toh(reth->length),
			 (unsigned long long)be64toh(reth->va), be32toh(reth->rkey));
	} else if (op->atomiceth) {
		const struct atomiceth *eth = packet_atomiceth(packet);

		text_add(text, ", 8 bytes at 0x%llx with rkey 0x%x",
			 (unsigned long long)be64toh(eth->va), be32toh(eth->rkey));
	}
	if (packet->payload_length)
		text_add(text, ", payload of %u bytes", packet->payload_length);
	if (op->ieth)
		text_add(text, ", invalidating rkey 0x%x", packet_invalidate_rkey(packet));
	if (op->xrceth)
		text_add(text, ", for SRQ 0x%x", packet_xrc_srq(packet));
}
