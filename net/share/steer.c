/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/share/steer.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#include "net/share/slot.h"
#include "net/wire/mad.h"
#include "net/wire/wire.h"

/* The most instructions that a conditional jump can skip; an unconditional one has no limit. */
#define JUMP_MAX 255

/* A MAD in a packet to QP 1, and a message of the connection manager in it. */
#define MAD_OFFSET (sizeof(struct bth) + sizeof(struct deth))
#define ATTRIBUTE_OFFSET (MAD_OFFSET + offsetof(struct mad_header, attribute))
#define CM_OFFSET (MAD_OFFSET + sizeof(struct mad_header))

/* An index that no socket has: the kernel chooses by its hash. */
#define NO_INDEX UINT32_MAX

struct assembly {
	struct sock_filter *code;
	unsigned int length;
	const struct steer_range *ranges;
};

static void emit(struct assembly *assembly, uint16_t code, uint32_t k, uint8_t jt, uint8_t jf)
{
	assembly->code[assembly->length++] = (struct sock_filter){code, jt, jf, k};
}

#define LEAF_LENGTH 4

static unsigned int tree_length(unsigned int count)
{
	unsigned int left = count / 2, length;

	if (count == 1)
		return LEAF_LENGTH;
	length = tree_length(left);
	return (length > JUMP_MAX ? 2 : 1) + length + tree_length(count - left);
}

/* Binary search for the slot, which is in the accumulator. */
static void emit_tree(struct assembly *assembly, unsigned int first, unsigned int count)
{
	const struct steer_range *range = &assembly->ranges[first];
	unsigned int left = count / 2, length;

	if (count == 1) {
		emit(assembly, BPF_JMP | BPF_JGE | BPF_K, range->first, 0, 2);
		emit(assembly, BPF_JMP | BPF_JGT | BPF_K, range->last, 1, 0);
		emit(assembly, BPF_RET | BPF_K, range->index, 0, 0);
		emit(assembly, BPF_RET | BPF_K, NO_INDEX, 0, 0);
		return;
	}
	length = tree_length(left);
	if (length > JUMP_MAX) {
		emit(assembly, BPF_JMP | BPF_JGE | BPF_K, range[left].first, 0, 1);
		emit(assembly, BPF_JMP | BPF_JA, length, 0, 0);
	} else {
		emit(assembly, BPF_JMP | BPF_JGE | BPF_K, range[left].first, length, 0);
	}
	emit_tree(assembly, first, left);
	emit_tree(assembly, first + left, count - left);
}

static void emit_signal(struct assembly *assembly, uint64_t secret)
{
	const uint32_t words[] = {STEER_MAGIC, secret >> 32, secret};
	const uint8_t count = sizeof(words) / sizeof(*words);

	for (uint8_t i = 0; i < count; i++) {
		emit(assembly, BPF_LD | BPF_W | BPF_ABS, 4 * i, 0, 0);
		emit(assembly, BPF_JMP | BPF_JEQ | BPF_K, words[i], 0, 2 * (count - i));
	}
	emit(assembly, BPF_LD | BPF_W | BPF_ABS, offsetof(struct steer_signal, index), 0, 0);
	emit(assembly, BPF_RET | BPF_A, 0, 0, 0);
}

/*
 * A request goes to the member that claims the service. Without one it goes to a member
 * at random, so that a sender that retransmits it gets past a process that doesn't run.
 */
static void emit_request(struct assembly *assembly, const struct steer_plan *plan)
{
	emit(assembly, BPF_LD | BPF_W | BPF_ABS, CM_OFFSET + CM_SERVICE_ID + 4, 0, 0);
	for (unsigned int i = 0; i < plan->service_count; i++) {
		emit(assembly, BPF_JMP | BPF_JEQ | BPF_K, plan->services[i].id, 0, 1);
		emit(assembly, BPF_RET | BPF_K, plan->services[i].index, 0, 0);
	}
	emit(assembly, BPF_LD | BPF_W | BPF_ABS, SKF_AD_OFF + SKF_AD_RANDOM, 0, 0);
	emit(assembly, BPF_ALU | BPF_MOD | BPF_K, plan->sockets, 0, 0);
	emit(assembly, BPF_ALU | BPF_ADD | BPF_K, plan->first, 0, 0);
	emit(assembly, BPF_RET | BPF_A, 0, 0, 0);
}

/* Leave a gap for a jump; land_jump() has it lead to where the program has got by then. */
static struct sock_filter *emit_jump(struct assembly *assembly)
{
	emit(assembly, BPF_JMP | BPF_JA, 0, 0, 0);
	return &assembly->code[assembly->length - 1];
}

