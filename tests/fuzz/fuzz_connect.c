/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A connection manager at the mercy of its peers. The input is a list of steps:
 * messages to QP 1, and between them what applications do (connect, accept,
 * reject, disconnect, destroy, listen) and time.
 *
 * A message of the input would hardly ever name the right comm ids. So a byte
 * says which fields are put right, and the fuzzer is left to decide what is
 * wrong with the rest. Some connections are of a QP that there is, which goes
 * along with them.
 *
 * Apart from what sanitizers see it must hold: what is sent is well-formed,
 * events come for ids that there are and leave them in a state that fits, and
 * when all ids are destroyed nothing is left, however long it takes.
 */
#include "emu/cm/cm_internal.h"
#include "emu/objects/cq.h"
#include "emu/objects/pd.h"
#include "emu/objects/qp.h"
#include "host.h"
#include "tests/cm_queue.h"
#include "tests/destroy.h"

#define IDS 8
#define SERVICE 0x01060001
#define LONG UINT64_C(100000000000000) /* longer than any timeout that a message can ask for */

struct machine {
	struct host host; /* first, so that its link is the machine */
	struct cm_queue queue;
	struct input input;
	struct pd *pd;
	struct cq *cq;
	struct qp *qp;
	struct cm_id *ids[IDS];
	struct cm_id *listeners[2];
	uint8_t mad[MAD_LENGTH]; /* sent last */
	bool destroy_early;	 /* the next request's id, in its own event */
};

/* --- the link ------------------------------------------------------------------------ */

static unsigned int stub_send(struct link *link, struct link_packet *packets, unsigned int count,
			      uint64_t now)
{
	struct machine *machine = (struct machine *)link;
	struct cm_message message;
	uint8_t again[MAD_LENGTH];

	must(count == 1 && packets->payload_count == 1 && packets->payload_length == MAD_LENGTH);
	must(gid_equal(&packets->path->source, &machine->host.gids.entries[0].gid));
	memcpy(machine->mad, packets->payload->iov_base, MAD_LENGTH);
	must(cm_message_decode(&message, machine->mad) == 0);
	cm_message_encode(&message, again);
	must(memcmp(again, machine->mad, MAD_LENGTH) == 0);
	return 0;
}

static const struct link_ops stub_ops = {
	.send = stub_send,
	.receive = host_receive,
	.deadline = host_deadline,
};

/* --- events ---------------------------------------------------------------------------- */

/* In which states an event may find its id, for more may have happened since. */
static const uint32_t states_after[] = {
	[CM_EVENT_REQ_RECEIVED] =
		STATE(REQ_RECEIVED) | STATE(MRA_REQ_SENT) | STATE(IDLE) | STATE(TIMEWAIT),
	[CM_EVENT_REQ_ERROR] = STATE(IDLE),
	[CM_EVENT_REP_RECEIVED] = STATE(REP_RECEIVED) | STATE(TIMEWAIT) | STATE(IDLE),
	[CM_EVENT_REP_ERROR] = STATE(IDLE),
	[CM_EVENT_RTU_RECEIVED] = STATE(ESTABLISHED),
	[CM_EVENT_USER_ESTABLISHED] = STATE(ESTABLISHED),
	[CM_EVENT_REJ_RECEIVED] = STATE(IDLE) | STATE(TIMEWAIT),
	[CM_EVENT_MRA_RECEIVED] = STATE(MRA_REQ_RECEIVED) | STATE(MRA_REP_RECEIVED),
	[CM_EVENT_DREQ_RECEIVED] = STATE(DREQ_RECEIVED),
	[CM_EVENT_DREP_RECEIVED] = STATE(TIMEWAIT),
	[CM_EVENT_DREQ_ERROR] = STATE(TIMEWAIT),
	[CM_EVENT_TIMEWAIT_EXIT] = STATE(IDLE),
	[CM_EVENT_LAP_RECEIVED] = STATE(ESTABLISHED),
	[CM_EVENT_APR_RECEIVED] = STATE(ESTABLISHED),
	[CM_EVENT_LAP_ERROR] = STATE(ESTABLISHED),
	[CM_EVENT_SIDR_REQ_RECEIVED] = STATE(SIDR_REQ_RECEIVED),
	[CM_EVENT_SIDR_REP_RECEIVED] = STATE(IDLE),
	[CM_EVENT_SIDR_REQ_ERROR] = STATE(IDLE),
};

