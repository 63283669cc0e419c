/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A QP at the mercy of its peer. The input configures one HCA with one QP, and how
 * packets come to it, and then is a list of steps: packets, which get a valid ICRC,
 * and between them what an application does (post, poll, modify, take memory away)
 * and time.
 *
 * A packet of the input would hardly ever name the right QP, PSN, key or length.
 * So the byte before it says which of these are put right, and the fuzzer is
 * left to decide what is wrong with the rest.
 *
 * Apart from what sanitizers see it must hold: completions come in order, each
 * request completes once, memory without remote write access stays as it is, packets
 * that leave are well-formed, work comes to an end, and everything can be
 * destroyed.
 */
#include <fcntl.h>

#include "emu/objects/cq.h"
#include "emu/objects/mr.h"
#include "emu/objects/mw.h"
#include "emu/objects/pd.h"
#include "emu/objects/qp.h"
#include "emu/objects/srq.h"
#include "emu/objects/xrcd.h"
#include "emu/transport/placement.h"
#include "host.h"
#include "net/cause/cause.h"
#include "net/newer_verbs.h"
#include "net/tuning.h"
#include "tests/destroy.h"

/* Of the first byte: another one follows it, of these. */
#define MORE 64

enum {
	PLACED_LATE = 1 << 0,
	DROPS_OUT_OF_ORDER = 1 << 1,
	CHECKS_RKEY = 1 << 2, /* of requests that transfer nothing */
	SHARED = 1 << 3,      /* packets come through memory */
	MARKED = 1 << 4,      /* they met congestion */
	EXPLAINED = 1 << 5,
};

#define REGION_LENGTH 20000
#define PSN_START 0xfffff8 /* wraps soon */
#define QKEY 0x1234
#define DEPTH 8
#define SMALL_CQ 5

#define REMOTE                                                                                     \
	(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |             \
	 ACCESS_FLUSH_GLOBAL)

enum { REGION_ALL, REGION_READ_ONLY, REGION_LOCAL, REGIONS };

static const int region_access[REGIONS] = {
	[REGION_ALL] = IBV_ACCESS_LOCAL_WRITE | REMOTE | IBV_ACCESS_MW_BIND,
	[REGION_READ_ONLY] = IBV_ACCESS_REMOTE_READ,
	[REGION_LOCAL] = IBV_ACCESS_LOCAL_WRITE,
};

struct region {
	uint8_t *memory;
	struct mr *mr; /* NULL when it was deregistered */
};

/* Which requests are outstanding: those from @oldest to @next - 1, in order. */
struct ledger {
	uint32_t oldest, next;
	bool silent[2 * DEPTH]; /* succeeds without a completion */
};

struct machine {
	struct host host; /* first, so that its link is the machine */
	struct input input;
	struct pd *pd;
	struct xrcd *xrcd; /* of an XRC_RECV QP, as is the SRQ; else NULL */
	struct cq *cq;
	struct srq *srq;
	struct qp *qp;
	struct ah *ah;
	struct mw *windows[2];
	struct region regions[REGIONS];
	enum ibv_qp_type type;
	uint8_t options;
	struct ibv_qp_attr attr;
	struct ledger sends, receives;

	uint8_t bytes[WIRE_PACKET_MAX + 64];
};

/* --- the link -------------------------------------------------------------------- */

static void check_sent(struct machine *machine, const struct link_packet *packet)
{
	uint8_t bytes[WIRE_PACKET_MAX];
	uint32_t length = link_packet_length(packet), payload = 0;
	struct packet parsed;

	must(gid_equal(&packet->path->source, &machine->host.gids.entries[0].gid));
	must(length <= sizeof(bytes));
	for (unsigned int i = 0; i < packet->payload_count; i++)
		payload += packet->payload[i].iov_len;
	must(payload == packet->payload_length);
	link_packet_copy(packet, bytes);
	must(length % 4 == 0);
	must(packet_parse(&parsed, bytes, length) == 0);
	must(parsed.op->headers_length == packet->headers_length);
	must(parsed.payload_length == payload && payload <= machine->qp->mtu);
	must(parsed.op->payload != PAYLOAD_NONE || payload == 0);
	must(parsed.op->payload != PAYLOAD_FULL || payload == machine->qp->mtu);
	must(parsed.op->payload != PAYLOAD_SOME || payload > 0);
}

