/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What shm.c (its life, the other operations), shm_send.c and shm_receive.c have in common.
 *
 * Locks: @lock for making peers and the inbox; a peer's for its ring and what waits for space in
 * it, which makes the process's sending threads one writer. Neither is taken under the other. The
 * readers belong to the one caller of receive() and prepare_sleep(). No lock is held while the UDP
 * link sends or receives.
 */
#ifndef URXE_NET_SHM_LINK_H
#define URXE_NET_SHM_LINK_H

#include <pthread.h>

#include "net/shm/inbox.h"
#include "net/shm/ring.h"
#include "net/shm/shm.h"
#include "net/stores.h"
#include "net/udp/udp.h"

#define PEER_GIDS 8
#define WATCHED_MAX 32	  /* rings that are looked at without a bell */
#define RINGS_OF_MEMBER 4 /* that are read at a time: of processes that had its number, too */

/* A packet that waits for space in the ring. */
struct shm_waiting {
	struct shm_waiting *next;
	struct ring_source from;
	uint32_t length;
	bool sealed;
	uint8_t data[];
};

/* A member that we send to. */
struct shm_peer {
	pthread_mutex_t lock;
	uint32_t member;
	uint64_t number;	  /* of the inbox that it had when this was looked up */
	struct inbox_file *inbox; /* NULL: it has none that we can use, and is sent to by UDP */
	struct ring ring;
	struct choice stores; /* how large packets are written to it (net/stores.h) */
	uint32_t ring_number;
	uint64_t former;   /* bytes that were read of the rings before */
	unsigned int gids; /* that were seen to be its own */
	union ibv_gid gid[PEER_GIDS];
	struct shm_waiting *first, **last;
	uint32_t waiting; /* bytes that it will take in the ring, at most */
};

/* A ring that we receive from. */
struct shm_reader {
	struct shm_reader *next; /* of the same member */
	uint32_t member;
	uint64_t sender; /* the number of the inbox of the process that writes it */
	struct ring ring;
	uint64_t found_at;
	uint64_t empty_at; /* when it was looked at in vain; 0: it had something since */
	bool watched;
};

struct shm_link {
	struct link link;
	struct link *udp;
	struct inbox inbox;
	struct roster *roster; /* NULL without an inbox: all goes by UDP */
	bool icrc;
	bool inbox_failed; /* no inbox could be made: all goes by UDP */
	const char *directory;
	uint64_t check; /* how often to look after the other processes */

	pthread_mutex_t lock;
	_Atomic(struct shm_peer *) peers[ROSTER_MEMBERS + 1]; /* by member, made when sent to */
	_Atomic uint32_t rings;				      /* that we made */
	_Atomic uint32_t waiting;			      /* peers for which something waits */
	_Atomic uint64_t retry_at;			      /* when to look for space for it */
	_Atomic uint64_t retry_gap;			      /* then again after */

	/* Of the one caller of receive() and prepare_sleep(): */
	struct shm_reader *readers[ROSTER_MEMBERS + 1]; /* by member */
	struct shm_reader *watched[WATCHED_MAX];
	unsigned int watched_count, first;
	bool slept;		/* a descriptor may be readable */
	uint32_t sleeps;	/* the number of the last one: odd, as 0 is none */
	uint32_t notifications; /* when UDP was received from last */
	uint64_t udp_at, udp_found_at, found_at;
	uint64_t checked_at; /* when it was looked whether peers live */
};

/* shm_send.c */
unsigned int shm_send(struct link *base, struct link_packet *packets, unsigned int count,
		      uint64_t now);
/* The peer that has @qpn at @gid, locked, or NULL: it is sent to by UDP. */
struct shm_peer *shm_peer_get(struct shm_link *link, const union ibv_gid *gid, uint32_t qpn);
/* Send what waits, as far as there is space by now. */
void shm_send_waiting(struct shm_link *link, uint64_t now);
/* Let go of those that have ended, and of damaged rings. */
void shm_peers_check(struct shm_link *link);
void shm_peers_close(struct shm_link *link);

/* shm_receive.c */
unsigned int shm_receive(struct link *base, struct link_frame *frames, unsigned int max,
			 uint64_t now);
uint64_t shm_prepare_sleep(struct link *base);
void shm_readers_close(struct shm_link *link);

#endif
