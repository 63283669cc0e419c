/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/shm/inbox.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/fence.h"
#include "net/guard.h"
#include "net/shared_file.h"

/* A process with another one doesn't find our inbox, and sends by UDP. */
#define SHM_VERSION 2
#define NAME "urxe-shm-%d-%u-%016llx-%u"

void shm_path(char path[SHM_PATH], const char *directory, uint64_t sender, uint32_t ring)
{
	snprintf(path, SHM_PATH, "%s/" NAME, directory, SHM_VERSION, (unsigned int)geteuid(),
		 (unsigned long long)sender, ring);
}

/* --- files ---------------------------------------------------------------------------------- */

static struct inbox_file *map_inbox(int fd)
{
	struct inbox_file *file =
		mmap(NULL, sizeof(struct inbox_file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (file == MAP_FAILED)
		return NULL;
	if (guard_file(file, sizeof(*file))) {
		madvise(file, sizeof(*file), MADV_DONTFORK);
		return file;
	}
	munmap(file, sizeof(*file));
	errno = ENOSPC;
	return NULL;
}

struct inbox_file *inbox_open(const char *directory, uint64_t number)
{
	struct inbox_file *file = NULL;
	char path[SHM_PATH];
	struct stat status;
	int fd;

	shm_path(path, directory, number, 0);
	fd = shared_file_open(AT_FDCWD, path, O_RDWR);
	if (fd < 0)
		return NULL;
	if (fstat(fd, &status) == 0 && status.st_size == sizeof(*file))
		file = map_inbox(fd);
	close(fd);
	return file;
}

void inbox_close(struct inbox_file *file)
{
	guard_forget_file(file);
	munmap(file, sizeof(*file));
}

/* --- sweeping ------------------------------------------------------------------------------- */

/* Whether the process lives, or may, whose inbox has the number @sender. */
static bool is_alive(int directory, unsigned int version, uint64_t sender)
{
	char name[SHM_PATH];
	bool alive;
	int fd;

	snprintf(name, sizeof(name), NAME, version, (unsigned int)geteuid(),
		 (unsigned long long)sender, 0);
	fd = shared_file_open(directory, name, O_RDWR);
	/* For lack of descriptors, say, it can't be known: files of a living process stay. */
	if (fd < 0)
		return shared_file_is_ours(directory, name);
	alive = shared_file_is_locked(fd);
	close(fd);
	return alive;
}

struct file_name {
	int version;
	unsigned int ring;
	uint64_t sender;
};

/* By its name of our user, and not of a newer version. */
static bool parse_name(const char *text, struct file_name *name)
{
	unsigned long long sender;
	unsigned int user;
	int end = 0;

	if (sscanf(text, NAME "%n", &name->version, &user, &sender, &name->ring, &end) != 4 ||
	    text[end])
		return false;
	name->sender = sender;
	return user == geteuid() && name->version <= SHM_VERSION;
}

/* Whether any member's entry in the inbox @number says that the ring is to be opened. */
static bool is_offered_in(const char *directory, uint64_t number, const struct file_name *ring)
{
	struct inbox_file *file = inbox_open(directory, number);
	bool offered = !file; /* it can't be known */

	for (uint32_t member = 1; file && member <= ROSTER_MEMBERS && !offered; member++)
		offered = inbox_is_offered(file, member, ring->sender, ring->ring);
	if (file)
		inbox_close(file);
	return offered;
}

/*
 * Whether a living process has yet to open the ring of a dead one, whose last packets are in it. It
 * removes the name itself. No ring is offered any more that wasn't when its writer had died.
 */
static bool is_awaited(const char *directory, const struct file_name *ring)
{
	DIR *files = opendir(directory);
	struct dirent *entry;
	struct file_name name;
	bool awaited = !files; /* it can't be known */

	while (files && !awaited && (entry = readdir(files)))
		awaited = parse_name(entry->d_name, &name) && name.ring == 0 &&
			  name.version == SHM_VERSION &&
			  is_alive(dirfd(files), name.version, name.sender) &&
			  is_offered_in(directory, name.sender, ring);
	if (files)
		closedir(files);
	return awaited;
}

static void sweep_name(const char *directory, int fd, const char *text)
{
	struct file_name name;

	if (!parse_name(text, &name) || !shared_file_is_ours(fd, text) ||
	    is_alive(fd, name.version, name.sender))
		return;
	if (name.ring && name.version == SHM_VERSION && is_awaited(directory, &name))
		return;
	unlinkat(fd, text, 0);
}

static void sweep(const char *directory)
{
	DIR *files = opendir(directory);
	struct dirent *entry;

	while (files && (entry = readdir(files)))
		sweep_name(directory, dirfd(files), entry->d_name);
	if (files)
		closedir(files);
}

/* --- ours ----------------------------------------------------------------------------------- */

/* A sweep would remove one that isn't locked. 0 or an errno. */
static int fill(struct inbox *inbox)
{
	int error = shared_file_reserve(inbox->fd, 0, sizeof(struct inbox_file));
	char path[SHM_PATH];

	if (error)
		return error;
	inbox->file = map_inbox(inbox->fd);
	if (!inbox->file)
		return errno;
	inbox->file->size = sizeof(*inbox->file);
	shm_path(path, inbox->directory, inbox->number, 0);
	return shared_file_publish(inbox->fd, path) ? 0 : errno;
}

int inbox_create(struct inbox *inbox, const char *directory)
{
	int error;

	*inbox = (struct inbox){.fd = -1};
	if (snprintf(inbox->directory, sizeof(inbox->directory), "%s", directory) >=
	    (int)sizeof(inbox->directory))
		return ENAMETOOLONG;
	if (getrandom(&inbox->number, sizeof(inbox->number), 0) != sizeof(inbox->number))
		return EIO;
	inbox->number |= 1; /* 0 is none */
	sweep(directory);
	inbox->fd = shared_file_create(directory);
	if (inbox->fd < 0)
		return errno;
	inbox->identity = descriptor_identify(inbox->fd);
	error = fill(inbox);
	if (!error)
		return 0;
	if (inbox->file)
		inbox_close(inbox->file);
	close(inbox->fd);
	*inbox = (struct inbox){.fd = -1};
	return error;
}

void inbox_unlink(const struct inbox *inbox)
{
	char path[SHM_PATH];
	uint64_t sender;
	uint32_t ring;

	for (uint32_t member = 1; member <= ROSTER_MEMBERS; member++) {
		if (!inbox_next_offer(inbox->file, member, &sender, &ring))
			continue;
		shm_path(path, inbox->directory, sender, ring);
		unlink(path);
	}
	shm_path(path, inbox->directory, inbox->number, 0);
	unlink(path);
}

void inbox_destroy(struct inbox *inbox)
{
	if (!inbox->file)
		return;
	inbox_unlink(inbox);
	inbox_close(inbox->file);
	descriptor_close(inbox->fd, &inbox->identity);
	*inbox = (struct inbox){.fd = -1};
}

/* The mapping isn't there, in a child (MADV_DONTFORK). */
void inbox_after_fork_child(struct inbox *inbox)
{
	descriptor_close(inbox->fd, &inbox->identity);
	inbox->file = NULL;
	inbox->fd = -1;
}

/* --- rings to be opened ---------------------------------------------------------------------- */

void inbox_offer(struct inbox_file *file, uint32_t member, uint64_t sender, uint32_t ring)
{
	struct inbox_entry *entry = &file->entries[member];

	/* One of the process that was the member before is taken away first. */
	atomic_store(&entry->ring, 0);
	atomic_store(&entry->sender, sender);
	atomic_store(&entry->ring, ring);
}

bool inbox_is_offered(const struct inbox_file *file, uint32_t member, uint64_t sender,
		      uint32_t ring)
{
	const struct inbox_entry *entry = &file->entries[member];

	return atomic_load(&entry->ring) == ring && atomic_load(&entry->sender) == sender;
}

bool inbox_next_offer(const struct inbox_file *file, uint32_t member, uint64_t *sender,
		      uint32_t *ring)
{
	const struct inbox_entry *entry = &file->entries[member];

	*ring = atomic_load(&entry->ring);
	*sender = atomic_load(&entry->sender);
	/* The same as before: then the sender is of that ring. */
	return *ring && atomic_load(&entry->ring) == *ring;
}

void inbox_end_offer(struct inbox_file *file, uint32_t member, uint32_t ring)
{
	atomic_compare_exchange_strong(&file->entries[member].ring, &ring, 0);
}

/* --- the doorbell ---------------------------------------------------------------------------- */

void inbox_ring_bell(struct inbox_file *file, uint32_t member)
{
	_Atomic uint64_t *word = &file->members[member / 64];
	uint64_t bit = UINT64_C(1) << member % 64;

	if (!(atomic_load(word) & bit))
		atomic_fetch_or(word, bit);
	if (!atomic_load(&file->rung))
		atomic_store(&file->rung, 1);
	fence_all();
}

/* The bits of word @i that are a member's: members are 1 to ROSTER_MEMBERS. */
static uint64_t member_bits(uint32_t i)
{
	uint64_t bits = UINT64_MAX;

	if (i == 0)
		bits &= ~UINT64_C(1);
	if (i == ROSTER_MEMBERS / 64)
		bits &= (UINT64_C(2) << ROSTER_MEMBERS % 64) - 1;
	return bits;
}

/*
 * Each word is looked at once, whatever others write there: bits that are no member's are all
 * cleared with one store, and not one by one until there are none.
 */
uint32_t inbox_next_rung(struct inbox_file *file)
{
	if (!inbox_is_rung(file))
		return 0;
	/* Cleared before the members are looked at: what is rung meanwhile rings again. */
	atomic_exchange(&file->rung, 0);
	for (uint32_t i = 0; i < INBOX_WORDS; i++) {
		uint64_t bits = atomic_load(&file->members[i]);
		uint32_t bit;

		if (bits & ~member_bits(i))
			atomic_fetch_and(&file->members[i], member_bits(i));
		bits &= member_bits(i);
		if (!bits)
			continue;
		bit = __builtin_ctzll(bits);
		atomic_fetch_and(&file->members[i], ~(UINT64_C(1) << bit));
		atomic_store(&file->rung, 1);
		fence_all();
		return i * 64 + bit;
	}
	return 0;
}