static unsigned int stub_send(struct link *link, struct link_packet *packets, unsigned int count,
			      uint64_t now)
{
	for (unsigned int i = 0; i < count; i++)
		check_sent((struct machine *)link, &packets[i]);
	return 0;
}

/* A receiver whose buffer is sometimes full. */
static uint32_t stub_rcvbuf_space(struct link *link, const struct path *path, uint32_t qpn)
{
	return ((struct host *)link)->now & 0x100000 ? 1024 : UINT32_MAX;
}

/* One that sometimes doesn't read. */
static uint32_t stub_unread(struct link *link, const struct path *path, uint32_t qpn,
			    uint64_t *read)
{
	*read = ((struct host *)link)->now / 0x100000;
	return ((struct host *)link)->now & 0x200000 ? 1024 : 0;
}

static const struct link_ops stub_ops = {
	.send = stub_send,
	.receive = host_receive,
	.deadline = host_deadline,
	.rcvbuf_space = stub_rcvbuf_space,
	.unread = stub_unread,
};

/* --- completions --------------------------------------------------------------------- */

/* A wr_id is the number of the request, whether it is a send, and the length of a receive. */
#define SEND_ID (UINT64_C(1) << 32)
#define LENGTH_SHIFT 40

/* Those up to @id, but for it, succeeded without a completion. */
static void check_silent(const struct ledger *sends, uint32_t id)
{
	must(id - sends->oldest <= sends->next - sends->oldest);
	for (uint32_t i = sends->oldest; i != id; i++)
		must(sends->silent[i % (2 * DEPTH)]);
}

static void check_send(struct machine *machine, const struct ibv_wc *wc)
{
	uint32_t id = wc->wr_id;

	must(id != machine->sends.next);
	check_silent(&machine->sends, id);
	machine->sends.oldest = id + 1;
}

static void check_receive(struct machine *machine, const struct ibv_wc *wc)
{
	must((uint32_t)wc->wr_id == machine->receives.oldest);
	must(wc->status != IBV_WC_SUCCESS || wc->byte_len <= wc->wr_id >> LENGTH_SHIFT ||
	     wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM);
	must(machine->receives.oldest != machine->receives.next);
	machine->receives.oldest++;
}

static bool poll_one(struct machine *machine)
{
	struct completion completion;

	if (cq_poll(machine->cq, &completion, 1) == 0)
		return false;
	must(completion.wc.qp_num == machine->qp->number);
	if (completion.wc.wr_id & SEND_ID)
		check_send(machine, &completion.wc);
	else
		check_receive(machine, &completion.wc);
	return true;
}

/* --- making it ------------------------------------------------------------------------- */

static void register_region(struct machine *machine, unsigned int i)
{
	struct region *region = &machine->regions[i];

	must(mr_register(machine->pd, region->memory, REGION_LENGTH, (uintptr_t)region->memory,
			 region_access[i], &region->mr) == 0);
}

static void make_srq(struct machine *machine, uint8_t flags)
{
	struct ibv_srq_attr srq = {.max_wr = DEPTH, .max_sge = 2};

	if (machine->type == IBV_QPT_XRC_RECV) {
		must(xrcd_open(machine->host.hca, NULL, O_CREAT, &machine->xrcd) == 0);
		must(srq_create_xrc(machine->pd, machine->xrcd, machine->cq, &srq, &machine->srq) ==
		     0);
	} else if (flags & 4 && machine->type != IBV_QPT_UC) {
		must(srq_create(machine->pd, &srq, &machine->srq) == 0);
	}
}