static void check_attributes(struct machine *machine, struct cm_id *id)
{
	struct ibv_qp_attr attr;
	int mask;

	for (int state = IBV_QPS_RESET; state <= IBV_QPS_ERR; state++) {
		attr.qp_state = state;
		if (cm_qp_attr(id, &attr, &mask) != 0)
			continue;
		must(mask & IBV_QP_STATE);
		must(state != IBV_QPS_RTR || attr.rq_psn <= PSN_MASK);
		must(state != IBV_QPS_RTS || attr.sq_psn <= PSN_MASK);
		must(!(mask & IBV_QP_TIMEOUT) || attr.timeout <= 31);
		if (id->terms.local_qpn == machine->qp->number &&
		    (int)machine->qp->state == state - 1)
			qp_modify(machine->qp, &attr, mask, machine->host.now);
	}
}

static void adopt(struct machine *machine, struct cm_id *id)
{
	for (unsigned int i = 0; i < IDS; i++) {
		if (machine->ids[i])
			continue;
		machine->ids[i] = id;
		cm_id_set_context(id, &machine->ids[i]);
		return;
	}
	cm_queue_destroy_id(&machine->queue, id, machine->host.now);
}

static void on_event(void *context, struct cm_event *event)
{
	struct machine *machine = context;
	struct cm_id **slot = event->id->context;

	must(states_after[event->type] >> cm_id_state(event->id) & 1);
	check_attributes(machine, event->id);
	if (event->listener) {
		must(!slot && (event->listener == machine->listeners[0] ||
			       event->listener == machine->listeners[1]));
		if (machine->destroy_early)
			cm_queue_destroy_id(&machine->queue, event->id, machine->host.now);
		else
			adopt(machine, event->id);
		return;
	}
	must(slot && *slot == event->id);
}

/* --- making and unmaking it ---------------------------------------------------------------- */

static void make_qp(struct machine *machine)
{
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC};

	must(pd_alloc(machine->host.hca, &machine->pd) == 0);
	must(cq_create(machine->host.hca, 1, &machine->cq) == 0);
	init.send_cq = init.recv_cq = &machine->cq->ibv;
	must(qp_create(machine->host.hca, machine->pd, &init, &machine->qp) == 0);
}

static void make_machine(struct machine *machine)
{
	const struct hca_options options = {
		.cm_sink = cm_queue_sink(&machine->queue),
		.node_guid = 1,
	};

	cm_queue_init(&machine->queue, on_event, machine);
	host_init(&machine->host, &stub_ops, options);
	make_qp(machine);
}

static void destroy_id(struct machine *machine, struct cm_id **slot)
{
	struct cm_id *id = *slot;

	if (!id)
		return;
	*slot = NULL;
	cm_queue_destroy_id(&machine->queue, id, machine->host.now);
}

static void unmake_machine(struct machine *machine)
{
	struct cm *cm = machine->host.hca->cm;
	unsigned int waits = 0;

	for (unsigned int i = 0; i < 2; i++)
		destroy_id(machine, &machine->listeners[i]);
	for (unsigned int i = 0; i < IDS; i++)
		destroy_id(machine, &machine->ids[i]);
	/* Disconnects go on without their ids, and end. */
	while (cm->all) {
		uint64_t deadline = hca_deadline(machine->host.hca);

		must(deadline != TIME_NEVER && deadline < machine->host.now + LONG &&
		     ++waits < 10000);
		host_wait(&machine->host, 0);
		cm_queue_deliver(&machine->queue);
	}
	must(!cm->by_id && !cm->by_qp && !machine->queue.events && !cm->listeners);
	must(qp_destroy(machine->qp) == 0);
	must(cq_destroy(machine->cq) == 0);
	must(pd_dealloc(machine->pd) == 0);
	host_destroy(&machine->host);
	cm_queue_destroy(&machine->queue);
}

/* --- messages ------------------------------------------------------------------------------- */

