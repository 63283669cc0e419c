/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a link of a shared address receives and isn't for it is handed on to the link that it is
 * for: packets by the QP number, messages of the connection manager by the communication id or the
 * service id, and what a link had been handed that leaves.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pcap/pcap.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gid_of.h"
#include "killable.h"
#include "net/capture.h"
#include "net/share/roster_internal.h"
#include "net/udp/udp_link.h"
#include "net/wire/mad.h"
#include "no_roster.h"
#include "own_network.h"
#include "share_nodes.h"
#include "tests/run_suite.h"

#define SHARED "127.77.8.1"
#define OTHER "127.77.8.2"
#define PACKETS 32

/*
 * As if another process had all bytes that are the roster's lock. In truth none has, for the file
 * may be that of all processes of the user, which would wait, too. For as long as such processes
 * come and go it looks as if the lock went from one to the next, and it is waited for.
 */
static bool lock_is_held;

int fcntl(int fd, int command, ...)
{
	struct flock *lock;
	va_list arguments;

	va_start(arguments, command);
	lock = va_arg(arguments, struct flock *);
	va_end(arguments);
	if (lock_is_held && command == F_OFD_SETLK && lock->l_type == F_WRLCK &&
	    lock->l_start > ROSTER_MEMBERS) {
		errno = EAGAIN;
		return -1;
	}
	return syscall(SYS_fcntl, fd, command, lock);
}