static void make_objects(struct machine *machine, uint8_t flags)
{
	struct ibv_ah_attr ah = {.is_global = 1, .port_num = 1, .grh.dgid = machine->host.peer};

	must(pd_alloc(machine->host.hca, &machine->pd) == 0);
	must(cq_create(machine->host.hca, flags & 8 ? SMALL_CQ : 1000, &machine->cq) == 0);
	make_srq(machine, flags);
	must(ah_create(machine->pd, &ah, &machine->ah) == 0);
	for (unsigned int i = 0; i < 2; i++)
		must(mw_alloc(machine->pd, i ? IBV_MW_TYPE_2 : IBV_MW_TYPE_1,
			      &machine->windows[i]) == 0);
	for (unsigned int i = 0; i < REGIONS; i++) {
		machine->regions[i].memory = malloc(REGION_LENGTH);
		must(machine->regions[i].memory);
		memset(machine->regions[i].memory, 0x11 * (i + 1), REGION_LENGTH);
		register_region(machine, i);
	}
}

static void make_qp(struct machine *machine, uint8_t flags)
{
	struct ibv_qp_init_attr init = {
		.send_cq = &machine->cq->ibv,
		.recv_cq = &machine->cq->ibv,
		.srq = (struct ibv_srq *)machine->srq,
		.cap = {.max_send_wr = DEPTH,
			.max_recv_wr = DEPTH,
			.max_send_sge = 2,
			.max_recv_sge = 2,
			.max_inline_data = 64},
		.qp_type = machine->type,
		.sq_sig_all = flags >> 4 & 1,
	};

	if (machine->xrcd)
		must(qp_create_xrc_recv(machine->xrcd, &init, &machine->qp) == 0);
	else
		must(qp_create(machine->host.hca, machine->pd, &init, &machine->qp) == 0);
}

static int modify(struct machine *machine, enum ibv_qp_state state, int mask)
{
	machine->attr.qp_state = state;
	return qp_modify(machine->qp, &machine->attr, mask | IBV_QP_STATE, machine->host.now);
}

static void connect_qp(struct machine *machine)
{
	bool rc = machine->type == IBV_QPT_RC, ud = machine->type == IBV_QPT_UD;
	bool answers = rc || machine->type == IBV_QPT_XRC_RECV;

	must(modify(machine, IBV_QPS_INIT,
		    IBV_QP_PKEY_INDEX | IBV_QP_PORT | (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)) ==
	     0);
	must(modify(machine, IBV_QPS_RTR,
		    (ud ? 0 : IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN) |
			    (answers ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0)) == 0);
	must(modify(machine, IBV_QPS_RTS,
		    IBV_QP_SQ_PSN | (answers ? IBV_QP_TIMEOUT : 0) |
			    (rc ? IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC
				: 0)) == 0);
}

static void make_hca(struct machine *machine)
{
	const struct hca_behaviour behaviour = {
		.drops_out_of_order = machine->options & DROPS_OUT_OF_ORDER,
		.zero_length_checks_rkey = machine->options & CHECKS_RKEY,
	};

	cause_configure(machine->options & EXPLAINED);
	host_init(&machine->host, &stub_ops, (struct hca_options){.behaviour = &behaviour});
	if (machine->options & PLACED_LATE)
		must(placement_enable(machine->host.hca, 1) == 0);
}

static void make_machine(struct machine *machine)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD,
						 IBV_QPT_XRC_RECV};
	uint8_t flags = input_u8(&machine->input);
	uint8_t limits = input_u8(&machine->input), retries = input_u8(&machine->input);

	machine->type = types[flags & 3];
	machine->options = flags & MORE ? input_u8(&machine->input) : 0;
	make_hca(machine);
	make_objects(machine, flags);
	make_qp(machine, flags);
	machine->attr = (struct ibv_qp_attr){
		.port_num = 1,
		.qkey = QKEY,
		.qp_access_flags = flags & 32 ? REMOTE : REMOTE & limits,
		.path_mtu = IBV_MTU_256 + limits % 5,
		.dest_qp_num = 0x123456,
		.rq_psn = PSN_START,
		.sq_psn = PSN_START,
		.max_rd_atomic = limits >> 4 & 3,
		.max_dest_rd_atomic = limits >> 6 & 3,
		.min_rnr_timer = 1,
		.timeout = 1,
		.retry_cnt = retries & 7,
		.rnr_retry = retries >> 4 & 7,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh.dgid = machine->host.peer},
		.alt_port_num = 1,
		.alt_timeout = 1,
	};
	machine->attr.alt_ah_attr = machine->attr.ah_attr;
	connect_qp(machine);
}

