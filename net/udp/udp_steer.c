/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many links on one address. All receiving sockets of an address form a group
 * (SO_REUSEPORT), among which the kernel chooses by a program (net/share/steer) that is
 * written from the roster (net/share/roster). A member that changes the roster writes the
 * program anew.
 *
 * When a member dies the kernel moves the group's last socket to the dead one's index. The
 * member that then gets a frame of another member repairs: it removes dead members from the
 * roster, which moves the last socket as the kernel did, writes the program, and has all
 * members check their indexes. For that it sends a signal to each index, which is a packet
 * that the program gives to the socket with that index: its receiver learns that it has it.
 *
 * Frames of another member are forwarded as datagrams to its control socket. So a program
 * that is late costs time, and no packet.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "net/clock.h"
#include "net/log.h"
#include "net/share/roster.h"
#include "net/syscalls.h"
#include "net/tuning.h"
#include "net/udp/udp_link.h"

enum signal_kind {
	SIGNAL_VERIFY, /* the sender has that index, says the roster */
	SIGNAL_LEARN,  /* the receiver has the lowest index of those that it gets in a round */
};

struct signal {
	struct steer_signal steer;
	uint32_t kind, round;
};

/* --- the program ------------------------------------------------------------------------ */

void udp_share_attach(struct udp_link *link, const struct udp_address *address)
{
	struct sock_filter *code = malloc(STEER_PROGRAM_MAX * sizeof(*code));
	int error = ENOMEM;

	if (code)
		error = steer_attach(descriptor_number(&address->receive_fd), code,
				     steer_program(&link->share.plan, code));
	free(code);
	if (error && !atomic_exchange(&link->share.unsteered, true))
		log_warn("can't steer packets between processes, which is slow: %s",
			 strerror(error));
}

/* One receiver needs no program. */
void udp_share_steer(struct udp_link *link, const struct udp_address *address)
{
	struct steer_plan *plan = &link->share.plan;

	roster_plan(link->share.roster, &address->gid, plan);
	if (plan->sockets > 1)
		udp_share_attach(link, address);
	else
		steer_detach(descriptor_number(&address->receive_fd));
}

void udp_share_steer_all(struct udp_link *link)
{
	unsigned int count = udp_address_count(link);

	for (unsigned int i = 0; i < count; i++) {
		if (roster_sockets(link->share.roster, &link->addresses[i]->gid) > 1)
			udp_share_steer(link, link->addresses[i]);
	}
}

static int own_index(const struct udp_link *link, const struct udp_address *address)
{
	struct roster *roster = link->share.roster;

	return roster_index(roster, roster_self(roster), &address->gid);
}

static void send_signal(const struct udp_link *link, const struct udp_address *address,
			enum signal_kind kind, unsigned int index, uint32_t round)
{
	struct signal signal = {.kind = kind, .round = round};
	struct sockaddr_storage to;
	socklen_t length = gid_to_sockaddr(&address->gid, ROCE_V2_UDP_PORT, &to);

	steer_fill(&signal.steer, roster_secret(link->share.roster), index);
	sys_sendto(descriptor_number(&address->send_fd), &signal, sizeof(signal),
		   MSG_DONTWAIT | MSG_NOSIGNAL, &to, length);
}

/* --- repair ------------------------------------------------------------------------------- */

/* Unless it is due sooner: any thread may want a repair. */
static void wake_at(struct udp_share *share, uint64_t time)
{
	uint64_t due = atomic_load(&share->due);

	while (time < due && !atomic_compare_exchange_weak(&share->due, &due, time))
		;
}

static void want_repair(struct udp_link *link, struct udp_address *address)
{
	struct udp_share *share = &link->share;
	uint64_t now = clock_now();

	if (!address || address->reuseport.suspect)
		return;
	address->reuseport.suspect = now;
	wake_at(share, now > share->repaired + share->pause ? now : share->repaired + share->pause);
}

/* In this order; udp_share_repair() does it the other way round. */
void udp_share_check_all(struct udp_share *share)
{
	atomic_store(&share->check_all, true);
	wake_at(share, 0);
}

void udp_share_unlock(struct udp_share *share)
{
	if (roster_unlock(share->roster))
		return;
	log_warn("was stopped while it had the roster locked; the addresses' sockets are checked");
	udp_share_check_all(share);
}

void udp_share_resteer(struct udp_link *link, struct udp_address *address)
{
	if (!address)
		return;
	address->reuseport.resteer = true;
	wake_at(&link->share, 0);
}

/* If repairs find no dead member although frames go astray, they become rarer. */
static void slow_down(struct udp_share *share, uint64_t now, bool found)
{
	if (found || now - share->repaired > SHARE_REPAIR_PAUSE_MAX)
		share->pause = SHARE_REPAIR_PAUSE;
	else if (share->pause < SHARE_REPAIR_PAUSE_MAX)
		share->pause *= 2;
	share->repaired = now;
}

/*
 * With the roster's lock: what an address needs. Returns whether to send signals.
 * Frames that came soon after a repair, by any member, may have been under way.
 */