static bool readable(struct node *node)
{
	struct pollfd polled[4];
	int fds[4], count = node->link->ops->descriptors(node->link, fds, 4);

	for (int i = 0; i < count; i++)
		polled[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
	return poll(polled, count, 0) > 0;
}

/* A frame of another member is handed on as it was received, one of our own isn't. */
START_TEST(frames_are_forwarded_by_qpn)
{
	struct node nodes[2] = {node_open(SHARED), node_open(SHARED)}, from = node_open(OTHER);
	struct link_frame frame, again;

	nodes_drain(nodes, 2);
	node_send(&from, &nodes[0], nodes[0].qpn, 7);
	ck_assert_int_eq(node_receive(&nodes[0], &frame), 7);
	ck_assert_uint_eq(frame.hop_limit, 0);
	ck_assert(!node_forward(&nodes[0], &frame));
	ck_assert(!readable(&nodes[1]));
	((struct bth *)frame.data)->dest_qp = htobe32(nodes[1].qpn);
	frame.flow_label = 0x12345;
	ck_assert(node_forward(&nodes[0], &frame));
	ck_assert(readable(&nodes[1]));
	ck_assert_uint_eq(nodes[1].link->ops->receive(nodes[1].link, &again, 1, 0), 1);
	ck_assert(!readable(&nodes[1]));
	ck_assert_uint_eq(again.length, frame.length);
	ck_assert_mem_eq(again.data, frame.data, frame.length);
	ck_assert(gid_equal(&again.source, &from.gid));
	ck_assert(gid_equal(&again.destination, &nodes[0].gid));
	ck_assert_uint_eq(again.source_port, frame.source_port);
	ck_assert_uint_eq(again.traffic_class, frame.traffic_class);
	ck_assert_uint_eq(again.hop_limit, frame.hop_limit);
	ck_assert_uint_eq(again.flow_label, frame.flow_label);
	ck_assert_int_eq(again.ip_id, frame.ip_id);
	ck_assert_uint_eq(again.forwards, 1);
	frame.forwards = 3;
	ck_assert(!node_forward(&nodes[0], &frame));
	/* A UD QP there would show it. */
	node_send(&from, &nodes[0], nodes[0].qpn, 8);
	ck_assert_int_eq(node_receive(&nodes[0], &frame), 8);
	ck_assert_uint_eq(frame.hop_limit, 64);
	node_close(&nodes[0]);
	node_close(&nodes[1]);
	node_close(&from);
}
END_TEST

/* By the member that they are for. */
START_TEST(forwarded_frames_are_captured)
{
	struct node nodes[2] = {node_open(SHARED)}, from = node_open(OTHER);
	char path[64], error[PCAP_ERRBUF_SIZE];
	struct link_frame frame;
	const uint8_t *bytes;
	struct pcap_pkthdr header;
	pcap_t *pcap;

	snprintf(path, sizeof(path), "/tmp/urxe-share-%d.pcap", (int)getpid());
	capture = capture_open(path);
	ck_assert_ptr_nonnull(capture);
	nodes[1] = node_open(SHARED);
	nodes_drain(nodes, 2);
	node_send(&from, &nodes[0], nodes[0].qpn, 7);
	ck_assert_int_eq(node_receive(&nodes[0], &frame), 7);
	((struct bth *)frame.data)->dest_qp = htobe32(nodes[1].qpn);
	ck_assert(node_forward(&nodes[0], &frame));
	ck_assert_uint_eq(nodes[1].link->ops->receive(nodes[1].link, &frame, 1, 0), 1);
	capture_flush(capture);
	pcap = pcap_open_offline(path, error);
	ck_assert_msg(pcap != NULL, "%s", error);
	bytes = pcap_next(pcap, &header);
	ck_assert_ptr_nonnull(bytes);
	ck_assert_uint_ge(header.caplen, frame.length);
	ck_assert_mem_eq(bytes + header.caplen - frame.length, frame.data, frame.length);
	ck_assert_ptr_null(pcap_next(pcap, &header));
	pcap_close(pcap);
	node_close(&nodes[0]);
	node_close(&nodes[1]);
	node_close(&from);
	capture_close(capture);
	ck_assert_int_eq(unlink(path), 0);
}
END_TEST

/* It is ours to answer then: nothing takes care of it. */
START_TEST(what_cant_be_forwarded_is_not)
{
	struct node nodes[2] = {node_open(SHARED), node_open(SHARED)};
	struct udp_share *owner = (struct udp_share *)node_share(&nodes[1]);
	struct udp_share *ours = (struct udp_share *)node_share(&nodes[0]);
	const struct bth bth = {.dest_qp = htobe32(nodes[1].qpn)};
	const struct link_frame frame = {
		.data = (const uint8_t *)&bth, .length = sizeof(bth), .destination = nodes[0].gid};
	uint16_t port = roster_control_port(owner->roster, roster_self(owner->roster));
	int fd = ours->control_fd;

	ck_assert(node_forward(&nodes[0], &frame));
	roster_set_control_port(owner->roster, 0);
	ck_assert(!node_forward(&nodes[0], &frame));
	roster_set_control_port(owner->roster, port);
	ours->control_fd = -1;
	ck_assert(!node_forward(&nodes[0], &frame));
	ours->control_fd = fd;
	node_close(&nodes[0]);
	node_close(&nodes[1]);
}
END_TEST

#define MAD_OFFSET (sizeof(struct bth) + sizeof(struct deth))

/* A message of the connection manager with @number (of 4 or 8 bytes) at @offset. */
static struct link_frame make_mad(uint8_t *bytes, const union ibv_gid *to, uint16_t attribute,
				  unsigned int offset, uint64_t number, unsigned int length)
{
	const struct bth bth = {.opcode = WIRE_UD | WIRE_SEND_ONLY, .dest_qp = htobe32(QPN_GSI)};
	const __be64 value = htobe64(number << (64 - 8 * length));

	memset(bytes, 0, MAD_OFFSET + MAD_LENGTH + ICRC_LENGTH);
	memcpy(bytes, &bth, sizeof(bth));
	bytes[MAD_OFFSET + 17] = attribute;
	memcpy(bytes + MAD_OFFSET + 24 + offset, &value, length);
	return (struct link_frame){.data = bytes,
				   .length = MAD_OFFSET + MAD_LENGTH + ICRC_LENGTH,
				   .source = *to,
				   .destination = *to};
}

static bool receives(struct node *node, const struct link_frame *frame)
{
	struct link_frame got;

	if (node->link->ops->receive(node->link, &got, 1, 0) != 1)
		return false;
	ck_assert_uint_eq(got.length, frame->length);
	ck_assert_mem_eq(got.data, frame->data, frame->length);
	return true;
}

START_TEST(mads_are_forwarded_by_comm_id)
{
	static const struct {
		uint16_t attribute;
		unsigned int offset;
	} cases[] = {{0x13, 4} /* REP */, {0x15, 4} /* DREQ */, {0x18, 0} /* SIDR_REP */};
	struct node nodes[2] = {node_open(SHARED), node_open(SHARED)};
	uint8_t bytes[MAD_OFFSET + MAD_LENGTH + ICRC_LENGTH];
	uint32_t first[2];

	nodes_drain(nodes, 2);
	for (unsigned int i = 0; i < 2; i++) {
		first[i] = node_share(&nodes[i])->ops->lease_comm_ids(node_share(&nodes[i]));
		ck_assert_uint_ne(first[i], 0);
		ck_assert_uint_eq(first[i] % SHARE_COMM_IDS, 0);
		ck_assert_uint_eq(node_share(&nodes[i])->ops->lease_comm_ids(node_share(&nodes[i])),
				  first[i]);
	}
	ck_assert_uint_ne(first[0], first[1]);
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		uint32_t last = first[1] + SHARE_COMM_IDS - 1;
		struct link_frame frame = make_mad(bytes, &nodes[0].gid, cases[i].attribute,
						   cases[i].offset, last, 4);

		ck_assert(node_forward(&nodes[0], &frame));
		ck_assert(receives(&nodes[1], &frame));
		ck_assert(!node_forward(&nodes[1], &frame));
		frame = make_mad(bytes, &nodes[0].gid, cases[i].attribute, cases[i].offset,
				 first[0], 4);
		ck_assert(!node_forward(&nodes[0], &frame));
		ck_assert(node_forward(&nodes[1], &frame));
		ck_assert(receives(&nodes[0], &frame));
	}
	node_close(&nodes[0]);
	node_close(&nodes[1]);
}
END_TEST