/* --- unmaking it ----------------------------------------------------------------------- */

/* In ERR all that was posted completes, soon, unless the CQ could not take it. */
static void drain(struct machine *machine)
{
	bool overrun;

	modify(machine, IBV_QPS_ERR, 0);
	host_wait(&machine->host, PLACEMENT_DELAY);
	overrun = machine->cq->overrun;
	while (poll_one(machine))
		;
	if (overrun || machine->qp->state != IBV_QPS_ERR)
		return;
	check_silent(&machine->sends, machine->sends.next);
	must(machine->srq || machine->receives.oldest == machine->receives.next);
}

static void check_read_only(const struct machine *machine)
{
	const uint8_t *memory = machine->regions[REGION_READ_ONLY].memory;

	for (unsigned int i = 0; i < REGION_LENGTH; i++)
		must(memory[i] == 0x11 * (REGION_READ_ONLY + 1));
}

static void unmake_machine(struct machine *machine)
{
	drain(machine);
	check_read_only(machine);
	must(qp_destroy(machine->qp) == 0);
	must(machine->host.hca->packets.used_count == 0);
	if (machine->srq)
		must(srq_destroy(machine->srq) == 0);
	if (machine->xrcd)
		must(xrcd_close(machine->xrcd) == 0);
	must(cq_destroy(machine->cq) == 0);
	for (unsigned int i = 0; i < 2; i++)
		if (machine->windows[i])
			mw_dealloc(machine->windows[i]);
	for (unsigned int i = 0; i < REGIONS; i++) {
		if (machine->regions[i].mr)
			must(mr_deregister(machine->regions[i].mr) == 0);
		free(machine->regions[i].memory);
	}
	ah_destroy(machine->ah);
	must(pd_dealloc(machine->pd) == 0);
	must(!machine->host.hca->destinations);
	host_destroy(&machine->host);
}

/* --- steps: packets ---------------------------------------------------------------------- */

enum {
	PUT_QP = 1 << 0,
	PUT_PSN = 1 << 1, /* the low byte is a signed distance from what is expected */
	PUT_KEY = 1 << 2, /* the low bits of key and address choose a region and a place in it */
	PUT_PAYLOAD = 1 << 3, /* as long as the path MTU */
	PUT_PAD = 1 << 4,     /* also: no transport version */
	PUT_QKEY = 1 << 5,
	OTHER_SOURCE = 1 << 6,
	BAD_ICRC = 1 << 7,
};

static uint32_t some_key(struct machine *machine, uint32_t choice)
{
	unsigned int i = choice % (REGIONS + 2);

	if (i < REGIONS)
		return machine->regions[i].mr ? machine->regions[i].mr->ibv.rkey : choice;
	return machine->windows[i - REGIONS] ? machine->windows[i - REGIONS]->key.value : choice;
}

/* Windows show the first region. */
static uint64_t some_address(struct machine *machine, uint32_t choice, uint64_t offset)
{
	unsigned int i = choice % (REGIONS + 2);

	return (uintptr_t)machine->regions[i < REGIONS ? i : REGION_ALL].memory + (offset & 0x7fff);
}

static void put_keys(struct machine *machine, const struct opcode *op)
{
	uint8_t *headers = machine->bytes;

	if (op->reth) {
		struct reth *reth = (struct reth *)(headers + op->reth);
		uint32_t choice = be32toh(reth->rkey);

		reth->rkey = htobe32(some_key(machine, choice));
		reth->va = htobe64(some_address(machine, choice, be64toh(reth->va)));
	}
	if (op->atomiceth) {
		struct atomiceth *eth = (struct atomiceth *)(headers + op->atomiceth);
		uint32_t choice = be32toh(eth->rkey);

		eth->rkey = htobe32(some_key(machine, choice));
		eth->va = htobe64(some_address(machine, choice, be64toh(eth->va)));
	}
	if (op->ieth) {
		struct ieth *ieth = (struct ieth *)(headers + op->ieth);

		ieth->rkey = htobe32(some_key(machine, be32toh(ieth->rkey)));
	}
	if (op->xrceth && machine->xrcd)
		((struct xrceth *)(headers + op->xrceth))->srq = htobe32(machine->srq->number);
}

