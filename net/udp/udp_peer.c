/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What became of a peer on this machine that doesn't answer (link_ops.describe_peer): the kernel
 * knows whose socket has its address, the roster which process has its QP number, and that
 * process's own file what state its queue pair is in (net/observe/reader.h). And of any peer:
 * whether the kernel refused to send to it.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "net/clock.h"
#include "net/observe/reader.h"
#include "net/udp/udp_link.h"

/*
 * Looks at queue pairs of other processes, where many QPs may have the same peer: so many in a
 * second, and not more than this part of the time, after this much of it at once, ns: a look takes
 * less than a millisecond, but a tenth of a second where there are many processes and all are busy.
 */
#define LOOKS 20
#define LOOK_SHARE 16
#define LOOK_BURST NS_PER_S

static void describe_qp(const struct observed_qp *found, struct link_peer *peer)
{
	peer->pid = found->pid;
	snprintf(peer->command, sizeof(peer->command), "%.*s", LINK_PEER_COMMAND - 1,
		 found->command);
	peer->stopped = found->process == OBSERVED_STOPPED;
	peer->qp_state = found->qp.progress.state;
	memcpy(&peer->peer_gid, found->qp.peer, sizeof(peer->peer_gid));
	peer->peer_qpn = found->qp.peer_qpn;
	peer->error = found->qp.error_cause;
	peer->state = found->process == OBSERVED_ENDED ? LINK_PEER_ENDED : LINK_PEER_QP;
}

static bool may_look(struct udp_link *link, uint64_t now)
{
	uint64_t forgiven;
	bool may;

	pthread_mutex_lock(&link->peers_lock);
	forgiven = (now - link->looks.at) / LOOK_SHARE;
	link->looks.spent -= link->looks.spent < forgiven ? link->looks.spent : forgiven;
	if (link->looks.at / NS_PER_S != now / NS_PER_S)
		link->looks.count = 0;
	link->looks.at = now;
	may = link->looks.count < LOOKS && link->looks.spent < LOOK_BURST;
	link->looks.count += may;
	pthread_mutex_unlock(&link->peers_lock);
	return may;
}

/* The process lives that was given the number. */
static void describe_living(struct udp_link *link, const union ibv_gid *gid, uint32_t qpn,
			    struct link_peer *peer)
{
	uint64_t began = clock_now();
	struct observed_qp found;

	if (!may_look(link, began))
		return;
	peer->state = LINK_PEER_NO_QP;
	if (observe_find_qp(gid, qpn, &found))
		describe_qp(&found, peer);
	pthread_mutex_lock(&link->peers_lock);
	link->looks.spent += clock_now() - began;
	pthread_mutex_unlock(&link->peers_lock);
}

static void describe_node(struct udp_link *link, const union ibv_gid *gid, uint32_t qpn,
			  struct link_peer *peer)
{
	struct roster *roster = link->share.roster;
	uint32_t owner = roster ? roster_owner(roster, slot_of_qpn(qpn)) : 0;

	/* Without a member it is another program's, which numbers its queue pairs as it likes. */
	if (!roster || roster_sockets(roster, gid) == 0)
		return;
	if (!owner || !roster_is_alive(roster, owner))
		peer->state = LINK_PEER_ENDED;
	else
		describe_living(link, gid, qpn, peer);
}

static void describe_refusal(struct udp_link *link, const union ibv_gid *gid,
			     struct link_peer *peer)
{
	pthread_mutex_lock(&link->peers_lock);
	if (gid_equal(&link->refusal.destination, gid)) {
		peer->refused = link->refusal.error;
		peer->refused_at = link->refusal.at;
	}
	pthread_mutex_unlock(&link->peers_lock);
}

static void describe_receiver(struct udp_link *link, const struct path *path, uint32_t qpn,
			      struct link_peer *peer)
{
	const union ibv_gid *gid = &path->destination;
	const struct udp_address *from = udp_address_find(link, &path->source);
	struct sock_diag_socket socket;
	int error = !link->diag || !from ? ENOTSUP
					 : sock_diag_find(link->diag, gid, ROCE_V2_UDP_PORT, NULL,
							  0, udp_address_interface(from), &socket);

	*peer = (struct link_peer){};
	describe_refusal(link, gid, peer);
	if (error == ENOENT && gid_is_local(gid))
		peer->state = LINK_PEER_NOT_THERE;
	if (error || socket.wildcard)
		return;
	peer->uid = socket.uid;
	if (socket.uid != geteuid())
		peer->state = LINK_PEER_OTHER_USER;
	else
		describe_node(link, gid, qpn, peer);
}

void udp_describe_peer(struct link *base, const struct path *path, uint32_t qpn,
		       struct link_peer *peer)
{
	int state;

	/* Other processes' files are read, which is a cancellation point, and locks are held. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	describe_receiver((struct udp_link *)base, path, qpn, peer);
	pthread_setcancelstate(state, NULL);
}