/* Of a peer that gives up before it has a comm id of ours. Those that get it don't hand it on. */
START_TEST(a_rej_without_a_comm_id_is_forwarded_to_all)
{
	struct node nodes[] = {node_open(SHARED), node_open(SHARED), node_open(SHARED)};
	uint8_t bytes[MAD_OFFSET + MAD_LENGTH + ICRC_LENGTH];
	struct link_frame frame;

	nodes_drain(nodes, 3);
	frame = make_mad(bytes, &nodes[0].gid, CM_REJ, CM_REMOTE_ID, 0, 4);
	ck_assert(node_forward(&nodes[0], &frame));
	ck_assert(receives(&nodes[1], &frame));
	ck_assert(receives(&nodes[2], &frame));
	ck_assert(!receives(&nodes[0], &frame));
	frame.forwards = 1;
	ck_assert(!node_forward(&nodes[1], &frame));

	frame = make_mad(bytes, &nodes[0].gid, CM_DREQ, CM_REMOTE_ID, 0, 4);
	ck_assert(!node_forward(&nodes[0], &frame));
	for (unsigned int i = 0; i < 3; i++)
		node_close(&nodes[i]);
}
END_TEST

/* The slot of the comm ids has QP numbers, too: the next lease is of these. */
START_TEST(comm_ids_leave_their_qp_numbers)
{
	const struct udp_options options = {.receive_buffer = 100000};
	union ibv_gid gid = gid_of(SHARED);
	struct lease lease, more;
	struct link *link;
	uint32_t first;

	ck_assert_int_eq(udp_link_create(&options, &link), 0);
	ck_assert_int_eq(link->ops->add_address(link, &gid, 0), 0);
	first = link->share->ops->lease_comm_ids(link->share);
	ck_assert_uint_ne(first, 0);
	ck_assert_int_eq(link->share->ops->lease_qpns(link->share, &lease), 0);
	ck_assert_uint_eq(lease.count, SLOT_QPNS);
	ck_assert_uint_eq(slot_of_qpn(lease.start), slot_of_comm_id(first));
	ck_assert_int_eq(link->share->ops->lease_qpns(link->share, &more), 0);
	ck_assert_uint_ne(more.first, lease.first);
	link->ops->close(link);
}
END_TEST

