/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many links on one address: how a link's sockets enter the group of an address
 * (udp_steer.c), and what the core asks of the roster (net/share/share.h).
 */
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/clock.h"
#include "net/log.h"
#include "net/share/roster.h"
#include "net/tuning.h"
#include "net/udp/udp_holder.h"
#include "net/udp/udp_link.h"

/*
 * A dying process loses its lock before its socket; and a child that is forked or spawned has its
 * parent's sockets until it gets a CPU, and closes them. Both are waited for, longer where what is
 * in the way shares the address as our sockets do.
 */
#define BIND_TRIES 50
#define BIND_TRIES_SHARED 2000
#define BIND_PAUSE 1000 /* us */

/* --- entering ------------------------------------------------------------------------------- */

/*
 * When the first address is added: to look at a configuration takes no roster. Returns 0, without a
 * roster, too, where there can't be one; or an errno.
 */
static int share_open_roster(struct udp_share *share)
{
	int error = roster_open(NULL, &share->roster);
	char path[ROSTER_PATH_SIZE] = "/dev/shm";

	if (descriptor_is_exhaustion(error))
		return error;
	if (error) {
		roster_usual_path(path);
		log_warn("addresses can't be shared with other processes: %s: %s", path,
			 roster_error_text(error));
		share->roster = NULL;
		return 0;
	}
	error = udp_open_control_socket(share);
	if (descriptor_is_exhaustion(error)) {
		roster_close(share->roster);
		share->roster = NULL;
		return error;
	}
	share->round = roster_self(share->roster);
	if (error)
		log_warn("no socket by which processes that share addresses hand packets on: %s",
			 error == EADDRNOTAVAIL ? "the loopback device is down, or has no 127.0.0.1"
						: strerror(error));
	return 0;
}

/*
 * The roster has no member at the address: then a socket that doesn't share can be bound. If
 * not, a process has one that isn't in our roster: another user's, for instance.
 */
static int check_alone(const struct udp_link *link, const union ibv_gid *gid, unsigned int ifindex)
{
	int fd, error = udp_receiver_open(link, gid, &fd);

	if (error)
		return error;
	error = udp_bind(fd, gid, ifindex, ROCE_V2_UDP_PORT);
	close(fd);
	return error;
}

static int bind_in_group(int fd, const union ibv_gid *gid, unsigned int ifindex)
{
	int on = 1;

	if (setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) < 0)
		return errno;
	return udp_bind(fd, gid, ifindex, ROCE_V2_UDP_PORT);
}

/* Whether all sockets at @gid share it, and are of our user: then one more may be bound. */
static bool is_shared(const struct udp_link *link, const union ibv_gid *gid, unsigned int ifindex)
{
	bool shared;
	int fd;

	if (udp_receiver_open(link, gid, &fd) != 0)
		return false;
	udp_share_retire(fd); /* or a packet of theirs might come to it */
	shared = bind_in_group(fd, gid, ifindex) == 0;
	close(fd);
	return shared;
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
		udp_share_steer(link, address);
	return 0;
}

static int try_to_bind(struct udp_link *link, struct udp_address *address, int fd,
		       unsigned int ifindex)
{
	struct udp_share *share = &link->share;
	int error;

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

int udp_share_bind(struct udp_link *link, struct udp_address *address, int fd, unsigned int ifindex)
{
	struct udp_share *share = &link->share;
	unsigned int tries = 0, most = BIND_TRIES;
	int error = share->entered ? 0 : share_open_roster(share);

	if (error)
		return error;
	share->entered = true;
	address->reuseport.learned = -1;
	while ((error = try_to_bind(link, address, fd, ifindex)) == EADDRINUSE) {
		if (++tries == BIND_TRIES && is_shared(link, &address->gid, ifindex))
			most = BIND_TRIES_SHARED;
		if (tries >= most)
			break;
		usleep(BIND_PAUSE);
	}
	return error;
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
	share->parents_roster = share->roster;
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
	return atomic_exchange(&share->all_leased, true) ? ENOSPC : 0;
}

/* With the roster's lock. */
static int lease_slots(struct udp_share *share, struct lease *lease)
{
	int error = roster_lease(share->roster, lease);

	if (!error)
		udp_share_steer_all(share->link);
	return error;
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
	*lease = share->unused;
	share->unused = (struct lease){};
	if (!lease->count)
		error = lease_slots(share, lease);
	udp_share_unlock(share);
	return error;
}

/* Those of a slot, whose QP numbers are leased next if there are no others yet. */
static uint32_t share_lease_comm_ids(struct share *base)
{
	struct udp_share *share = (struct udp_share *)base;
	struct roster *roster = share->roster;
	uint32_t slot;

	if (!roster)
		return 0;
	slot = roster_primary_slot(roster, roster_self(roster));
	if (!slot && roster_lock(roster) == 0) {
		if (!roster_primary_slot(roster, roster_self(roster)))
			lease_slots(share, &share->unused);
		slot = roster_primary_slot(roster, roster_self(roster));
		udp_share_unlock(share);
	}
	return slot << SLOT_COMM_ID_BITS;
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
	if (error) {
		/* A process that has ended has left its addresses, perhaps, but not its claims. */
		roster_reap(roster);
		error = roster_claim(roster, gid, service_id);
	}
	if (!error)
		udp_share_steer_all(share->link);
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
		udp_share_check_all(share); /* requests come to us until then, and are answered */
		return;
	}
	udp_share_steer_all(share->link);
	udp_share_unlock(share);
}

static bool share_take_port(struct share *base, uint16_t port)
{
	struct roster *roster = ((struct udp_share *)base)->roster;

	return !roster || roster_take_port(roster, port);
}

static void share_release_port(struct share *base, uint16_t port)
{
	struct roster *roster = ((struct udp_share *)base)->roster;

	if (roster)
		roster_release_port(roster, port);
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

	if (process == SHARE_ENDED)
		return false;
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
	.take_port = share_take_port,
	.release_port = share_release_port,
	.forward = udp_forward,
	.send_message = udp_send_message,
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