/* What of a message is put right. */
enum {
	RIGHT_REMOTE = 1 << 0, /* it is for one of our ids */
	RIGHT_LOCAL = 1 << 1,  /* it is from that id's peer */
	RIGHT_QPN = 1 << 2,
	RIGHT_SERVICE = 1 << 3,
	RIGHT_GID = 1 << 4,
	RIGHT_ANSWER = 1 << 5, /* it answers what we sent last */
	OTHER_SOURCE = 1 << 6,
	RAW = 1 << 7, /* nothing at all: a MAD of the input's bytes */
};

static struct cm_id *choose(struct machine *machine)
{
	return machine->ids[input_u8(&machine->input) % IDS];
}

static void put_right(struct machine *machine, struct cm_message *message, uint8_t flags,
		      struct cm_id *id)
{
	struct cm_message sent;

	/* Few numbers, so that duplicates and stale ones come up. */
	message->qpn &= 7;
	message->local_id &= 7;
	message->ca_guid = 2;
	if (flags & RIGHT_SERVICE)
		message->service_id = SERVICE;
	if (flags & RIGHT_GID)
		message->path[0].remote_gid = message->path[1].remote_gid =
			machine->host.gids.entries[0].gid;
	if (id && flags & RIGHT_REMOTE)
		message->remote_id = id->local_id;
	if (id && flags & RIGHT_LOCAL)
		message->local_id = id->remote_id;
	if (id && flags & RIGHT_QPN)
		message->qpn = id->terms.local_qpn;
	if (flags & RIGHT_ANSWER && cm_message_decode(&sent, machine->mad) == 0) {
		message->transaction = sent.transaction;
		message->remote_id = sent.local_id;
		if (message->attribute == CM_SIDR_REP)
			message->local_id = sent.local_id;
	}
}

static void make_mad(struct machine *machine, uint8_t *mad)
{
	uint8_t flags = input_u8(&machine->input), attribute = input_u8(&machine->input);
	struct cm_id *id = choose(machine);
	uint8_t length = input_u8(&machine->input);
	struct cm_message message;

	memset(mad, 0, MAD_LENGTH);
	input_bytes(&machine->input, mad + (flags & RAW ? 0 : MAD_HEADER_LENGTH),
		    length < MAD_LENGTH - MAD_HEADER_LENGTH ? length
							    : MAD_LENGTH - MAD_HEADER_LENGTH);
	host_address_frame(&machine->host, flags & OTHER_SOURCE);
	if (flags & RAW)
		return;
	memcpy(mad, (uint8_t[]){1, MAD_CLASS_CM, 2, 3}, 4);
	mad[17] = CM_REQ + attribute % (CM_APR - CM_REQ + 1);
	must(cm_message_decode(&message, mad) == 0);
	put_right(machine, &message, flags, id);
	cm_message_encode(&message, mad);
}

static void step_message(struct machine *machine)
{
	struct {
		struct bth bth;
		struct deth deth;
		uint8_t mad[MAD_LENGTH], icrc[ICRC_LENGTH];
	} __attribute__((packed)) packet = {
		.bth = {.opcode = WIRE_UD | WIRE_SEND_ONLY,
			.pkey = htobe16(PKEY_DEFAULT),
			.dest_qp = htobe32(QPN_GSI)},
		.deth = {.qkey = htobe32(QKEY_GSI), .source_qp = htobe32(QPN_GSI)},
	};

	make_mad(machine, packet.mad);
	host_seal(&machine->host, (uint8_t *)&packet, sizeof(packet) - ICRC_LENGTH);
	host_deliver(&machine->host);
}

/* --- what applications do ------------------------------------------------------------------- */

static uint8_t private_data[256];

/* The QP that there is, or one that others know of. */
static uint32_t choose_qpn(const struct machine *machine, uint8_t choice)
{
	return choice == 7 ? machine->qp->number : choice;
}

/* Where the messages of another source come from. */
static struct path alternate_path(const struct machine *machine)
{
	struct path path = {.source = machine->host.gids.entries[0].gid,
			    .destination = machine->host.peer,
			    .hop_limit = 64};

	path.destination.raw[15]++;
	return path;
}