struct dead_member {
	const struct inherited inherited;
	int leased; /* where the first of its comm ids is written to */
};

static void begin_with_comm_ids(const void *argument)
{
	const struct dead_member *member = argument;
	uint32_t first;
	struct node node;

	inherited_close(&member->inherited);
	node = node_open(SHARED);
	first = node_share(&node)->ops->lease_comm_ids(node_share(&node));
	if (write(member->leased, &first, sizeof(first)) != sizeof(first))
		_exit(1);
}

/* There is none to forward it to: the member that got it answers, and the roster is repaired. */
START_TEST(mads_for_a_dead_member_are_ours)
{
	static const struct {
		uint16_t attribute;
		unsigned int offset;
	} cases[] = {{0x13, 4} /* REP */, {0x15, 4} /* DREQ */, {0x16, 4} /* DREP */};
	struct node node = node_open(SHARED), other = node_open(OTHER);
	union ibv_gid elsewhere = gid_of("10.99.99.99");
	struct node nodes[2];
	struct roster *roster = ((struct udp_link *)node.link)->share.roster;
	uint8_t bytes[MAD_OFFSET + MAD_LENGTH + ICRC_LENGTH];
	struct link_frame frame;
	uint32_t first, process = 0;
	int leased[2];
	pid_t pid;

	ck_assert_int_eq(pipe(leased), 0);
	nodes[0] = node;
	nodes[1] = other;
	pid = killable_process(begin_with_comm_ids, &(struct dead_member){{nodes, 2}, leased[1]});
	ck_assert_int_eq(read(leased[0], &first, sizeof(first)), sizeof(first));
	for (int dead = 0; dead < 2; dead++) {
		for (unsigned int i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
			frame = make_mad(bytes, &node.gid, cases[i].attribute, cases[i].offset,
					 first + 5, 4);
			ck_assert_int_eq(node_forward(&node, &frame), !dead);
		}
		if (!dead)
			process = node_share(&node)->ops->process(node_share(&node), &node.gid,
								  first);
		ck_assert_uint_ne(process, 0);
		ck_assert_int_eq(
			node_share(&node)->ops->is_alive(node_share(&node), process, first), !dead);
		if (!dead)
			kill_and_wait(pid);
	}
	for (int polls = 0; polls < PATIENCE && roster_owner(roster, slot_of_comm_id(first));
	     polls++) {
		usleep(1000);
		node.link->ops->receive(node.link, &frame, 1, 0);
	}
	ck_assert_uint_eq(roster_owner(roster, slot_of_comm_id(first)), 0);
	ck_assert(!node_share(&node)->ops->is_alive(node_share(&node), process, first));
	/* Of no process, of our own, and at an address that isn't this machine's. */
	ck_assert_uint_eq(node_share(&node)->ops->process(node_share(&node), &node.gid, first), 0);
	first = node_share(&node)->ops->lease_comm_ids(node_share(&node));
	process = node_share(&node)->ops->process(node_share(&node), &node.gid, first);
	ck_assert_uint_eq(process, roster_self(roster));
	ck_assert(node_share(&node)->ops->is_alive(node_share(&node), process, first));
	ck_assert_uint_eq(node_share(&other)->ops->process(node_share(&other), &elsewhere, first),
			  0);
	ck_assert_uint_ne(node_share(&other)->ops->process(node_share(&other), &node.gid, first),
			  0);
	node_close(&other);
	node_close(&node);
}
END_TEST

static bool send_message(const struct node *node, uint32_t qpn, const char *text)
{
	return node_share(node)->ops->send_message(node_share(node), qpn, text, strlen(text));
}

