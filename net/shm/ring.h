/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A ring of packets in shared memory: one process writes, another one reads. The writer makes the
 * file; the bytes of it are mapped twice in a row, so that a record never is in two parts.
 *
 * A record is a word with its length, how the packet came by UDP as it would have (addresses, only
 * where they differ from those of the record before; traffic class, hop limit, source port), and
 * the packet itself from the BTH to the ICRC. Records begin at cache lines. The writer makes the
 * word behind a record zero before it writes the record's own: so the reader finds what is new by
 * looking at the next record, and a small message costs one cache line that moves from CPU to CPU.
 * That line is the one that a polling reader looks at, and with it at the next one, where the
 * message is that is published together with an acknowledgement: both come at once then. So these
 * are written all at once when they are published (ring.stage), or they would move back and forth
 * while the writer fills them.
 *
 * Called by the files of net/shm; inbox knows which ring is whose. Each side has a struct ring
 * of its own, which its caller locks. Nothing in the file is trusted by either side, as any process
 * of the user can write to it: the reader looks at each length once, the writer at what the reader
 * says. What can't be makes the ring broken, and it is written and read no more. A reader that is
 * misled without seeing it finds no more records where it is, which the writer does
 * (ring_verify()).
 */
#ifndef URXE_NET_SHM_RING_H
#define URXE_NET_SHM_RING_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/cache_line.h"
#include "net/tuning.h"
#include "net/wire/wire.h"

#define RING_PACKET_MAX 8192	    /* bytes */
#define RING_STAGE (2 * CACHE_LINE) /* an acknowledgement and a short message */

_Static_assert((RING_BYTES & (RING_BYTES - 1)) == 0, "offsets are masked");
_Static_assert(RING_PACKET_MAX > WIRE_PACKET_MAX, "every packet fits");

/* How a packet would have come by UDP. */
struct ring_source {
	union ibv_gid source, destination;
	uint16_t source_port;
	uint8_t traffic_class;
	uint8_t hop_limit;
};

/* What the reader says of itself. It writes nothing else there. */
enum ring_reader {
	RING_UNOPENED, /* it doesn't know of the ring yet */
	RING_OPEN,     /* it is to be told of records */
	RING_WATCHED,  /* it looks at the ring itself, and needn't be told */
	RING_CLOSED,   /* it reads it no more */
};

/* The head of the file. Each side's words have cache lines of their own. */
struct ring_head {
	uint64_t size;
	uint8_t pad[CACHE_LINE - 8];
	/* The reader's: up to where all is read and the memory may be used again. */
	_Alignas(CACHE_LINE) _Atomic uint64_t released;
	_Alignas(CACHE_LINE) _Atomic uint32_t reader; /* enum ring_reader */
};

struct ring {
	struct ring_head *head; /* NULL: none is open */
	uint8_t *bytes;		/* RING_BYTES, and the same again */
	uint64_t next;		/* the next record's place, counted from the ring's beginning */
	uint64_t released;	/* the writer: as it was seen last; the reader: as it was written */
	union ibv_gid source, destination; /* of the record before */
	/* The writer: the first and the last of the records that aren't published. */
	uint64_t first, last;
	uint32_t first_word; /* what makes it one; 0: all are published */
	uint32_t last_word;
	uint32_t staged; /* bytes of them, from the first on, that are in @stage */
	bool broken;
	_Alignas(CACHE_LINE) uint8_t stage[RING_STAGE];
};

/* A record as the reader finds it. */
struct ring_packet {
	struct ring_source from;
	const uint8_t *data; /* in the ring, until ring_release() */
	uint32_t length;
	bool sealed; /* it has an ICRC */
	bool last;   /* of those that were published together */
};

/* Zeroed memory of @size bytes for something with a struct ring in it: calloc() aligns it less. */
void *ring_alloc(size_t size);

/*
 * Make the file @path, or open it. Returns 0 or an errno: ENOSPC, and EPERM or
 * EBADMSG for a file that no process of ours can have made.
 */
int ring_create(struct ring *ring, const char *path);
int ring_open(struct ring *ring, const char *path);
/* The mapping; the file's name is the callers'. */
void ring_close(struct ring *ring);

/* --- the writer ----------------------------------------------------------------------------- */

/*
 * Where to write a packet of @length bytes to, or NULL: there is no space for it. It may be begun
 * anew until ring_append().
 */
uint8_t *ring_reserve(struct ring *ring, const struct ring_source *from, uint32_t length);
/* The packet that was reserved last is complete. */
void ring_append(struct ring *ring, const struct ring_source *from, uint32_t length, bool sealed);
/*
 * Have the reader see what was appended, all of it at once: an ACK and the message behind it
 * arrive together, as in one super-packet.
 */
void ring_publish(struct ring *ring);
/* Bytes that were appended since. */
static inline uint32_t ring_unpublished(const struct ring *ring)
{
	return ring->first_word ? ring->next - ring->first : 0;
}
/* What the reader says of itself; when it has closed the ring, that is broken from then on. */
enum ring_reader ring_reader(struct ring *ring);
/* Look at what can be seen of damage: where the reader is there must be a record, if anywhere. */
void ring_verify(struct ring *ring);
/* Bytes of the ring that a packet of @length takes, at most. */
uint32_t ring_cost(uint32_t length);
/* Bytes that the reader hasn't read, and that there is space for. */
uint32_t ring_unread(struct ring *ring);
uint32_t ring_space(struct ring *ring);

/* --- the reader ----------------------------------------------------------------------------- */

/* Whether ring_receive() would find something: a record, or that the ring is broken. */
static inline bool ring_has_more(const struct ring *ring);
/* Have the line behind the one that ring_has_more() looks at come along with it. */
static inline void ring_look_ahead(const struct ring *ring);
/* The next packet. False: there is none. */
bool ring_receive(struct ring *ring, struct ring_packet *packet);
/* All packets that were received are used no more. */
void ring_release(struct ring *ring);
static inline void ring_set_reader(struct ring *ring, enum ring_reader reader)
{
	atomic_store(&ring->head->reader, reader);
}

/* --- for each poll ---------------------------------------------------------------------------- */

static inline _Atomic uint32_t *ring_word(const struct ring *ring, uint64_t place)
{
	return (_Atomic uint32_t *)(ring->bytes + place % RING_BYTES);
}

static inline void ring_look_ahead(const struct ring *ring)
{
	__builtin_prefetch(ring_word(ring, ring->next + CACHE_LINE));
}

static inline bool ring_has_more(const struct ring *ring)
{
	return !ring->broken &&
	       atomic_load_explicit(ring_word(ring, ring->next), memory_order_relaxed) != 0;
}

#endif
