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
#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "net/clock.h"
#include "net/log.h"
#include "net/share/roster.h"
#include "net/syscalls.h"
#include "net/tuning.h"
#include "net/udp/udp_holder.h"
#include "net/udp/udp_link.h"

/* A dying process loses its lock before its socket, which we wait for. */
#define BIND_TRIES 50
#define BIND_PAUSE 1000 /* us */

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
		error = steer_attach(address->receive_fd, code,
				     steer_program(&link->share.plan, code));
	free(code);
	if (error && !__atomic_exchange_n(&link->share.unsteered, true, __ATOMIC_RELAXED))
		log_warn("can't steer packets between processes, which is slow: %s",
			 strerror(error));
}

/* With the roster's lock. One receiver needs no program. */
static void steer(struct udp_link *link, const struct udp_address *address)
{
	struct steer_plan *plan = &link->share.plan;

	roster_plan(link->share.roster, &address->gid, plan);
	if (plan->sockets > 1)
		udp_share_attach(link, address);
	else
		steer_detach(address->receive_fd);
}

static void steer_all(struct udp_link *link)
{
	unsigned int count = udp_address_count(link);

	for (unsigned int i = 0; i < count; i++) {
		if (roster_sockets(link->share.roster, &link->addresses[i]->gid) > 1)
			steer(link, link->addresses[i]);
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

static void wake_at(struct udp_share *share, uint64_t time)
{
	if (time < __atomic_load_n(&share->due, __ATOMIC_RELAXED))
		__atomic_store_n(&share->due, time, __ATOMIC_RELAXED);
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

/* Have all indexes checked and all programs written by the next repair. Any thread. */
static void check_all(struct udp_share *share)
{
	__atomic_store_n(&share->check_all, true, __ATOMIC_RELAXED);
	wake_at(share, 0);
}

void udp_share_unlock(struct udp_share *share)
{
	if (roster_unlock(share->roster))
		return;
	log_warn("was stopped while it had the roster locked; the addresses' sockets are checked");
	check_all(share);
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
		steer(link, address);
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

	if (now < share->due)
		return;
	if (!roster_trylock(roster)) {
		__atomic_store_n(&share->due, now + SHARE_LOCK_RETRY, __ATOMIC_RELAXED);
		return;
	}
	__atomic_store_n(&share->due, TIME_NEVER, __ATOMIC_RELAXED);
	reaped = roster_reap(roster) > 0;
	last = repaired_before(roster, now);
	if (__atomic_exchange_n(&share->check_all, false, __ATOMIC_RELAXED))
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

/* --- entering ------------------------------------------------------------------------------- */

/* When the first address is added: to look at a configuration takes no roster. */
static void share_open_roster(struct udp_share *share)
{
	int error = roster_open(NULL, &share->roster);
	char path[ROSTER_PATH_SIZE] = "/dev/shm";

	if (error) {
		roster_usual_path(path);
		log_warn("addresses can't be shared with other processes: %s: %s", path,
			 roster_error_text(error));
		share->roster = NULL;
		return;
	}
	share->round = roster_self(share->roster);
	error = udp_open_control_socket(share);
	if (error)
		log_warn("no socket by which processes that share addresses hand packets on: %s",
			 strerror(error));
}

/*
 * The roster has no member at the address: then a socket that doesn't share can be bound. If
 * not, a process has one that isn't in our roster: another user's, for instance.
 */
static int check_alone(const struct udp_link *link, const union ibv_gid *gid, unsigned int ifindex)
{
	int fd, error = EADDRINUSE;

	for (int i = 0; i < BIND_TRIES && error == EADDRINUSE; i++) {
		if (i)
			usleep(BIND_PAUSE);
		error = udp_receiver_open(link, gid, &fd);
		if (error)
			return error;
		error = udp_bind(fd, gid, ifindex, ROCE_V2_UDP_PORT);
		close(fd);
	}
	return error;
}

static int bind_in_group(int fd, const union ibv_gid *gid, unsigned int ifindex)
{
	int on = 1;

	if (setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) < 0)
		return errno;
	return udp_bind(fd, gid, ifindex, ROCE_V2_UDP_PORT);
}

/*
 * The socket is bound when it is in the roster: if we are stopped in between, others find the
 * address shared. The other way round they would find it taken, but no member at it.
 */
static int enter_group(struct roster *roster, const union ibv_gid *gid, int fd,
		       unsigned int ifindex)
{
	uint64_t cookie = 0;
	socklen_t length = sizeof(cookie);
	int error;

	getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &length);
	error = roster_join_group(roster, gid, cookie);
	if (error)
		return error;
	error = bind_in_group(fd, gid, ifindex);
	if (error)
		roster_leave_group(roster, gid);
	return error;
}

static int join_group(struct udp_link *link, struct udp_address *address, int fd,
		      unsigned int ifindex)
{
	struct roster *roster = link->share.roster;
	unsigned int others;
	int error = 0;

	roster_reap(roster);
	others = roster_sockets(roster, &address->gid);
	if (!others)
		error = check_alone(link, &address->gid, ifindex);
	if (!error)
		error = enter_group(roster, &address->gid, fd, ifindex);
	if (error)
		return error;
	address->reuseport.taken = true;
	address->receive_fd = fd;
	if (others)
		steer(link, address);
	return 0;
}

int udp_share_bind(struct udp_link *link, struct udp_address *address, int fd, unsigned int ifindex)
{
	struct udp_share *share = &link->share;
	int error;

	if (!share->entered) {
		share->entered = true;
		share_open_roster(share);
	}
	address->reuseport.learned = -1;
	if (!share->roster) {
		error = udp_bind(fd, &address->gid, ifindex, ROCE_V2_UDP_PORT);
		if (!error)
			address->receive_fd = fd;
		return error;
	}
	error = roster_lock(share->roster);
	if (error)
		return error;
	error = join_group(link, address, fd, ifindex);
	udp_share_unlock(share);
	return error;
}

void udp_share_verify(const struct udp_link *link, const struct udp_address *address)
{
	int index = link->share.roster ? own_index(link, address) : 0;

	if (index > 0)
		send_signal(link, address, SIGNAL_VERIFY, index, 0);
}

bool udp_share_verify_descriptors(struct udp_share *share)
{
	bool intact = descriptor_verify(&share->control_fd, &share->control_identity);

	return (!share->roster || roster_verify(share->roster)) && intact;
}

void udp_share_after_fork_child(struct udp_link *link)
{
	struct udp_share *share = &link->share;

	if (share->roster)
		roster_after_fork_child(share->roster);
	descriptor_close(share->control_fd, &share->control_identity);
	share->roster = NULL;
	share->control_fd = -1;
}

uint64_t udp_share_cookie(const struct udp_link *link, const union ibv_gid *gid, uint32_t qpn)
{
	struct roster *roster = link->share.roster;
	uint32_t owner = roster ? roster_owner(roster, slot_of_qpn(qpn)) : 0;

	return owner ? roster_cookie(roster, owner, gid) : 0;
}

/* --- for the core ---------------------------------------------------------------------------- */

/* Without a roster all numbers are ours, at once. */
static int lease_all(struct udp_share *share, struct lease *lease)
{
	lease->first = SLOT_QPNS;
	lease->count = (SLOTS - 2) * SLOT_QPNS;
	lease->start = lease->first + clock_now() / 1000 % lease->count;
	return __atomic_exchange_n(&share->all_leased, true, __ATOMIC_RELAXED) ? ENOSPC : 0;
}

static int share_lease_qpns(struct share *base, struct lease *lease)
{
	struct udp_share *share = (struct udp_share *)base;
	int error;

	if (!share->roster)
		return lease_all(share, lease);
	error = roster_lock(share->roster);
	if (error)
		return error;
	error = roster_lease(share->roster, lease);
	if (!error)
		steer_all(share->link);
	udp_share_unlock(share);
	return error;
}

static uint32_t share_lease_comm_ids(struct share *base)
{
	struct roster *roster = ((struct udp_share *)base)->roster;
	struct lease lease;

	if (!roster)
		return 0;
	if (!roster_primary_slot(roster, roster_self(roster)))
		share_lease_qpns(base, &lease);
	return roster_primary_slot(roster, roster_self(roster)) << SLOT_COMM_ID_BITS;
}

static int share_claim(struct share *base, const union ibv_gid *gid, uint64_t service_id)
{
	struct udp_share *share = (struct udp_share *)base;
	struct roster *roster = share->roster;
	int error;

	if (!roster)
		return 0;
	error = roster_lock(roster);
	if (error)
		return error;
	error = roster_claim(roster, gid, service_id);
	if (error && roster_reap(roster))
		error = roster_claim(roster, gid, service_id);
	if (!error)
		steer_all(share->link);
	udp_share_unlock(share);
	return error;
}

static void share_release(struct share *base, const union ibv_gid *gid, uint64_t service_id)
{
	struct udp_share *share = (struct udp_share *)base;

	if (!share->roster)
		return;
	roster_release(share->roster, gid, service_id);
	if (roster_lock(share->roster) != 0) {
		check_all(share); /* requests come to us until then, and are answered */
		return;
	}
	steer_all(share->link);
	udp_share_unlock(share);
}

/* The file doesn't know processes; but a member's control socket is its process's. */
static pid_t share_claimant(struct share *base, const union ibv_gid *gid, uint64_t service_id)
{
	const struct roster *roster = ((struct udp_share *)base)->roster;
	const struct in_addr loopback = {htonl(INADDR_LOOPBACK)};
	uint32_t member = roster ? roster_claimant(roster, gid, service_id) : 0;
	union ibv_gid control;

	if (!member)
		return 0;
	gid_from_ipv4(&control, &loopback);
	return udp_holder_pid(&control, roster_control_port(roster, member));
}

static unsigned int share_services(struct share *base, const union ibv_gid *gid, uint64_t *services,
				   unsigned int max)
{
	const struct roster *roster = ((struct udp_share *)base)->roster;

	return roster ? roster_services(roster, gid, services, max) : 0;
}

static uint32_t share_process(struct share *base, const union ibv_gid *gid, uint32_t comm_id)
{
	struct roster *roster = ((struct udp_share *)base)->roster;
	uint32_t owner = roster ? roster_owner(roster, slot_of_comm_id(comm_id)) : 0;

	return owner && roster_index(roster, owner, gid) >= 0 ? owner : 0;
}

static bool share_is_alive(struct share *base, uint32_t process, uint32_t comm_id)
{
	struct roster *roster = ((struct udp_share *)base)->roster;

	return !roster || (roster_owner(roster, slot_of_comm_id(comm_id)) == process &&
			   roster_is_alive(roster, process));
}

static uint32_t share_record(struct share *base, const struct share_connection *connection)
{
	struct roster *roster = ((struct udp_share *)base)->roster;

	return roster ? roster_add_connection(roster, connection) : 0;
}

static void share_forget(struct share *base, uint32_t number)
{
	struct roster *roster = ((struct udp_share *)base)->roster;

	if (roster)
		roster_remove_connection(roster, number);
}

static bool share_orphan(struct share *base, uint32_t *number, struct share_connection *orphan)
{
	struct roster *roster = ((struct udp_share *)base)->roster;

	return roster && roster_next_orphan(roster, number, orphan);
}

static const struct share_ops udp_share_ops = {
	.lease_qpns = share_lease_qpns,
	.lease_comm_ids = share_lease_comm_ids,
	.claim = share_claim,
	.release = share_release,
	.claimant = share_claimant,
	.services = share_services,
	.forward = udp_forward,
	.tell = udp_tell,
	.process = share_process,
	.is_alive = share_is_alive,
	.record = share_record,
	.forget = share_forget,
	.orphan = share_orphan,
	.shutdown = udp_share_shutdown,
};

void udp_share_init(struct udp_link *link)
{
	link->share = (struct udp_share){
		.share.ops = &udp_share_ops,
		.link = link,
		.control_fd = -1,
		.due = TIME_NEVER,
		.pause = SHARE_REPAIR_PAUSE,
	};
	link->link.share = &link->share.share;
}
