/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A member may be killed between any two stores. So entries get their member
 * last and lose it first, and whatever a dead member left is removed with it.
 */
#include "net/roster.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "net/gid.h"
#include "net/wire.h"

#define ROSTER_VERSION 2 /* of the file; part of its name too */
#define SEATS 8192
#define CLAIMS 4096
/* Most processes create fewer QPs: their numbers come back when the cursor has gone around 16
 * times. */
#define NUMBERS_A_LEASE 256
#define LOCK_PATIENCE 25000 /* tries, of 200 us each */

/* Bytes of the file that are locked: the first for all of it, then one a member. */
#define LOCK_WHOLE 0

struct place {
	_Atomic uint64_t gid[2];
};

struct seat {
	_Atomic uint32_t member; /* 0: nobody's */
	_Atomic uint32_t index;	 /* in the kernel's group of sockets */
	_Atomic uint64_t cookie;
	struct place place;
};

struct claim {
	_Atomic uint32_t member;
	_Atomic uint64_t service_id;
	struct place place;
};

struct member {
	_Atomic uint32_t here;
	_Atomic uint32_t home, slots; /* the first slot leased, and how many there are */
	_Atomic uint32_t door, announced;
	uint8_t pad[44]; /* to a cache line: @announced is looked at all the time */
};

struct roster_file {
	_Atomic uint64_t secret; /* 0: not set up yet */
	uint32_t version, size;
	_Atomic uint64_t repaired;
	_Atomic uint32_t cursor;		  /* the slot to lease next */
	_Atomic uint32_t seats_used, claims_used; /* beyond, none ever was */
	_Atomic uint16_t owners[LINK_SLOTS];
	_Atomic uint16_t next[LINK_SLOTS];     /* the number in the slot to begin with */
	struct member members[ROSTER_MEMBERS]; /* number 1 and on */
	struct seat seats[SEATS];
	struct claim claims[CLAIMS];
};

struct roster {
	pthread_mutex_t mutex;
	int fd;
	struct roster_file *table;
	uint32_t self;
};

static struct member *member_of(const struct roster *roster, uint32_t member)
{
	return &roster->table->members[member - 1];
}

static void place_set(struct place *place, const union ibv_gid *gid)
{
	uint64_t halves[2];

	memcpy(halves, gid, sizeof(halves));
	place->gid[0] = halves[0];
	place->gid[1] = halves[1];
}

static union ibv_gid place_get(const struct place *place)
{
	uint64_t halves[2] = {place->gid[0], place->gid[1]};
	union ibv_gid gid;

	memcpy(&gid, halves, sizeof(gid));
	return gid;
}

static bool place_is(const struct place *place, const union ibv_gid *gid)
{
	uint64_t halves[2];

	memcpy(halves, gid, sizeof(halves));
	return place->gid[0] == halves[0] && place->gid[1] == halves[1];
}

/* --- locks -------------------------------------------------------------------------- */

/*
 * Of the open file: each link has one of its own, and a forked child shares it until
 * it lets go of it (roster_forget).
 */
static bool lock_byte(int fd, off_t byte, short type)
{
	struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};

	return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

bool roster_is_alive(const struct roster *roster, uint32_t member)
{
	struct flock lock = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = member, .l_len = 1};

	return member == roster->self || fcntl(roster->fd, F_OFD_GETLK, &lock) < 0 ||
	       lock.l_type != F_UNLCK;
}

/* There is no waiting with an end for such a lock. It is held for less than a millisecond. */
static bool lock_whole(int fd)
{
	static const struct timespec moment = {.tv_nsec = 200000};

	for (unsigned int i = 0; i < LOCK_PATIENCE; i++) {
		if (lock_byte(fd, LOCK_WHOLE, F_WRLCK))
			return true;
		syscall(SYS_nanosleep, &moment, NULL); /* no cancellation point: locks are held */
	}
	return false;
}

int roster_lock(struct roster *roster)
{
	pthread_mutex_lock(&roster->mutex);
	if (lock_whole(roster->fd))
		return 0;
	pthread_mutex_unlock(&roster->mutex);
	return EBUSY;
}

bool roster_trylock(struct roster *roster)
{
	if (pthread_mutex_trylock(&roster->mutex) != 0)
		return false;
	if (lock_byte(roster->fd, LOCK_WHOLE, F_WRLCK))
		return true;
	pthread_mutex_unlock(&roster->mutex);
	return false;
}

