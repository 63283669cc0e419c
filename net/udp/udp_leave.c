/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A link leaves the addresses that it shares, when it is closed or its process exits: others
 * take over what was its own, and nothing that came to its sockets for another is lost. Locks are
 * those of net/udp/udp_share.h.
 */
#include <limits.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/udp/udp_link.h"

#define FRAMES 16 /* at a time; a super-packet may have more */

/* How long the end of a process waits for the roster's lock. */
#define LEAVE_TRIES 100
#define LEAVE_PAUSE 500 /* us */

/* More than a socket's buffer has can't have come before. */
static unsigned int buffer_size(int fd)
{
	int size = 0;
	socklen_t length = sizeof(size);

	getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, &length);
	return size;
}

/*
 * Take a socket out of the group, and from where packets are looked up. While close() does that,
 * the kernel (udp_lib_unhash()) may still find the socket by its address, and the packet,
 * which is for any member, would be lost with it. No packet comes from an interface of this number,
 * and the socket can still be read. Without the permission (before Linux 5.7, or of a link-local
 * address, to an ordinary user) close() has to do.
 */
void udp_share_retire(int fd)
{
	const int nowhere = INT_MAX;

	setsockopt(fd, SOL_SOCKET, SO_BINDTOIFINDEX, &nowhere, sizeof(nowhere));
}

static void hand_on_all(struct udp_link *link, const struct link_frame *frames, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		udp_share_hand_on(&link->share, &frames[i]);
}

/* The rest of super-packets that were read, lately as frames for the core, of any address. */
static void hand_on_rest(struct udp_link *link)
{
	struct link_frame frames[FRAMES];
	unsigned int count;

	while ((count = udp_receive_rest(link, frames, FRAMES)))
		hand_on_all(link, frames, count);
}

/*
 * Before our socket is closed: from now on @neighbour gets the packets to special QPs, and
 * those too that have come to our socket already. Our own QPs are gone, but packets for them
 * may have come: they are read only as far as they may hide others.
 */
static void hand_over(struct udp_link *link, const struct udp_address *address, uint32_t neighbour)
{
	struct link_frame frames[FRAMES];
	struct steer_plan *plan = &link->share.plan;
	int fd = descriptor_number(&address->receive_fd);
	unsigned int limit = buffer_size(fd), read = 0, count;

	roster_plan(link->share.roster, &address->gid, plan);
	plan->first = roster_index(link->share.roster, neighbour, &address->gid);
	plan->sockets = 1;
	udp_share_attach(link, address);
	udp_share_retire(fd);
	hand_on_rest(link);
	do {
		link->receive.used = 0;
		count = udp_receive_from(link, address, frames, FRAMES);
		hand_on_all(link, frames, count);
		hand_on_rest(link);
		read += link->receive.used;
	} while (link->receive.used && read <= limit);
}

/*
 * With the roster's lock. The socket is closed before the program changes: until then packets
 * for the member that takes our index go astray, but none to a socket that isn't read. A
 * neighbour has to change the program, since that takes a socket in the group.
 */
static void leave_group(struct udp_link *link, struct udp_address *address, bool last)
{
	struct roster *roster = link->share.roster;
	uint32_t neighbour = roster_neighbour(roster, &address->gid);

	if (!address->reuseport.taken)
		return;
	if (neighbour && last)
		hand_over(link, address, neighbour);
	else if (neighbour)
		udp_share_retire(descriptor_number(&address->receive_fd));
	close(descriptor_take(&address->receive_fd));
	address->reuseport.taken = false;
	roster_leave_group(roster, &address->gid);
	/* Another one may have entered meanwhile, if we were passed over. */
	neighbour = roster_neighbour(roster, &address->gid);
	if (neighbour)
		udp_ask_to_steer(&link->share, neighbour, &address->gid);
}

void udp_share_leave_group(struct udp_link *link, struct udp_address *address)
{
	if (!link->share.roster || !address->reuseport.taken ||
	    roster_lock(link->share.roster) != 0)
		return;
	leave_group(link, address, false);
	udp_share_unlock(&link->share);
}

static void leave_all_groups(struct udp_link *link)
{
	unsigned int count = udp_address_count(link);

	roster_set_control_port(link->share.roster, 0);
	for (unsigned int i = 0; i < count; i++)
		leave_group(link, link->addresses[i], true);
	udp_share_hand_on_forwards(link);
	/* Whether or not we were passed over: nothing of ours is left to be checked. */
	roster_unlock(link->share.roster);
}

void udp_share_leave(struct udp_link *link)
{
	struct udp_share *share = &link->share;

	if (share->roster && roster_lock(share->roster) == 0)
		leave_all_groups(link);
	if (share->roster)
		roster_close(share->roster);
	if (share->control_fd >= 0)
		close(share->control_fd);
	share->roster = NULL;
	share->control_fd = -1;
}

void udp_share_shutdown(struct share *base)
{
	struct udp_share *share = (struct udp_share *)base;

	for (int i = 0; share->roster && i < LEAVE_TRIES; i++) {
		if (roster_trylock(share->roster)) {
			leave_all_groups(share->link);
			return;
		}
		usleep(LEAVE_PAUSE);
	}
}
