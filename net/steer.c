/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/steer.h"

#include <errno.h>
#include <stddef.h>
#include <sys/socket.h>

#include "net/link.h"

/* What a conditional jump can skip; further goes an unconditional one. */
#define JUMP_MAX 255

/* An index that no socket has. */
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
 * QP 1 and other special QPs: at random, so that a sender who repeats himself gets
 * past a process that doesn't run.
 */
static void emit_special(struct assembly *assembly, unsigned int sockets)
{
	emit(assembly, BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 3);
	emit(assembly, BPF_LD | BPF_W | BPF_ABS, SKF_AD_OFF + SKF_AD_RANDOM, 0, 0);
	emit(assembly, BPF_ALU | BPF_MOD | BPF_K, sockets, 0, 0);
	emit(assembly, BPF_RET | BPF_A, 0, 0, 0);
}

unsigned int steer_program(const struct steer_range *ranges, unsigned int count,
			   unsigned int sockets, uint64_t secret, struct sock_filter *code)
{
	struct assembly assembly = {.code = code, .ranges = ranges};

	emit_signal(&assembly, secret);
	emit(&assembly, BPF_LD | BPF_W | BPF_ABS, offsetof(struct bth, dest_qp), 0, 0);
	emit(&assembly, BPF_ALU | BPF_AND | BPF_K, QPN_MASK, 0, 0);
	emit(&assembly, BPF_ALU | BPF_RSH | BPF_K, LINK_SLOT_BITS, 0, 0);
	emit_special(&assembly, sockets);
	if (count)
		emit_tree(&assembly, 0, count);
	else
		emit(&assembly, BPF_RET | BPF_K, NO_INDEX, 0, 0);
	return assembly.length;
}

int steer_attach(int fd, const struct sock_filter *code, unsigned int length)
{
	const struct sock_fprog program = {.len = length, .filter = (struct sock_filter *)code};

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