void roster_unlock(struct roster *roster)
{
	lock_byte(roster->fd, LOCK_WHOLE, F_UNLCK);
	pthread_mutex_unlock(&roster->mutex);
}

/* --- seats ----------------------------------------------------------------------------- */

/* Entries of an array come and go anywhere in it, below a mark that only rises. */
static struct seat *seats_end(const struct roster *roster)
{
	return roster->table->seats + roster->table->seats_used;
}

static struct claim *claims_end(const struct roster *roster)
{
	return roster->table->claims + roster->table->claims_used;
}

static struct seat *find_seat(const struct roster *roster, uint32_t member,
			      const union ibv_gid *gid)
{
	for (struct seat *seat = roster->table->seats; seat < seats_end(roster); seat++) {
		if (seat->member == member && place_is(&seat->place, gid))
			return seat;
	}
	return NULL;
}

static struct seat *last_seat(const struct roster *roster, const union ibv_gid *gid)
{
	struct seat *last = NULL;

	for (struct seat *seat = roster->table->seats; seat < seats_end(roster); seat++) {
		if (seat->member && place_is(&seat->place, gid) &&
		    (!last || seat->index > last->index))
			last = seat;
	}
	return last;
}

static void rise(struct roster *roster, struct seat *seat)
{
	union ibv_gid gid = place_get(&seat->place);
	struct seat *last = last_seat(roster, &gid);

	if (last != seat)
		last->index = seat->index;
	seat->member = 0;
}

unsigned int roster_seats(const struct roster *roster, const union ibv_gid *gid)
{
	unsigned int count = 0;

	for (struct seat *seat = roster->table->seats; seat < seats_end(roster); seat++)
		count += seat->member && place_is(&seat->place, gid);
	return count;
}

int roster_sit(struct roster *roster, const union ibv_gid *gid, uint64_t cookie)
{
	struct roster_file *table = roster->table;
	struct seat *seat;

	for (seat = table->seats; seat < seats_end(roster) && seat->member; seat++)
		;
	if (seat == table->seats + SEATS)
		return ENOSPC;
	if (seat == seats_end(roster))
		table->seats_used++;
	seat->index = roster_seats(roster, gid);
	seat->cookie = cookie;
	place_set(&seat->place, gid);
	seat->member = roster->self;
	return 0;
}

void roster_rise(struct roster *roster, const union ibv_gid *gid)
{
	struct seat *seat = find_seat(roster, roster->self, gid);

	if (seat)
		rise(roster, seat);
}

int roster_index(const struct roster *roster, uint32_t member, const union ibv_gid *gid)
{
	struct seat *seat = find_seat(roster, member, gid);

	return seat ? (int)seat->index : -1;
}

void roster_set_index(struct roster *roster, const union ibv_gid *gid, unsigned int index)
{
	struct seat *ours = find_seat(roster, roster->self, gid);

	if (!ours)
		return;
	for (struct seat *seat = roster->table->seats; seat < seats_end(roster); seat++) {
		if (seat->member && seat->index == index && place_is(&seat->place, gid))
			seat->index = ours->index;
	}
	ours->index = index;
}

uint64_t roster_cookie(const struct roster *roster, uint32_t member, const union ibv_gid *gid)
{
	struct seat *seat = find_seat(roster, member, gid);

	return seat ? seat->cookie : 0;
}

uint32_t roster_neighbour(const struct roster *roster, const union ibv_gid *gid)
{
	for (struct seat *seat = roster->table->seats; seat < seats_end(roster); seat++) {
		uint32_t member = seat->member;

		if (member && member != roster->self && place_is(&seat->place, gid))
			return member;
	}
	return 0;
}

/* --- slots ------------------------------------------------------------------------------- */

static uint32_t next_slot(uint32_t slot)
{
	return slot + 1 < LINK_SLOTS - 1 ? slot + 1 : 1;
}

/* The first slot of @count free ones in a row, looking once around from the cursor; 0: none. */
static uint32_t find_slots(const struct roster_file *table, uint32_t count)
{
	uint32_t slot = table->cursor, row = 0;

	for (uint32_t i = 0; i < LINK_SLOTS; i++) {
		row = table->owners[slot] ? 0 : row + 1;
		if (row == count)
			return slot + 1 - count;
		if (next_slot(slot) == 1)
			row = 0;
		slot = next_slot(slot);
	}
	return 0;
}