/* Returns the length, without the ICRC. */
static uint32_t put_right(struct machine *machine, uint8_t flags, uint32_t length)
{
	struct bth *bth = (struct bth *)machine->bytes;
	const struct opcode *op = opcode_find(bth->opcode);
	bool response = op && op->flags & OPCODE_RESPONSE;
	uint32_t base =
		response ? machine->qp->requester.unacked : machine->qp->responder.expected_psn;

	if (flags & PUT_QP)
		bth->dest_qp = htobe32(machine->qp->number);
	if (flags & PUT_PSN)
		bth->psn = htobe32((be32toh(bth->psn) & BTH_ACK_REQUEST) |
				   psn_add(base, (int8_t)be32toh(bth->psn)));
	if (!op)
		return length;
	if (length < op->headers_length)
		length = op->headers_length;
	if (flags & PUT_KEY)
		put_keys(machine, op);
	if (flags & PUT_QKEY && op->deth)
		((struct deth *)(machine->bytes + op->deth))->qkey = htobe32(QKEY);
	if (flags & PUT_PAYLOAD)
		length = op->headers_length + machine->qp->mtu;
	if (flags & PUT_PAD) {
		uint32_t pad = pad_length(length - op->headers_length);

		bth->flags = (bth->flags & (BTH_SOLICITED | BTH_MIGREQ)) | pad << BTH_PAD_SHIFT;
		length += pad;
	}
	return length;
}

static void step_packet(struct machine *machine)
{
	uint8_t flags = input_u8(&machine->input);
	uint32_t length = input_u8(&machine->input);
	struct link_frame *frame = &machine->host.frame;
	uint8_t *exact;

	memset(machine->bytes, 0, sizeof(machine->bytes));
	length = input_bytes(&machine->input, machine->bytes, length);
	if (length < sizeof(struct bth))
		length = sizeof(struct bth);
	length = put_right(machine, flags, length);
	must(length + ICRC_LENGTH <= sizeof(machine->bytes));
	host_address_frame(&machine->host, flags & OTHER_SOURCE);
	host_seal(&machine->host, machine->bytes, length);
	if (flags & BAD_ICRC)
		machine->bytes[frame->length - 1] ^= 1;
	frame->shared = machine->options & SHARED;
	frame->trusted = frame->shared && !(flags & BAD_ICRC);
	frame->traffic_class = machine->options & MARKED ? 3 : 0;
	/* In memory of its own, so that reading beyond it is seen. */
	exact = malloc(frame->length);
	must(exact);
	memcpy(exact, machine->bytes, frame->length);
	frame->data = exact;
	host_deliver(&machine->host);
	free(exact);
}

/* --- steps: the application ---------------------------------------------------------------- */

static const uint32_t lengths[] = {0, 1, 8, 255, 256, 300, 1024, 4096, 5000, REGION_LENGTH, 64, 3};

/* One or two SGEs for @choice; sometimes not quite inside their region. */
static int make_sges(struct machine *machine, struct ibv_sge sges[2], uint8_t choice)
{
	uint32_t length = lengths[(choice & 15) % (sizeof(lengths) / sizeof(lengths[0]))];
	unsigned int region = (choice >> 4) % REGIONS;
	uint32_t first = choice & 64 ? length / 3 : length;

	for (unsigned int i = 0; i < 2; i++)
		sges[i].lkey = some_key(machine, region);
	sges[0].addr = some_address(machine, region, 0);
	sges[0].length = first;
	sges[1].addr = some_address(machine, region, choice == 0xff ? 1 : first);
	sges[1].length = length - first;
	return length == 0 ? 0 : first == length ? 1 : 2;
}