START_TEST(messages_go_by_qpn)
{
	struct node nodes[] = {node_open(SHARED), node_open(SHARED), node_open(SHARED)};
	struct link_frame frame;

	nodes_drain(nodes, 3);
	ck_assert(send_message(&nodes[0], nodes[1].qpn, "message"));
	ck_assert_uint_eq(nodes[1].link->ops->receive(nodes[1].link, &frame, 1, 0), 1);
	ck_assert(frame.message);
	ck_assert_uint_eq(frame.length, strlen("message"));
	ck_assert_mem_eq(frame.data, "message", frame.length);
	ck_assert(!send_message(&nodes[0], nodes[0].qpn, "message"));
	ck_assert(!send_message(&nodes[0], QPN_GSI, "message"));
	roster_set_control_port(node_roster(&nodes[2]), 0);
	ck_assert(!send_message(&nodes[0], nodes[2].qpn, "message"));
	for (unsigned int i = 0; i < 3; i++) {
		ck_assert_uint_eq(nodes[i].link->ops->receive(nodes[i].link, &frame, 1, 0), 0);
		node_close(&nodes[i]);
	}
}
END_TEST

/* Its port may be another user's by now, whom the frame is none of. */
START_TEST(frames_for_a_dead_member_go_nowhere)
{
	struct node nodes[2] = {node_open(SHARED), node_open(OTHER)};
	struct roster *roster = node_roster(&nodes[0]);
	int leased[2], fd = socket(AF_INET, SOCK_DGRAM, 0);
	struct sockaddr_in port;
	struct link_frame frame;
	uint32_t first, slot;
	char byte;
	pid_t pid;

	ck_assert_int_eq(pipe(leased), 0);
	pid = killable_process(begin_with_comm_ids, &(struct dead_member){{nodes, 2}, leased[1]});
	ck_assert_int_eq(read(leased[0], &first, sizeof(first)), sizeof(first));
	slot = slot_of_comm_id(first);
	port = on_loopback(roster_control_port(roster, roster_owner(roster, slot)));
	kill_and_wait(pid);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&port, sizeof(port)), 0);
	ck_assert(!send_message(&nodes[0], slot << SLOT_QPN_BITS, "message"));
	node_send(&nodes[1], &nodes[0], slot << SLOT_QPN_BITS, 7);
	nodes[0].link->ops->receive(nodes[0].link, &frame, 1, 0);
	ck_assert_int_lt(recv(fd, &byte, 1, MSG_DONTWAIT), 0);
	close(fd);
	node_close(&nodes[0]);
	node_close(&nodes[1]);
}
END_TEST

/* There all numbers are its own, at once, and so is all else that others might have. */
START_TEST(does_without_a_roster)
{
	const struct udp_options options = {.receive_buffer = 100000};
	struct node node = {.gid = gid_of(SHARED)}, from = node_open(OTHER);
	struct share_connection connection = {.local = node.gid};
	const struct share_ops *ops;
	struct link_frame frame;
	struct lease lease;
	struct share *share;
	uint32_t number = 0;
	uint64_t service;

	ck_assert_int_eq(udp_link_create(&options, &node.link), 0);
	no_roster = true;
	ck_assert_int_eq(node.link->ops->add_address(node.link, &node.gid, 0), 0);
	no_roster = false;
	ck_assert_ptr_null(node_roster(&node));
	share = node_share(&node);
	ops = share->ops;
	ck_assert_int_eq(ops->lease_qpns(share, &lease), 0);
	ck_assert_uint_eq(lease.first, SLOT_QPNS);
	ck_assert_uint_eq(lease.first + lease.count, (SLOTS - 1) * SLOT_QPNS);
	ck_assert_uint_ge(lease.start, lease.first);
	ck_assert_uint_lt(lease.start, lease.first + lease.count);
	ck_assert_int_eq(ops->lease_qpns(share, &lease), ENOSPC);
	ck_assert_uint_eq(ops->lease_comm_ids(share), 0);
	ck_assert_int_eq(ops->claim(share, &node.gid, 99), 0);
	ck_assert_int_eq(ops->claimant(share, &node.gid, 99), 0);
	ck_assert_uint_eq(ops->services(share, &node.gid, &service, 1), 0);
	ops->release(share, &node.gid, 99);
	ck_assert(ops->take_port(share, 40000));
	ops->release_port(share, 40000);
	ck_assert(!send_message(&node, from.qpn, "message"));
	ck_assert_uint_eq(ops->process(share, &node.gid, 1), 0);
	ck_assert(ops->is_alive(share, 0, 1));
	ck_assert(!ops->is_alive(share, SHARE_ENDED, 1));
	ck_assert_uint_eq(ops->record(share, &connection), 0);
	ops->forget(share, 0);
	ck_assert(!ops->orphan(share, &number, &connection));
	node_send(&from, &node, lease.start, 7);
	ck_assert_int_eq(node_receive(&node, &frame), 7);
	ck_assert(!node_forward(&node, &frame));
	ops->shutdown(share);
	node_close(&node);
	node_close(&from);
}
END_TEST

