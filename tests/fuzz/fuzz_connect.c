/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A connection manager at the mercy of its peers. The input is a list of steps:
 * messages to QP 1, and between them what applications do (connect, accept,
 * reject, disconnect, destroy, listen) and time.
 *
 * A message of the input would hardly ever name the right comm ids. So a byte
 * says which fields are put right, and the fuzzer is left to decide what is
 * wrong with the rest.
 *
 * Apart from what sanitizers see it must hold: what is sent is well-formed,
 * events come for ids that there are and leave them in a state that fits, and
 * when everybody has gone nothing is left, however long it takes.
 */
#include <arpa/inet.h>

#include "emu/cm_internal.h"
#include "emu/hca.h"
#include "input.h"
#include "net/icrc.h"

#define IDS 8
#define TURNS_MAX 1000 /* at one instant, far more than there can be work */
#define SERVICE 0x01060001
#define LONG UINT64_C(100000000000000) /* longer than any timeout that a message can ask for */

struct machine {
	struct link link;
	struct input input;
	uint64_t now;
	struct gid_table gids;
	union ibv_gid peer;
	struct hca *hca;
	struct cm_id *ids[IDS];
	struct cm_id *listeners[2];
	uint8_t mad[MAD_LENGTH]; /* sent last */
	bool destroy_early;	 /* the next request's id, in its own event */

	/* The frame that the link delivers next. */
	bool arrived;
	struct link_frame frame;
	uint8_t bytes[WIRE_HEADERS_MAX + MAD_LENGTH + ICRC_LENGTH];
};

/* --- the link ------------------------------------------------------------------------ */

static void stub_send(struct link *link, struct link_packet *packets, unsigned int count,
		      uint64_t now)
{
	struct machine *machine = (struct machine *)link;
	struct cm_message message;
	uint8_t again[MAD_LENGTH];

	must(count == 1 && packets->payload_count == 1 && packets->payload_length == MAD_LENGTH);
	must(gid_equal(&packets->path->source, &machine->gids.entries[0].gid));
	memcpy(machine->mad, packets->payload->iov_base, MAD_LENGTH);
	must(cm_message_decode(&message, machine->mad) == 0);
	cm_message_encode(&message, again);
	must(memcmp(again, machine->mad, MAD_LENGTH) == 0);
}

static unsigned int stub_receive(struct link *link, struct link_frame *frames, unsigned int max,
				 uint64_t now)
{
	struct machine *machine = (struct machine *)link;

	if (!machine->arrived)
		return 0;
	machine->arrived = false;
	frames[0] = machine->frame;
	return 1;
}

static uint64_t stub_deadline(struct link *link)
{
	return TIME_NEVER;
}

static const struct link_ops stub_ops = {
	.send = stub_send,
	.receive = stub_receive,
	.deadline = stub_deadline,
};

static void take_turns(struct machine *machine)
{
	unsigned int turns = 0;

	while (hca_turn(machine->hca, machine->now))
		must(++turns < TURNS_MAX);
}

/* --- events ---------------------------------------------------------------------------- */

#define STATE(name) (1u << CM_STATE_##name)

/* In which states an event may find its id, for more may have happened since. */
static const uint32_t states_after[] = {
	[CM_EVENT_REQ_RECEIVED] = STATE(REQ_RECEIVED) | STATE(IDLE) | STATE(TIMEWAIT),
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
	[CM_EVENT_SIDR_REQ_RECEIVED] = STATE(SIDR_REQ_RECEIVED),
	[CM_EVENT_SIDR_REP_RECEIVED] = STATE(IDLE),
	[CM_EVENT_SIDR_REQ_ERROR] = STATE(IDLE),
};

static void check_attributes(struct cm_id *id)
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
	cm_id_destroy(id, machine->now);
}

static void on_event(void *context, struct cm_event *event)
{
	struct machine *machine = context;
	struct cm_id **slot = event->id->context;

	must(states_after[event->type] >> cm_id_state(event->id) & 1);
	check_attributes(event->id);
	if (event->listener) {
		must(!slot && (event->listener == machine->listeners[0] ||
			       event->listener == machine->listeners[1]));
		if (machine->destroy_early)
			cm_id_destroy(event->id, machine->now);
		else
			adopt(machine, event->id);
		return;
	}
	must(slot && *slot == event->id);
}

