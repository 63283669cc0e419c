/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/transport/source_port.h"

#include "emu/hca.h"
#include "emu/objects/qp.h"
#include "net/log.h"

static void report_foreign_sender(struct qp *qp, struct source_port *source,
				  const struct link_frame *frame)
{
	if (source->reported)
		return;
	source->reported = true;
	log_warn("QP 0x%x: dropped a packet that another user sent from the peer's address, "
		 "UDP port %u",
		 qp->number, frame->source_port);
}

bool source_port_check(struct qp *qp, struct source_port *source, const struct link_frame *frame)
{
	struct link *link = qp->hca->link;

	switch (link->ops->sender ? link->ops->sender(link, frame) : LINK_SENDER_UNKNOWN) {
	case LINK_SENDER_UNKNOWN:
		source->any = source->port == 0;
		return true;
	case LINK_SENDER_NODE:
		source->port = frame->source_port;
		return true;
	case LINK_SENDER_GONE:
		if (source->port == 0)
			return true;
		break;
	case LINK_SENDER_FOREIGN:
		break;
	}
	report_foreign_sender(qp, source, frame);
	return false;
}