START_TEST(ports_have_one_owner)
{
	struct node a = node_open(SHARED), b = node_open(OTHER);
	const struct share_ops *ops = node_share(&a)->ops;

	ck_assert(ops->take_port(node_share(&a), 40000));
	ck_assert(!ops->take_port(node_share(&b), 40000));
	ops->release_port(node_share(&a), 40000);
	ck_assert(ops->take_port(node_share(&b), 40000));
	node_close(&b);
	node_close(&a);
}
END_TEST

START_TEST(a_claim_can_always_be_released)
{
	union ibv_gid any = gid_of("0.0.0.0");
	struct node a = node_open(SHARED), b = node_open(SHARED);
	uint8_t bytes[MAD_OFFSET + MAD_LENGTH + ICRC_LENGTH];
	struct link_frame frame = make_mad(bytes, &a.gid, 0x10 /* REQ */, 8, 99, 8);

	nodes_drain(&b, 1);
	ck_assert_int_eq(node_claim(&a, &any, 99), 0);
	ck_assert(node_forward(&b, &frame));
	lock_is_held = true;
	ck_assert_int_eq(node_claim(&a, &any, 98), EBUSY);
	node_share(&a)->ops->release(node_share(&a), &any, 99);
	ck_assert(!node_forward(&b, &frame));
	lock_is_held = false;
	ck_assert_int_eq(node_claim(&b, &b.gid, 99), 0);
	node_close(&b);
	node_close(&a);
}
END_TEST

static void claim_and_shut_down(const void *argument)
{
	struct node node;

	inherited_close(argument);
	node = node_open(SHARED);
	if (node_claim(&node, &node.gid, 99) != 0)
		_exit(1);
	node_share(&node)->ops->shutdown(node_share(&node));
}

/* By exit(), too, which leaves the addresses first: the dead may have claims, and no socket. */
START_TEST(a_dead_process_s_claim_is_free)
{
	struct node node = node_open(SHARED);
	pid_t pid = killable_process(claim_and_shut_down, &(struct inherited){&node, 1});

	ck_assert_int_eq(node_claim(&node, &node.gid, 99), EADDRINUSE);
	kill_and_wait(pid);
	ck_assert_int_eq(node_claim(&node, &node.gid, 99), 0);
	node_close(&node);
}
END_TEST

START_TEST(requests_are_forwarded_to_the_claimant)
{
	static const uint16_t attributes[] = {0x10 /* REQ */, 0x17 /* SIDR_REQ */};
	union ibv_gid any = gid_of("0.0.0.0");
	struct node a = node_open(SHARED), b = node_open(SHARED);
	uint8_t bytes[MAD_OFFSET + MAD_LENGTH + ICRC_LENGTH];
	struct link_frame frame = make_mad(bytes, &a.gid, attributes[_i], 8, 99, 8);

	nodes_drain(&b, 1);
	ck_assert(!node_forward(&b, &frame));
	ck_assert_int_eq(node_claim(&a, &any, 99), 0);
	ck_assert(node_forward(&b, &frame));
	ck_assert(receives(&a, &frame));
	ck_assert(!node_forward(&a, &frame));
	ck_assert_int_eq(node_claim(&b, &b.gid, 99), EADDRNOTAVAIL);
	node_share(&a)->ops->release(node_share(&a), &any, 99);
	ck_assert(!node_forward(&b, &frame));
	ck_assert_int_eq(node_claim(&b, &b.gid, 99), 0);
	ck_assert(node_forward(&a, &frame));
	ck_assert(receives(&b, &frame));
	node_close(&b);
	ck_assert(!node_forward(&a, &frame));
	node_close(&a);
}
END_TEST