static void set_bind(struct machine *machine, struct ibv_send_wr *wr, uint8_t choice)
{
	struct mw *window = machine->windows[choice & 1];

	wr->num_sge = 0;
	wr->bind_mw.mw = window ? &window->ibv : NULL;
	wr->bind_mw.rkey = window ? window->key.value + (choice >> 1 & 1) : 0;
	wr->bind_mw.bind_info = (struct ibv_mw_bind_info){
		.mr = machine->regions[REGION_ALL].mr ? &machine->regions[REGION_ALL].mr->ibv
						      : NULL,
		.addr = (uintptr_t)machine->regions[REGION_ALL].memory,
		.length = choice & 4 ? 0 : REGION_LENGTH / 2,
		.mw_access_flags = REMOTE | (choice & 8 ? IBV_ACCESS_ZERO_BASED : 0),
	};
}

static void step_post_send(struct machine *machine)
{
	uint8_t opcode = input_u8(&machine->input), flags = input_u8(&machine->input);
	uint8_t choice = input_u8(&machine->input), remote = input_u8(&machine->input);
	struct ibv_sge sges[2];
	struct flush_wr request = {.flush = {.length = flags, .placement = FLUSH_GLOBAL}};
	struct ibv_send_wr *bad, wr = {
					 .wr_id = SEND_ID | machine->sends.next,
					 .sg_list = sges,
					 .num_sge = make_sges(machine, sges, choice),
					 .opcode = opcode & 15,
					 .send_flags = flags & (IBV_SEND_FENCE | IBV_SEND_SIGNALED |
								IBV_SEND_SOLICITED),
				 };

	/* Inline data is read when it is posted: only what is there may be named. */
	if (flags & IBV_SEND_INLINE && wr.num_sge && sges[0].length + sges[1].length <= 64)
		wr.send_flags |= IBV_SEND_INLINE;
	if (wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = remote;
		wr.wr.atomic.rkey = remote;
	} else if (machine->type == IBV_QPT_UD) {
		wr.wr.ud.ah = remote & 1 ? NULL : &machine->ah->ibv;
		wr.wr.ud.remote_qpn = 17;
	} else if (wr.opcode != IBV_WR_BIND_MW) {
		wr.wr.rdma.remote_addr = remote;
		wr.wr.rdma.rkey = remote;
	}
	if (wr.opcode == IBV_WR_LOCAL_INV || wr.opcode == IBV_WR_SEND_WITH_INV)
		wr.invalidate_rkey = some_key(machine, remote);
	if (wr.opcode == IBV_WR_BIND_MW)
		set_bind(machine, &wr, remote);
	if (wr.opcode == IBV_WR_LOCAL_INV || wr.opcode == WR_FLUSH)
		wr.num_sge = 0;
	machine->sends.silent[machine->sends.next % (2 * DEPTH)] =
		!(machine->qp->signal_all || flags & IBV_SEND_SIGNALED);
	request.wr = wr;
	if (qp_post_send(machine->qp, &request.wr, &bad, flags & 128,
			 LAZY_TIME(machine->host.now)) == 0)
		machine->sends.next++;
	host_progress(&machine->host);
}

static void step_post_recv(struct machine *machine)
{
	struct ibv_sge sges[2];
	struct ibv_recv_wr *bad, wr = {.wr_id = machine->receives.next, .sg_list = sges};
	const struct ibv_recv_wr *refused;
	int error;

	wr.num_sge = make_sges(machine, sges, input_u8(&machine->input));
	for (int i = 0; i < wr.num_sge; i++)
		wr.wr_id += (uint64_t)sges[i].length << LENGTH_SHIFT;
	error = machine->srq ? srq_post(machine->srq, &wr, &refused)
			     : qp_post_recv(machine->qp, &wr, &bad);
	if (!error)
		machine->receives.next++;
	host_progress(&machine->host);
}