static void land_jump(const struct assembly *assembly, struct sock_filter *jump)
{
	jump->k = &assembly->code[assembly->length] - jump - 1;
}

/*
 * QP 1: an answer carries the comm id of the process that asked, and the comm id that
 * process's slot, which is looked up as a QP number's is. Packets to other QPs skip this.
 */
static void emit_special(struct assembly *assembly, const struct steer_plan *plan)
{
	struct sock_filter *not_special, *answer;

	emit(assembly, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0);
	not_special = emit_jump(assembly);
	emit(assembly, BPF_LD | BPF_H | BPF_ABS, ATTRIBUTE_OFFSET, 0, 0);
	emit(assembly, BPF_JMP | BPF_JEQ | BPF_K, CM_REQ, 2, 0);
	emit(assembly, BPF_JMP | BPF_JEQ | BPF_K, CM_SIDR_REQ, 1, 0);
	answer = emit_jump(assembly);
	emit_request(assembly, plan);
	land_jump(assembly, answer);
	emit(assembly, BPF_JMP | BPF_JEQ | BPF_K, CM_SIDR_REP, 0, 2);
	emit(assembly, BPF_LD | BPF_W | BPF_ABS, CM_OFFSET + CM_LOCAL_ID, 0, 0);
	emit(assembly, BPF_JMP | BPF_JA, 1, 0, 0);
	emit(assembly, BPF_LD | BPF_W | BPF_ABS, CM_OFFSET + CM_REMOTE_ID, 0, 0);
	emit(assembly, BPF_ALU | BPF_RSH | BPF_K, SLOT_COMM_ID_BITS, 0, 0);
	land_jump(assembly, not_special);
}

unsigned int steer_program(const struct steer_plan *plan, struct sock_filter *code)
{
	struct assembly assembly = {.code = code, .ranges = plan->ranges};

	emit_signal(&assembly, plan->secret);
	emit(&assembly, BPF_LD | BPF_W | BPF_ABS, offsetof(struct bth, dest_qp), 0, 0);
	emit(&assembly, BPF_ALU | BPF_AND | BPF_K, QPN_MASK, 0, 0);
	emit(&assembly, BPF_ALU | BPF_RSH | BPF_K, SLOT_QPN_BITS, 0, 0);
	emit_special(&assembly, plan);
	if (plan->range_count)
		emit_tree(&assembly, 0, plan->range_count);
	else
		emit(&assembly, BPF_RET | BPF_K, NO_INDEX, 0, 0);
	return assembly.length;
}

static uint32_t read_be32(const uint8_t *at)
{
	__be32 value;

	memcpy(&value, at, sizeof(value));
	return be32toh(value);
}

/* A packet to QP 1 that is long enough for a message of the connection manager. */
static struct steer_target target_of_mad(const uint8_t *mad)
{
	const uint8_t *message = mad + sizeof(struct mad_header);
	uint32_t remote_id = read_be32(message + CM_REMOTE_ID);
	__be64 service_id;

	switch (mad_attribute(mad)) {
	case CM_REQ:
	case CM_SIDR_REQ:
		memcpy(&service_id, message + CM_SERVICE_ID, sizeof(service_id));
		return (struct steer_target){.request = true, .service_id = be64toh(service_id)};
	case CM_SIDR_REP:
		return (struct steer_target){
			.slot = slot_of_comm_id(read_be32(message + CM_LOCAL_ID))};
	default:
		return (struct steer_target){
			.slot = slot_of_comm_id(remote_id),
			.by_sender = mad_attribute(mad) == CM_REJ && !remote_id,
		};
	}
}

struct steer_target steer_target(const void *packet, uint32_t length)
{
	const uint8_t *bytes = packet;
	uint32_t qpn;

	if (length < sizeof(struct bth))
		return (struct steer_target){};
	qpn = read_be32(bytes + offsetof(struct bth, dest_qp)) & QPN_MASK;
	if (slot_of_qpn(qpn))
		return (struct steer_target){.slot = slot_of_qpn(qpn)};
	if (length < MAD_OFFSET + MAD_LENGTH)
		return (struct steer_target){};
	return target_of_mad(bytes + MAD_OFFSET);
}

int steer_attach(int fd, const struct sock_filter *code, unsigned int length)
{
	struct sock_fprog program;

	/* With its padding: the kernel copies that, and valgrind looks at all of it. */
	memset(&program, 0, sizeof(program));
	program.len = length;
	program.filter = (struct sock_filter *)code;
	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program)) < 0
		       ? errno
		       : 0;
}

int steer_detach(int fd)
{
	int unused = 0;

	return setsockopt(fd, SOL_SOCKET, SO_DETACH_REUSEPORT_BPF, &unused, sizeof(unused)) < 0
		       ? errno
		       : 0;
}