int roster_lease(struct roster *roster, uint32_t *first, uint32_t *count, uint32_t *start)
{
	struct member *self = member_of(roster, roster->self);
	struct roster_file *table = roster->table;
	uint32_t slots = self->slots ? self->slots : 1, slot;

	while ((slot = find_slots(table, slots)) == 0) {
		if (slots > 1)
			slots /= 2;
		else if (roster_reap(roster) == 0)
			return ENOSPC;
	}
	/* First of all: a number that was given away once isn't given again in this round. */
	table->cursor = next_slot(slot + slots - 1);
	*first = slot << LINK_SLOT_BITS;
	*count = slots << LINK_SLOT_BITS;
	*start = *first + table->next[slot];
	for (uint32_t i = slot; i < slot + slots; i++) {
		table->next[i] = (table->next[i] + NUMBERS_A_LEASE) % (1u << LINK_SLOT_BITS);
		table->owners[i] = roster->self;
	}
	if (!self->home)
		self->home = slot;
	self->slots += slots;
	return 0;
}

uint32_t roster_owner(const struct roster *roster, uint32_t slot)
{
	return slot < LINK_SLOTS ? roster->table->owners[slot] : 0;
}

uint32_t roster_home(const struct roster *roster, uint32_t member)
{
	return member_of(roster, member)->home;
}

/* --- claims ------------------------------------------------------------------------------- */

static bool is_unspecified(const union ibv_gid *gid)
{
	static const uint8_t zeros[16];

	return memcmp(gid->raw + 12, zeros, 4) == 0 &&
	       (gid_is_ipv4(gid) || memcmp(gid->raw, zeros, 12) == 0);
}

/* An unspecified address stands for all of its family at which the member has a seat. */
static bool covers(const struct roster *roster, const struct claim *claim, const union ibv_gid *gid)
{
	union ibv_gid where = place_get(&claim->place);

	if (!is_unspecified(&where))
		return gid_equal(&where, gid);
	return gid_is_ipv4(&where) == gid_is_ipv4(gid) && find_seat(roster, claim->member, gid);
}

/* The first other member who has the service at @gid. */
static bool is_taken(const struct roster *roster, const union ibv_gid *gid, uint64_t service_id)
{
	for (struct claim *claim = roster->table->claims; claim < claims_end(roster); claim++) {
		if (claim->member && claim->member != roster->self &&
		    claim->service_id == service_id && covers(roster, claim, gid))
			return true;
	}
	return false;
}

int roster_claim(struct roster *roster, const union ibv_gid *gid, uint64_t service_id)
{
	struct roster_file *table = roster->table;
	bool any = is_unspecified(gid);
	struct claim *claim;

	for (struct seat *seat = table->seats; seat < seats_end(roster) && any; seat++) {
		union ibv_gid ours = place_get(&seat->place);

		if (seat->member == roster->self && gid_is_ipv4(&ours) == gid_is_ipv4(gid) &&
		    is_taken(roster, &ours, service_id))
			return EADDRINUSE;
	}
	if (!any && is_taken(roster, gid, service_id))
		return EADDRINUSE;
	for (claim = table->claims; claim < claims_end(roster) && claim->member; claim++)
		;
	if (claim == table->claims + CLAIMS)
		return ENOSPC;
	if (claim == claims_end(roster))
		table->claims_used++;
	claim->service_id = service_id;
	place_set(&claim->place, gid);
	claim->member = roster->self;
	return 0;
}

void roster_release(struct roster *roster, const union ibv_gid *gid, uint64_t service_id)
{
	for (struct claim *claim = roster->table->claims; claim < claims_end(roster); claim++) {
		if (claim->member == roster->self && claim->service_id == service_id &&
		    place_is(&claim->place, gid)) {
			claim->member = 0;
			return;
		}
	}
}

uint32_t roster_claimant(const struct roster *roster, const union ibv_gid *gid, uint64_t service_id)
{
	for (struct claim *claim = roster->table->claims; claim < claims_end(roster); claim++) {
		uint32_t member = claim->member;

		if (member && claim->service_id == service_id && covers(roster, claim, gid))
			return member;
	}
	return 0;
}

/* --- the plan ------------------------------------------------------------------------------ */

static void plan_slots(const struct roster *roster, const int32_t *index_of,
		       struct steer_plan *plan)
{
	const struct roster_file *table = roster->table;
	int32_t before = -1;