/* --- making and unmaking it ---------------------------------------------------------------- */

static void make_address(union ibv_gid *gid, uint8_t last)
{
	struct in_addr address = {htonl(0x0a000000 | last)};

	gid_from_ipv4(gid, &address);
}

static void make_machine(struct machine *machine)
{
	struct hca_options options = {
		.link = &machine->link,
		.gids = &machine->gids,
		.cm_sink = {on_event, machine},
		.node_guid = 1,
		.seed = 1,
	};

	machine->link.ops = &stub_ops;
	machine->now = 1000000000;
	pthread_mutex_init(&machine->gids.lock, NULL);
	machine->gids.entries = calloc(GID_TABLE_LENGTH, sizeof(*machine->gids.entries));
	must(machine->gids.entries);
	machine->gids.count = 1;
	machine->gids.entries[0].mtu = 65536;
	make_address(&machine->gids.entries[0].gid, 1);
	make_address(&machine->peer, 2);
	must(hca_create(&options, &machine->hca) == 0);
}

static void destroy_id(struct machine *machine, struct cm_id **slot)
{
	struct cm_id *id = *slot;

	if (!id)
		return;
	*slot = NULL;
	cm_id_destroy(id, machine->now);
}

static void unmake_machine(struct machine *machine)
{
	struct cm *cm = machine->hca->cm;
	unsigned int waits = 0;

	for (unsigned int i = 0; i < 2; i++)
		destroy_id(machine, &machine->listeners[i]);
	for (unsigned int i = 0; i < IDS; i++)
		destroy_id(machine, &machine->ids[i]);
	/* Disconnects go on without their ids, and end. */
	while (cm->all) {
		uint64_t deadline = hca_deadline(machine->hca);

		must(deadline != TIME_NEVER && deadline < machine->now + LONG && ++waits < 10000);
		if (deadline > machine->now)
			machine->now = deadline;
		take_turns(machine);
	}
	must(!cm->by_id && !cm->by_qp && !cm->events && !cm->listeners);
	hca_destroy(machine->hca);
	free(machine->gids.entries);
	pthread_mutex_destroy(&machine->gids.lock);
}

/* --- messages ----------------------------------------------------------------------------------
 */

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
		message->path[0].remote_gid = machine->gids.entries[0].gid;
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
	if (flags & OTHER_SOURCE)
		machine->frame.source.raw[15]++;
	if (flags & RAW)
		return;
	memcpy(mad, (uint8_t[]){1, MAD_CLASS_CM, 2, 3}, 4);
	mad[17] = CM_REQ + attribute % (CM_APR - CM_REQ + 1);
	must(cm_message_decode(&message, mad) == 0);
	put_right(machine, &message, flags, id);
	cm_message_encode(&message, mad);
}

static void seal(struct machine *machine, const uint8_t *mad)
{
	const struct path path = {.source = machine->frame.source,
				  .destination = machine->frame.destination};
	const struct iovec payload = {(void *)mad, MAD_LENGTH};
	struct link_packet packet = {
		.path = &path,
		.payload = &payload,
		.payload_count = 1,
		.payload_length = MAD_LENGTH,
		.headers_length = sizeof(struct bth) + sizeof(struct deth),
		.trailer_length = ICRC_LENGTH,
	};

	*(struct bth *)packet.headers = (struct bth){
		.opcode = WIRE_UD | WIRE_SEND_ONLY,
		.pkey = htobe16(PKEY_DEFAULT),
		.dest_qp = htobe32(QPN_GSI),
	};
	*(struct deth *)(packet.headers + sizeof(struct bth)) =
		(struct deth){.qkey = htobe32(QKEY_GSI), .source_qp = htobe32(QPN_GSI)};
	icrc_seal(&packet, machine->frame.source_port, 0);
	memcpy(machine->bytes, packet.headers, packet.headers_length);
	memcpy(machine->bytes + packet.headers_length, mad, MAD_LENGTH);
	memcpy(machine->bytes + packet.headers_length + MAD_LENGTH, packet.trailer, ICRC_LENGTH);
	machine->frame.length = packet.headers_length + MAD_LENGTH + ICRC_LENGTH;
}