static bool repair_address(struct udp_link *link, struct udp_address *address, bool reaped,
			   uint64_t last_repair)
{
	struct udp_reuseport *reuseport = &address->reuseport;
	bool signal = reuseport->suspect &&
		      (reaped || reuseport->suspect > last_repair + SHARE_REPAIR_PAUSE);

	if (reuseport->learned >= 0)
		roster_set_index(link->share.roster, &address->gid, reuseport->learned);
	if (reaped || signal || reuseport->resteer || reuseport->learned >= 0)
		udp_share_steer(link, address);
	reuseport->learned = -1;
	reuseport->resteer = false;
	reuseport->suspect = 0;
	reuseport->signal = signal;
	return signal;
}

static void suspect_all(struct udp_link *link, uint64_t now)
{
	unsigned int count = udp_address_count(link);

	for (unsigned int i = 0; i < count; i++) {
		link->addresses[i]->reuseport.resteer = true;
		if (!link->addresses[i]->reuseport.suspect)
			link->addresses[i]->reuseport.suspect = now;
	}
}

static void send_signals(struct udp_link *link)
{
	unsigned int count = udp_address_count(link);
	struct udp_share *share = &link->share;

	share->round += ROSTER_MEMBERS + 1; /* no other member has the same */
	for (unsigned int i = 0; i < count; i++) {
		const struct udp_address *address = link->addresses[i];
		unsigned int sockets = roster_sockets(share->roster, &address->gid);

		for (unsigned int index = 0; address->reuseport.signal && index < sockets; index++)
			send_signal(link, address, SIGNAL_LEARN, index, share->round);
	}
}

/* Another time namespace's clock, or what no member has written, may be ahead of ours for ever. */
static uint64_t repaired_before(const struct roster *roster, uint64_t now)
{
	uint64_t repaired = roster_repaired(roster);

	return repaired <= now ? repaired : 0;
}

void udp_share_repair(struct udp_link *link)
{
	struct udp_share *share = &link->share;
	struct roster *roster = share->roster;
	unsigned int count = udp_address_count(link);
	uint64_t now = clock_now(), last;
	bool reaped, signals = false;

	if (now < atomic_load_explicit(&share->due, memory_order_relaxed))
		return;
	if (!roster_trylock(roster)) {
		atomic_store_explicit(&share->due, now + SHARE_LOCK_RETRY, memory_order_relaxed);
		return;
	}
	atomic_store(&share->due, TIME_NEVER);
	reaped = roster_reap(roster) > 0;
	last = repaired_before(roster, now);
	if (atomic_exchange(&share->check_all, false))
		suspect_all(link, now);
	for (unsigned int i = 0; i < count; i++)
		signals |= repair_address(link, link->addresses[i], reaped, last);
	if (signals)
		roster_set_repaired(roster, now);
	udp_share_unlock(share);
	if (!signals)
		return;
	slow_down(share, now, reaped);
	send_signals(link);
}

static bool is_signal(const struct udp_share *share, const struct link_frame *frame)
{
	struct steer_signal good, signal;

	if (frame->length < sizeof(signal))
		return false;
	memcpy(&signal, frame->data, sizeof(signal));
	steer_fill(&good, roster_secret(share->roster), 0);
	return memcmp(&good, &signal, offsetof(struct steer_signal, index)) == 0;
}

static void take_signal(struct udp_link *link, const struct link_frame *frame)
{
	struct udp_address *address = udp_address_find(link, &frame->destination);
	struct signal signal;
	int index;

	if (!address || frame->length < sizeof(signal))
		return;
	memcpy(&signal, frame->data, sizeof(signal));
	index = be32toh(signal.steer.index);
	if (signal.kind == SIGNAL_VERIFY) {
		if (index != own_index(link, address))
			want_repair(link, address);
		return;
	}
	/* A signal to an index that no socket has comes by the hash, but later in the round. */
	if (signal.round == address->reuseport.round)
		return;
	address->reuseport.round = signal.round;
	if (index == own_index(link, address))
		return;
	address->reuseport.learned = index;
	wake_at(&link->share, 0);
}

void udp_share_verify(const struct udp_link *link, const struct udp_address *address)
{
	int index = link->share.roster ? own_index(link, address) : 0;

	if (index > 0)
		send_signal(link, address, SIGNAL_VERIFY, index, 0);
}

/* --- frames in ------------------------------------------------------------------------------ */

uint32_t udp_share_owner(struct udp_share *share, const struct link_frame *frame)
{
	const struct steer_target target = steer_target(frame->data, frame->length);
	uint32_t member = target.request ? roster_claimant(share->roster, &frame->destination,
							   target.service_id)
					 : roster_owner(share->roster, target.slot);

	if (!member || roster_is_alive(share->roster, member))
		return member;
	want_repair(share->link, udp_address_find(share->link, &frame->destination));
	return 0;
}

bool udp_share_divert(struct udp_share *share, const struct link_frame *frame, bool first)
{
	uint32_t owner = roster_owner(share->roster, udp_share_slot(frame));

	if (is_signal(share, frame)) {
		take_signal(share->link, frame);
		return true;
	}
	if (!owner || owner == roster_self(share->roster))
		return false;
	udp_forward_to(share, frame, owner);
	/* Of several that a network card put together, the program sees only the first. */
	if (first)
		want_repair(share->link, udp_address_find(share->link, &frame->destination));
	return true;
}