/* --- links that leave ------------------------------------------------------------------------ */

/* A link that leaves may not have read yet what it was handed, for another or for a special QP. */
START_TEST(what_a_leaving_link_was_handed_goes_on)
{
	struct node nodes[] = {node_open(SHARED), node_open(SHARED), node_open(SHARED)};
	struct udp_share *from = (struct udp_share *)node_share(&nodes[1]);
	const struct udp_share *leaving = (struct udp_share *)node_share(&nodes[0]);
	const uint32_t qpns[] = {QPN_GSI, nodes[2].qpn};
	uint8_t bytes[MAD_OFFSET + MAD_LENGTH + ICRC_LENGTH];
	struct link_frame frame =
		make_mad(bytes, &nodes[0].gid, CM_DREQ, CM_REMOTE_ID, 0, sizeof(uint32_t));
	bool first, second;

	nodes_drain(nodes, 3);
	((struct bth *)bytes)->dest_qp = htobe32(qpns[_i]);
	ck_assert(udp_forward_to(from, &frame, roster_self(leaving->roster)));
	node_close(&nodes[0]);
	first = receives(&nodes[1], &frame);
	second = receives(&nodes[2], &frame);
	ck_assert(first != second);
	ck_assert(second || qpns[_i] == QPN_GSI);
	node_close(&nodes[1]);
	node_close(&nodes[2]);
}
END_TEST

/* A super-packet for a special QP, unread, or of which some packets have been received. */
START_TEST(super_packets_are_handed_on_whole)
{
	const int received = _i * 8;
	struct node leaving = node_open(SHARED), from = node_open(OTHER), node;
	struct path path = {.source = from.gid, .destination = leaving.gid};
	struct link_packet packets[PACKETS];
	struct link_frame frame;

	for (int i = 0; i < PACKETS; i++)
		make_packet(&packets[i], &path, QPN_GSI, i);
	ck_assert_uint_eq(from.link->ops->send(from.link, packets, PACKETS, 0), 0);
	node = node_open(SHARED);
	for (int i = 0; i < received; i++)
		ck_assert_int_eq(node_receive(&leaving, &frame), i);
	node_close(&leaving);
	for (int i = received; i < PACKETS; i++)
		ck_assert_int_eq(node_receive(&node, &frame), i);
	ck_assert_int_eq(node_receive(&node, &frame), -1);
	node_close(&node);
	node_close(&from);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("share_forward");
	TCase *tests = tcase_create("share_forward");

	own_network_enter(tests);
	tcase_set_timeout(tests, 100);
	tcase_add_test(tests, frames_are_forwarded_by_qpn);
	tcase_add_test(tests, forwarded_frames_are_captured);
	tcase_add_test(tests, what_cant_be_forwarded_is_not);
	tcase_add_test(tests, mads_are_forwarded_by_comm_id);
	tcase_add_test(tests, a_rej_without_a_comm_id_is_forwarded_to_all);
	tcase_add_test(tests, comm_ids_leave_their_qp_numbers);
	tcase_add_test(tests, mads_for_a_dead_member_are_ours);
	tcase_add_test(tests, frames_for_a_dead_member_go_nowhere);
	tcase_add_test(tests, messages_go_by_qpn);
	tcase_add_test(tests, does_without_a_roster);
	tcase_add_test(tests, ports_have_one_owner);
	tcase_add_test(tests, a_claim_can_always_be_released);
	tcase_add_test(tests, a_dead_process_s_claim_is_free);
	tcase_add_loop_test(tests, requests_are_forwarded_to_the_claimant, 0, 2);
	tcase_add_loop_test(tests, what_a_leaving_link_was_handed_goes_on, 0, 2);
	tcase_add_loop_test(tests, super_packets_are_handed_on_whole, 0, 2);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