static void step_message(struct machine *machine)
{
	uint8_t mad[MAD_LENGTH];

	machine->frame = (struct link_frame){
		.data = machine->bytes,
		.destination = machine->gids.entries[0].gid,
		.source = machine->peer,
		.source_port = ROCE_V2_SOURCE_PORT_MIN,
	};
	make_mad(machine, mad);
	seal(machine, mad);
	machine->arrived = true;
	take_turns(machine);
	must(!machine->arrived);
}

/* --- what applications do
 * -------------------------------------------------------------------------- */

static uint8_t private_data[256];

static void step_connect(struct machine *machine)
{
	uint8_t choice = input_u8(&machine->input);
	struct cm_id **slot = &machine->ids[choice % IDS];
	struct cm_request request = {
		.path = {.source = machine->gids.entries[0].gid,
			 .destination = machine->peer,
			 .hop_limit = 64},
		.service_id = SERVICE,
		.qpn = choice >> 3 & 7,
		.qp_type = choice & 0x40 ? IBV_QPT_UC : IBV_QPT_RC,
		.responder_resources = choice,
		.retry_count = choice & 7,
		.mtu = IBV_MTU_1024,
		.packet_life_time = input_u8(&machine->input) & 31,
		.private_data = private_data,
		.private_length = choice,
	};

	if (!*slot)
		must(cm_id_create(machine->hca->cm, slot, slot) == 0);
	if (choice & 0x80)
		cm_send_sidr_req(*slot, &request.path, SERVICE, private_data, choice, machine->now);
	else
		cm_send_req(*slot, &request, machine->now);
}

static void step_answer(struct machine *machine)
{
	struct cm_id *id = choose(machine);
	uint8_t what = input_u8(&machine->input), length = input_u8(&machine->input);
	const struct cm_reply reply = {.qpn = what >> 4,
				       .responder_resources = length,
				       .private_data = private_data,
				       .private_length = length};
	const struct cm_service_reply service = {
		.status = what >> 4, .private_data = private_data, .private_length = length};

	if (!id)
		return;
	switch (what & 7) {
	case 0:
		cm_send_rep(id, &reply, machine->now);
		break;
	case 1:
		cm_send_rtu(id, machine->now);
		break;
	case 2:
		cm_send_rej(id, length, private_data, length, machine->now);
		break;
	case 3:
		cm_send_mra(id, length & 31, machine->now);
		break;
	case 4:
		cm_send_dreq(id, machine->now);
		break;
	case 5:
		cm_send_drep(id, machine->now);
		break;
	case 6:
		cm_send_sidr_rep(id, &service, machine->now);
		break;
	case 7:
		if (cm_notify(id, machine->now) == 0)
			must(cm_id_state(id) == CM_STATE_ESTABLISHED);
		break;
	}
	take_turns(machine);
}

static void step_destroy(struct machine *machine)
{
	destroy_id(machine, &machine->ids[input_u8(&machine->input) % IDS]);
	take_turns(machine);
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
	must(cm_id_create(machine->hca->cm, NULL, &id) == 0);
	if (cm_id_listen(id, &listen) == 0)
		machine->listeners[which] = id;
	else
		cm_id_destroy(id, machine->now);
}

/* On to the next deadline, or by a power of two. */
static void step_time(struct machine *machine)
{
	uint8_t choice = input_u8(&machine->input);
	uint64_t deadline = hca_deadline(machine->hca);

	if (choice & 0x80)
		machine->now += UINT64_C(1) << (choice & 63) % 40;
	else if (deadline != TIME_NEVER && deadline > machine->now)
		machine->now = deadline;
	take_turns(machine);
}

static void step(struct machine *machine)
{
	static void (*const steps[])(struct machine *) = {
		step_message, step_message, step_message, step_connect,
		step_answer,  step_destroy, step_listen,  step_time,
	};

	steps[input_u8(&machine->input) & 7](machine);
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