	for (uint32_t slot = 1; slot < LINK_SLOTS; slot++) {
		int32_t index = index_of[table->owners[slot]];

		if (index >= 0 && index == before)
			plan->ranges[plan->range_count - 1].last = slot;
		else if (index >= 0 && plan->range_count == STEER_RANGES_MAX)
			break;
		else if (index >= 0)
			plan->ranges[plan->range_count++] = (struct steer_range){slot, slot, index};
		before = index;
	}
}

static void plan_services(const struct roster *roster, const union ibv_gid *gid,
			  const int32_t *index_of, struct steer_plan *plan)
{
	for (struct claim *claim = roster->table->claims; claim < claims_end(roster); claim++) {
		int32_t index = index_of[claim->member];

		if (index < 0 || !covers(roster, claim, gid))
			continue;
		if (plan->service_count == STEER_SERVICES_MAX)
			break;
		plan->services[plan->service_count++] =
			(struct steer_service){claim->service_id, index};
	}
}

void roster_plan(struct roster *roster, const union ibv_gid *gid, struct steer_plan *plan)
{
	int32_t index_of[ROSTER_MEMBERS + 1]; /* by member; -1 for nobody and those elsewhere */

	memset(index_of, -1, sizeof(index_of));
	for (struct seat *seat = roster->table->seats; seat < seats_end(roster); seat++) {
		if (seat->member && place_is(&seat->place, gid))
			index_of[seat->member] = seat->index;
	}
	plan->secret = roster->table->secret;
	plan->range_count = plan->service_count = 0;
	plan_slots(roster, index_of, plan);
	plan_services(roster, gid, index_of, plan);
	plan->first = 0;
	plan->sockets = roster_seats(roster, gid);
}

/* --- doors ---------------------------------------------------------------------------------- */

void roster_set_door(struct roster *roster, uint16_t port)
{
	member_of(roster, roster->self)->door = port;
}

uint16_t roster_door(const struct roster *roster, uint32_t member)
{
	return member_of(roster, member)->door;
}

void roster_announce(struct roster *roster, uint32_t member)
{
	atomic_fetch_add(&member_of(roster, member)->announced, 1);
}

uint32_t roster_announced(const struct roster *roster)
{
	return atomic_load_explicit(&member_of(roster, roster->self)->announced,
				    memory_order_relaxed);
}

void roster_set_repaired(struct roster *roster, uint64_t time)
{
	roster->table->repaired = time;
}

uint64_t roster_repaired(const struct roster *roster)
{
	return roster->table->repaired;
}

/* --- members --------------------------------------------------------------------------------- */

/* All seats of those in @dead, from the last of a group on: so the survivors move but once. */
static unsigned int empty_seats(struct roster *roster, const bool *dead)
{
	unsigned int count = 0;

	for (;;) {
		struct seat *last = NULL;

		for (struct seat *seat = roster->table->seats; seat < seats_end(roster); seat++) {
			if (seat->member && dead[seat->member] &&
			    (!last || seat->index > last->index))
				last = seat;
		}
		if (!last)
			return count;
		rise(roster, last);
		count++;
	}
}

static void strike_off(struct roster *roster, const bool *dead)
{
	struct roster_file *table = roster->table;

	for (uint32_t slot = 0; slot < LINK_SLOTS; slot++) {
		if (dead[table->owners[slot]])
			table->owners[slot] = 0;
	}
	for (struct claim *claim = table->claims; claim < claims_end(roster); claim++) {
		if (dead[claim->member])
			claim->member = 0;
	}
	for (uint32_t member = 1; member <= ROSTER_MEMBERS; member++) {
		if (dead[member])
			member_of(roster, member)->here = 0;
	}
}

unsigned int roster_reap(struct roster *roster)
{
	bool dead[ROSTER_MEMBERS + 1] = {false};
	unsigned int seats, deaths = 0;

	for (uint32_t member = 1; member <= ROSTER_MEMBERS; member++) {
		dead[member] = member_of(roster, member)->here && !roster_is_alive(roster, member);
		deaths += dead[member];
	}
	if (!deaths)
		return 0;
	seats = empty_seats(roster, dead);
	strike_off(roster, dead);
	return seats;
}