static void step_connect(struct machine *machine)
{
	uint8_t choice = input_u8(&machine->input), more = input_u8(&machine->input);
	struct cm_id **slot = &machine->ids[choice % IDS];
	struct path alternate = alternate_path(machine);
	struct cm_request request = {
		.path = {.source = machine->host.gids.entries[0].gid,
			 .destination = machine->host.peer,
			 .hop_limit = 64},
		.alternate = more & 0x20 ? &alternate : NULL,
		.service_id = SERVICE,
		.qpn = choose_qpn(machine, choice >> 3 & 7),
		.qp_type = more & 0x40	   ? IBV_QPT_XRC_SEND
			   : choice & 0x40 ? IBV_QPT_UC
					   : IBV_QPT_RC,
		.responder_resources = choice,
		.retry_count = choice & 7,
		.mtu = IBV_MTU_1024,
		.packet_life_time = more & 31,
		.private_data = private_data,
		.private_length = choice,
	};

	if (!*slot)
		must(cm_id_create(machine->host.hca->cm, slot, slot) == 0);
	if (choice & 0x80)
		cm_send_sidr_req(*slot, &request.path, SERVICE, private_data, choice,
				 machine->host.now);
	else
		cm_send_req(*slot, &request, machine->host.now);
}

static void step_answer(struct machine *machine)
{
	struct cm_id *id = choose(machine);
	uint8_t what = input_u8(&machine->input), length = input_u8(&machine->input);
	const struct path alternate = alternate_path(machine);
	const struct cm_reply reply = {.qpn = choose_qpn(machine, what >> 4),
				       .responder_resources = length,
				       .private_data = private_data,
				       .private_length = length};
	const struct cm_service_reply service = {
		.status = what >> 4, .private_data = private_data, .private_length = length};

	if (!id)
		return;
	switch (what & 15) {
	case 0:
		cm_send_rep(id, &reply, machine->host.now);
		break;
	case 1:
		cm_send_rtu(id, machine->host.now);
		break;
	case 2:
		cm_send_rej(id, length, private_data, length, machine->host.now);
		break;
	case 3:
		cm_send_mra(id, length & 31, machine->host.now);
		break;
	case 4:
		cm_send_dreq(id, machine->host.now);
		break;
	case 5:
		cm_send_drep(id, machine->host.now);
		break;
	case 6:
		cm_send_sidr_rep(id, &service, machine->host.now);
		break;
	case 7:
		if (cm_notify(id) == 0)
			must(cm_id_state(id) == CM_STATE_ESTABLISHED);
		break;
	case 8:
		cm_send_lap(id, &alternate, length & 31, machine->host.now);
		break;
	}
	host_progress(&machine->host);
}

static void step_destroy(struct machine *machine)
{
	destroy_id(machine, &machine->ids[input_u8(&machine->input) % IDS]);
	host_progress(&machine->host);
}

/* Listen, or don't. */
static void step_listen(struct machine *machine)
{
	uint8_t choice = input_u8(&machine->input), which = choice & 1;
	const struct cm_listen listen = {
		.service_id = SERVICE + (choice >> 2 & 1),
		.ipv4 = true,
		.datagram = choice >> 1 & 1,
	};
	struct cm_id *id;

	machine->destroy_early = choice >> 3 & 1;
	if (machine->listeners[which]) {
		destroy_id(machine, &machine->listeners[which]);
		return;
	}
	must(cm_id_create(machine->host.hca->cm, NULL, &id) == 0);
	if (cm_id_listen(id, &listen) == 0)
		machine->listeners[which] = id;
	else
		cm_id_destroy(id, machine->host.now);
}

/* On by a power of two, or to the next deadline. */
static void step_time(struct machine *machine)
{
	uint8_t choice = input_u8(&machine->input);

	host_wait(&machine->host, choice & 0x80 ? UINT64_C(1) << (choice & 63) % 40 : 0);
}

static void step(struct machine *machine)
{
	static void (*const steps[])(struct machine *) = {
		step_message, step_message, step_message, step_connect,
		step_answer,  step_destroy, step_listen,  step_time,
	};

	steps[input_u8(&machine->input) & 7](machine);
	cm_queue_deliver(&machine->queue);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct machine machine;

	machine = (struct machine){.input = {data, size}};
	make_machine(&machine);
	while (machine.input.left)
		step(&machine);
	unmake_machine(&machine);
	return 0;
}