/* On by a power of two, or to the next deadline. */
static void step_time(struct machine *machine)
{
	uint8_t choice = input_u8(&machine->input);

	host_wait(&machine->host, choice & 0x80 ? UINT64_C(1) << (choice & 31) : 0);
}

static void step_poll(struct machine *machine)
{
	for (uint8_t i = input_u8(&machine->input) & 15; i > 0; i--)
		poll_one(machine);
	cq_arm(machine->cq, false);
}

/* What was posted before is gone without a completion; an SRQ keeps what it has. */
static void reset(struct machine *machine)
{
	must(modify(machine, IBV_QPS_RESET, 0) == 0);
	machine->sends.oldest = machine->sends.next;
	if (!machine->srq)
		machine->receives.oldest = machine->receives.next;
}

static void step_modify(struct machine *machine)
{
	switch (input_u8(&machine->input) % 10) {
	case 0:
		modify(machine, IBV_QPS_ERR, 0);
		break;
	case 1:
		reset(machine);
		/* A receive that the QP had taken from the SRQ is lost with it. */
		if (!machine->srq)
			connect_qp(machine);
		break;
	case 2:
		modify(machine, IBV_QPS_SQD, 0);
		break;
	case 3:
		modify(machine, IBV_QPS_RTS, 0);
		break;
	case 4:
		machine->attr.qp_access_flags ^= REMOTE;
		modify(machine, IBV_QPS_RTS, IBV_QP_ACCESS_FLAGS);
		break;
	case 5:
		modify(machine, IBV_QPS_SQD, IBV_QP_MAX_DEST_RD_ATOMIC);
		break;
	case 6:
		modify(machine, IBV_QPS_SQD, IBV_QP_AV);
		break;
	case 7:
		modify(machine, IBV_QPS_SQD, IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT);
		break;
	case 8: /* by turns to where OTHER_SOURCE is, and to the peer */
		machine->attr.alt_ah_attr.grh.dgid.raw[15] ^= 1;
		machine->attr.path_mig_state = IBV_MIG_REARM;
		modify(machine, IBV_QPS_RTS, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE);
		break;
	case 9:
		machine->attr.path_mig_state = IBV_MIG_MIGRATED;
		modify(machine, IBV_QPS_RTS, IBV_QP_PATH_MIG_STATE);
		break;
	}
	host_progress(&machine->host);
}

static void step_memory(struct machine *machine)
{
	uint8_t choice = input_u8(&machine->input);
	struct region *region = &machine->regions[choice % REGIONS];

	if (choice & 64) {
		if (machine->windows[choice & 1])
			mw_dealloc(machine->windows[choice & 1]);
		machine->windows[choice & 1] = NULL;
	} else if (!region->mr) {
		register_region(machine, choice % REGIONS);
	} else if (mr_deregister(region->mr) == 0) {
		region->mr = NULL;
	}
	host_progress(&machine->host);
}

static void check_reorder(const struct machine *machine, const struct reorder *kept)
{
	must(kept->bytes <= REORDER_BYTES);
	must(kept->count <= REORDER_PSNS && kept->size <= 2 * REORDER_PSNS);
	if (!machine->qp->type->reliable || machine->options & DROPS_OUT_OF_ORDER ||
	    machine->qp->state == IBV_QPS_ERR || machine->qp->state == IBV_QPS_RESET)
		must(kept->count == 0);
}

/* What a peer can have us keep is bounded; what it didn't send in order is of no other use. */
static void check_kept(const struct machine *machine)
{
	size_t chunks = machine->host.hca->packets.used_count;

	must(chunks * PACKET_POOL_CHUNK <= REORDER_BYTES_ALL + PACKET_POOL_CHUNK);
	check_reorder(machine, &machine->qp->responder.kept);
	check_reorder(machine, &machine->qp->missing.kept);
}

static void step(struct machine *machine)
{
	static void (*const steps[])(struct machine *) = {
		step_packet, step_packet, step_post_send, step_post_recv,
		step_time,   step_poll,	  step_modify,	  step_memory,
	};

	steps[input_u8(&machine->input) & 7](machine);
	check_kept(machine);
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