/* A number that nobody has; its byte in the file is ours from then on. */
static int enrol(struct roster *roster)
{
	roster_reap(roster);
	for (uint32_t number = 1; number <= ROSTER_MEMBERS; number++) {
		struct member *member = member_of(roster, number);

		if (member->here || !lock_byte(roster->fd, number, F_WRLCK))
			continue;
		member->home = member->slots = member->door = 0;
		roster->self = number;
		member->here = 1;
		return 0;
	}
	return ENOSPC;
}

static void resign(struct roster *roster)
{
	bool us[ROSTER_MEMBERS + 1] = {false};

	us[roster->self] = true;
	empty_seats(roster, us);
	strike_off(roster, us);
}

uint32_t roster_self(const struct roster *roster)
{
	return roster->self;
}

uint64_t roster_secret(const struct roster *roster)
{
	return roster->table->secret;
}

/* --- the file ----------------------------------------------------------------------------------
 */

/* Users and network namespaces share no sockets. */
static int usual_path(char *path, size_t size)
{
	struct stat net;

	if (stat("/proc/thread-self/ns/net", &net) < 0)
		return errno;
	snprintf(path, size, "/dev/shm/urxe-%d-%u-%llu", ROSTER_VERSION, (unsigned int)geteuid(),
		 (unsigned long long)net.st_ino);
	return 0;
}

/* /dev/shm is everybody's: what lies there under our name isn't trusted for that. */
static bool is_safe(int fd)
{
	struct stat file;

	return fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && file.st_uid == geteuid() &&
	       (file.st_mode & 077) == 0;
}

/* Take the memory now: a page that isn't to be had when it is touched would be a SIGBUS. */
static int map_table(struct roster *roster)
{
	int error = posix_fallocate(roster->fd, 0, sizeof(struct roster_file));
	void *memory;

	if (error)
		return error;
	memory = mmap(NULL, sizeof(struct roster_file), PROT_READ | PROT_WRITE, MAP_SHARED,
		      roster->fd, 0);
	if (memory == MAP_FAILED)
		return errno;
	roster->table = memory;
	return 0;
}

static int set_up(struct roster_file *table)
{
	uint64_t random[2];

	if (table->secret)
		return table->version == ROSTER_VERSION && table->size == sizeof(*table) ? 0
											 : EPERM;
	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return EIO;
	table->version = ROSTER_VERSION;
	table->size = sizeof(*table);
	table->cursor = 1 + random[1] % (LINK_SLOTS - 2);
	for (uint32_t slot = 0; slot < LINK_SLOTS; slot++)
		table->next[slot] = (random[1] >> 32) * (slot + 1) % (1u << LINK_SLOT_BITS);
	table->secret = random[0] | 1;
	return 0;
}

static int enter(struct roster *roster)
{
	int error;

	if (!is_safe(roster->fd))
		return EPERM;
	if (!lock_whole(roster->fd))
		return EBUSY;
	error = map_table(roster);
	if (!error)
		error = set_up(roster->table);
	if (!error)
		error = enrol(roster);
	lock_byte(roster->fd, LOCK_WHOLE, F_UNLCK);
	return error;
}

/* Closing the file lets go of all locks, and the number with it. */
static void roster_free(struct roster *roster)
{
	if (roster->table)
		munmap(roster->table, sizeof(*roster->table));
	close(roster->fd);
	pthread_mutex_destroy(&roster->mutex);
	free(roster);
}

int roster_open(const char *path, struct roster **result)
{
	struct roster *roster;
	char usual[64];
	int error = path ? 0 : usual_path(usual, sizeof(usual));

	if (error)
		return error;
	roster = calloc(1, sizeof(*roster));
	if (!roster)
		return ENOMEM;
	pthread_mutex_init(&roster->mutex, NULL);
	roster->fd = open(path ? path : usual, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (roster->fd < 0) {
		error = errno;
		pthread_mutex_destroy(&roster->mutex);
		free(roster);
		return error;
	}
	error = enter(roster);
	if (error) {
		roster_free(roster);
		return error;
	}
	*result = roster;
	return 0;
}

void roster_close(struct roster *roster)
{
	/* If the lock isn't to be had, the others take us for dead. */
	if (roster_lock(roster) == 0) {
		resign(roster);
		roster_unlock(roster);
	}
	roster_free(roster);
}

void roster_forget(struct roster *roster)
{
	munmap(roster->table, sizeof(*roster->table));
	close(roster->fd);
	roster->fd = -1;
	roster->table = NULL;
}
