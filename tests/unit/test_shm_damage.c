/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Links of shared memory whose peer ends, or whose rings and inboxes another process of the user
 * has written into: what isn't right is given up, the packets go by UDP, and no link crashes.
 */
#include <arpa/inet.h>
#include <check.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "gid_of.h"
#include "killable.h"
#include "net/clock.h"
#include "net/random.h"
#include "net/tuning.h"
#include "net/udp/udp.h"
#include "no_roster.h"
#include "own_network.h"
#include "shm_nodes.h"
#include "tests/run_suite.h"

static volatile unsigned int intact; /* frames: to find out, all of each was read */

static void remove_files(void)
{
	DIR *files = opendir(directory);
	struct dirent *entry;

	while ((entry = readdir(files)))
		unlinkat(dirfd(files), entry->d_name, 0);
	closedir(files);
}

/* --- processes that end ----------------------------------------------------------------------- */

static struct lease *child_lease; /* shared with the child */

static void open_child(const void *address)
{
	struct node child;

	a.link->ops->after_fork_child(a.link);
	b.link->ops->after_fork_child(b.link);
	child = node_open(address, true, false);
	ck_assert_uint_eq(send_one(&child, &b, 1), 0);
	*child_lease = child.lease;
}

static void wait_until_checked(void)
{
	struct shm_link *link = (struct shm_link *)b.link;
	struct link_frame frame;

	link->checked_at = 0;
	ck_assert_uint_eq(receive(&b, &frame, 1), 0);
}

START_TEST(lets_go_of_the_dead)
{
	struct node dead = {.gid = gid_of(ADDRESS_C)};
	uint64_t read;
	struct path path;
	struct link_frame frame;
	pid_t pid;

	child_lease = mmap(NULL, sizeof(*child_lease), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid = killable_process(open_child, ADDRESS_C);
	dead.lease = *child_lease;
	path = path_to(&b, &dead);
	ck_assert_uint_eq(b.link->ops->capacity(b.link, &path, dead.lease.start), SHM_CAPACITY);
	ck_assert_uint_eq(send_one(&b, &dead, 1), 0);
	ck_assert_uint_gt(b.link->ops->unread(b.link, &path, dead.lease.start, &read), 0);
	kill_and_wait(pid);

	/*
	 * What it sent before is there, also as long as a frame is used that came along with the
	 * look at which members live; what it doesn't read isn't unread for ever.
	 */
	((struct shm_link *)b.link)->checked_at = 0;
	wait_for_frame(&b, &frame);
	check_frame(&frame, &dead, &b, 1);
	ck_assert_uint_eq(b.link->ops->unread(b.link, &path, dead.lease.start, &read), 0);
	wait_until_checked();
	ck_assert_uint_eq(((struct shm_link *)b.link)->watched_count, 0);
	ck_assert_uint_eq(b.link->ops->capacity(b.link, &path, dead.lease.start), UINT32_MAX);
	/* Its inbox is left, until another one is made. */
	ck_assert_uint_eq(count_files(), 3);
	node_close(&a);
	a = node_open(ADDRESS_A, true, false);
	ck_assert_uint_eq(count_files(), 2);
	munmap(child_lease, sizeof(*child_lease));
}
END_TEST

/*
 * Another link in its place gets a new ring, at both ends. What was read of all of them counts, if
 * it has the same number: a process of another test may have taken that.
 */
START_TEST(begins_anew_with_another)
{
	uint64_t read, before = 0;
	struct link_frame frame;
	struct path path;
	uint32_t number;

	for (uint32_t round = 0; round < 5; round++) {
		number = roster_self(((struct shm_link *)a.link)->roster);
		ck_assert_uint_eq(send_one(&a, &b, round), 0);
		wait_for_frame(&b, &frame);
		ck_assert(frame.shared);
		check_frame(&frame, &a, &b, round);
		ck_assert_uint_eq(send_one(&b, &a, round), 0);
		wait_for_frame(&a, &frame);
		ck_assert(frame.shared);
		ck_assert_uint_eq(receive(&a, &frame, 1), 0);
		path = path_to(&b, &a);
		ck_assert_uint_eq(b.link->ops->unread(b.link, &path, a.lease.start, &read), 0);
		ck_assert_uint_gt(read, before);
		before = read;
		node_close(&a);
		a = node_open(ADDRESS_A, true, false);
		if (roster_self(((struct shm_link *)a.link)->roster) != number)
			before = 0;
	}
}
END_TEST

/* --- what isn't to be trusted ----------------------------------------------------------------- */

#define OFTEN UINT64_C(1000000) /* ns: how often links look after one another here */

/* Receive on both, use all of each frame, and see whether @psn came to @to as it was sent. */
static bool receive_at_both(const struct node *from, const struct node *to, uint32_t psn,
			    bool *shared)
{
	struct link_frame frames[64];
	unsigned int count = receive(from, frames, 64);
	bool found = false;

	for (unsigned int i = 0; i < count; i++)
		intact += icrc_check(&frames[i]);
	count = receive(to, frames, 64);
	for (unsigned int i = 0; i < count; i++) {
		intact += icrc_check(&frames[i]);
		if (frames[i].length != sizeof(struct bth) + PAYLOAD + ICRC_LENGTH ||
		    psn_of(&frames[i]) != psn)
			continue;
		*shared = frames[i].shared;
		found = true;
	}
	return found;
}

/* What is sent again and again, as RC does it, comes in the end. Returns whether by memory. */
static bool repeat_until_received(const struct node *from, const struct node *to, uint32_t psn)
{
	uint64_t end = clock_now() + DEADLINE;
	bool shared = false;

	do {
		ck_assert_msg(clock_now() < end, "packet %u doesn't come", psn);
		send_one(from, to, psn);
		from->link->ops->prepare_sleep(from->link);
		to->link->ops->prepare_sleep(to->link);
	} while (!receive_at_both(from, to, psn, &shared));
	return shared;
}

static void look_often(void)
{
	shm_of(&a)->check = shm_of(&b)->check = OFTEN;
}

/* Some words, a stretch or all of it: random, zero or all ones. */
static void write_garbage(void *memory, size_t size, uint64_t *random)
{
	size_t words = size / 8, first = random_next(random) % words, count;
	uint64_t kind = random_next(random) % 4;

	count = 1 + random_next(random) % (random_next(random) % 2 ? 4 : words - first);
	for (size_t i = first; i < first + count && i < words; i++)
		((uint64_t *)memory)[i] = kind == 0   ? 0
					  : kind == 1 ? UINT64_MAX
						      : random_next(random);
}

/* In what the other one has written for @node, or all may write: into the same memory. */
static void write_garbage_for(const struct node *node, uint64_t *random)
{
	struct shm_link *link = shm_of(node);
	struct ring *ring = link->watched_count ? &link->watched[0]->ring : NULL;

	if (!ring || random_next(random) % 3 == 0)
		write_garbage(link->inbox.file, sizeof(*link->inbox.file), random);
	else if (random_next(random) % 2)
		write_garbage(ring->head, sizeof(*ring->head), random);
	else
		write_garbage(ring->bytes, RING_BYTES, random);
}

START_TEST(survives_garbage)
{
	uint64_t random = _i + 1;

	look_often();
	for (uint32_t i = 0; i < 40; i++) {
		repeat_until_received(&a, &b, 2 * i);
		repeat_until_received(&b, &a, 2 * i + 1);
		write_garbage_for(random_next(&random) % 2 ? &a : &b, &random);
		/* All by UDP now, perhaps: to the next inbox it is memory again. */
		if (i % 8 == 7) {
			node_close(&a);
			a = node_open(ADDRESS_A, true, false);
			look_often();
		}
	}
	node_close(&a);
	node_close(&b);
	remove_files(); /* of rings that their names don't lead to any more */
}
END_TEST

/* The same memory once more: what is written there stays when the link has let go of it. */
static void *map_again(void *memory, size_t size)
{
	void *again = mremap(memory, 0, size, MREMAP_MAYMOVE);

	ck_assert_ptr_ne(again, MAP_FAILED);
	return again;
}

struct writer {
	void *inbox, *ring;
	uint64_t random;
	_Atomic bool over;
};

static void *write_all_the_time(void *argument)
{
	struct writer *writer = argument;

	while (!atomic_load(&writer->over)) {
		if (random_next(&writer->random) % 4 == 0)
			write_garbage(writer->inbox, sizeof(struct inbox_file), &writer->random);
		else
			write_garbage(writer->ring, RING_BYTES + (1 << 16), &writer->random);
	}
	return NULL;
}

/* What was looked at may be another thing when it is looked at again. */
START_TEST(survives_garbage_meanwhile)
{
	struct writer writer = {.random = _i + 1};
	struct link_frame frame;
	pthread_t thread;

	look_often();
	for (unsigned int round = 0; round < 8; round++) {
		ck_assert_uint_eq(send_one(&a, &b, 1), 0);
		wait_for_frame(&b, &frame);
		ck_assert(frame.shared);
		writer.inbox = map_again(shm_of(&b)->inbox.file, sizeof(struct inbox_file));
		writer.ring = map_again(shm_of(&b)->watched[0]->ring.head, RING_BYTES + (1 << 16));
		atomic_store(&writer.over, false);
		ck_assert_int_eq(pthread_create(&thread, NULL, write_all_the_time, &writer), 0);
		for (uint32_t psn = 0; psn < 200; psn++) {
			bool shared;

			send_one(&a, &b, psn);
			receive_at_both(&a, &b, psn, &shared);
		}
		atomic_store(&writer.over, true);
		pthread_join(thread, NULL);
		repeat_until_received(&a, &b, 1000);
		repeat_until_received(&b, &a, 1001);
		munmap(writer.inbox, sizeof(struct inbox_file));
		munmap(writer.ring, RING_BYTES + (1 << 16));
		node_close(&a);
		node_close(&b);
		a = node_open(ADDRESS_A, true, false);
		b = node_open(ADDRESS_B, true, false);
		look_often();
	}
	node_close(&a);
	node_close(&b);
	remove_files();
}
END_TEST

/* Bells and offers are hints: those that lie close no ring that is read. */
START_TEST(keeps_rings_though_bells_lie)
{
	uint64_t random = 1;

	ck_assert(repeat_until_received(&a, &b, 0));
	look_often();
	for (uint32_t psn = 1; psn < 100; psn++) {
		struct inbox_file *file = shm_of(&b)->inbox.file;

		for (unsigned int i = 0; i < INBOX_WORDS; i++)
			file->members[i] = random_next(&random);
		file->rung = random_next(&random);
		file->sleeping = random_next(&random);
		write_garbage(file->entries, sizeof(file->entries), &random);
		ck_assert(repeat_until_received(&a, &b, psn));
		ck_assert(repeat_until_received(&b, &a, psn));
	}
	memset(shm_of(&b)->inbox.file->entries, 0, sizeof(shm_of(&b)->inbox.file->entries));
}
END_TEST

/* The bell, and what says where it is: then the receiver looks by itself. */
START_TEST(finds_what_no_bell_tells)
{
	struct inbox_file *file = shm_of(&b)->inbox.file;
	struct link_frame frame;

	look_often();
	ck_assert_uint_eq(send_one(&a, &b, 1), 0);
	file->rung = 0;
	memset(file->members, 0, sizeof(file->members));
	wait_for_frame(&b, &frame);
	ck_assert(frame.shared);
	check_frame(&frame, &a, &b, 1);
}
END_TEST

/* Nothing is left where the receiver is to read on: the writer sees that. */
START_TEST(gives_up_a_ring_without_its_records)
{
	look_often();
	ck_assert(repeat_until_received(&a, &b, 1));
	ck_assert_uint_eq(send_one(&a, &b, 2), 0);
	memset(shm_of(&b)->watched[0]->ring.bytes, 0, RING_BYTES);
	ck_assert(!repeat_until_received(&a, &b, 3));
}
END_TEST

/* An offer that is lost, and one that can't be taken: the ring is given up. */
START_TEST(gives_up_a_ring_that_is_not_opened)
{
	struct rlimit limit, none;
	int next = dup(0);

	look_often();
	ck_assert_uint_eq(send_one(&a, &b, 1), 0);
	memset(shm_of(&b)->inbox.file->entries, 0, sizeof(shm_of(&b)->inbox.file->entries));
	ck_assert(!repeat_until_received(&a, &b, 2));

	close(next);
	ck_assert_uint_eq(send_one(&b, &a, 1), 0);
	next = dup(0);
	close(next);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = (struct rlimit){next, limit.rlim_max};
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	ck_assert(!repeat_until_received(&b, &a, 2));
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}
END_TEST

/* However many are offered. */
START_TEST(opens_few_rings_of_a_member)
{
	uint32_t member = roster_self(shm_of(&a)->roster), opened = 0;
	struct inbox_file *file = shm_of(&b)->inbox.file;
	uint64_t sender = shm_of(&a)->inbox.number;
	struct link_frame frame;
	struct ring ring;
	char path[SHM_PATH];

	for (uint32_t number = 1; number <= 2 * RINGS_OF_MEMBER; number++) {
		shm_path(path, directory, sender, number);
		ck_assert_int_eq(ring_create(&ring, path), 0);
		ring_close(&ring);
		inbox_offer(file, member, sender, number);
		inbox_ring_bell(file, member);
		ck_assert_uint_eq(receive(&b, &frame, 1), 0);
		ck_assert(!inbox_is_offered(file, member, sender, number));
		opened += unlink(path) < 0;
	}
	ck_assert_uint_eq(opened, RINGS_OF_MEMBER);
}
END_TEST

/* Its contents are zeros that no process shares then (net/guard.h), as after a truncation. */
START_TEST(does_without_a_damaged_inbox)
{
	look_often();
	ck_assert(repeat_until_received(&a, &b, 1));
	memset(shm_of(&b)->inbox.file, 0, sizeof(struct inbox_file));
	for (uint64_t end = clock_now() + DEADLINE; repeat_until_received(&a, &b, 2);)
		ck_assert_uint_lt(clock_now(), end);
	ck_assert(!repeat_until_received(&a, &b, 3));
}
END_TEST

START_TEST(gives_up_a_damaged_ring)
{
	struct shm_link *link = (struct shm_link *)b.link;
	struct link_frame frame;

	ck_assert_uint_eq(send_one(&a, &b, 1), 0);
	wait_for_frame(&b, &frame);
	ck_assert_uint_eq(link->watched_count, 1);
	memset(link->watched[0]->ring.bytes, 0x5a, RING_BYTES);
	receive(&b, &frame, 1);
	receive(&b, &frame, 1);
	ck_assert_uint_eq(link->watched_count, 0);
	/* The other side, by what its reader says. */
	ck_assert_uint_eq(send_one(&b, &a, 1), 0);
	wait_for_frame(&a, &frame);
	link = (struct shm_link *)a.link;
	atomic_store(&link->watched[0]->ring.head->released, UINT64_MAX / 2);
	for (uint32_t i = 0; i < MANY; i++)
		send_one(&b, &a, i);
	ck_assert_uint_eq(
		b.link->ops->capacity(b.link, &(struct path){.destination = a.gid}, a.lease.start),
		UINT32_MAX);
}
END_TEST

/* Before a packet is lost with it. */
START_TEST(gives_up_a_damaged_ring_at_the_next_look)
{
	struct link_frame frame;

	ck_assert_uint_eq(send_one(&b, &a, 1), 0);
	wait_for_frame(&a, &frame);
	atomic_store(&shm_of(&a)->watched[0]->ring.head->released, UINT64_MAX / 2);
	wait_until_checked();
	ck_assert_uint_eq(send_one(&b, &a, 2), 0);
	wait_for_frame(&a, &frame);
	ck_assert(!frame.shared);
	check_frame(&frame, &b, &a, 2);
}
END_TEST

/* Its name is another file's, which stays. */
START_TEST(does_without_a_ring)
{
	struct link_frame frame;
	char path[SHM_PATH];

	shm_path(path, directory, shm_of(&a)->inbox.number, 1);
	close(open(path, O_CREAT | O_CLOEXEC | O_WRONLY, 0600));
	ck_assert_uint_eq(send_one(&a, &b, 1), 0);
	wait_for_frame(&b, &frame);
	ck_assert(!frame.shared);
	check_frame(&frame, &a, &b, 1);
	ck_assert_int_eq(unlink(path), 0);
}
END_TEST

START_TEST(does_without_shared_memory)
{
	char before[64];
	struct node node;
	struct link_frame frame;

	memcpy(before, directory, sizeof(before));
	snprintf(directory, sizeof(directory), "/dev/shm/urxe-test-nowhere");
	node = node_open(ADDRESS_C, true, false);
	memcpy(directory, before, sizeof(before));
	ck_assert_uint_eq(send_one(&node, &b, 1), 0);
	wait_for_frame(&b, &frame);
	ck_assert(!frame.shared);
	ck_assert_uint_eq(send_one(&b, &node, 2), 0);
	wait_for_frame(&node, &frame);
	check_frame(&frame, &b, &node, 2);
	node_close(&node);
}
END_TEST

/* No process could find it. */
START_TEST(does_without_a_roster)
{
	struct link_frame frame;
	struct node node;

	no_roster = true;
	node = node_open(ADDRESS_C, true, false);
	no_roster = false;
	ck_assert_uint_eq(count_files(), 2);
	ck_assert_uint_eq(send_one(&b, &node, 1), 0);
	wait_for_frame(&node, &frame);
	ck_assert(!frame.shared);
	check_frame(&frame, &b, &node, 1);
	ck_assert_uint_eq(send_one(&node, &b, 2), 0);
	wait_for_frame(&b, &frame);
	check_frame(&frame, &node, &b, 2);
	node_close(&node);
}
END_TEST

static bool loopback_is_down;

/* Of libc, by which a socket gets a free port. */
int bind(int fd, const struct sockaddr *address, socklen_t length)
{
	int (*real)(int, const struct sockaddr *, socklen_t) = dlsym(RTLD_NEXT, "bind");
	const struct sockaddr_in *ipv4 = (const struct sockaddr_in *)address;

	if (!loopback_is_down || ipv4->sin_addr.s_addr != htonl(INADDR_LOOPBACK))
		return real(fd, address, length);
	errno = EADDRNOTAVAIL;
	return -1;
}

/* It can't be told to wake up: packets that it may sleep for come by its sockets. */
START_TEST(does_without_a_control_socket)
{
	const struct udp_options udp_options = {};
	const struct shm_options options = {.directory = directory};
	struct node node = {.gid = gid_of(ADDRESS_C)};
	struct link_frame frame;
	struct link *udp;

	ck_assert_int_eq(udp_link_create(&udp_options, &udp), 0);
	ck_assert_int_eq(shm_link_create(udp, &options, &node.link), 0);
	udp->ops->receive_grh(udp);
	loopback_is_down = true;
	ck_assert_int_eq(node.link->ops->add_address(node.link, &node.gid, 0), 0);
	ck_assert_int_eq(node.link->share->ops->lease_qpns(node.link->share, &node.lease), 0);
	ck_assert_uint_eq(count_files(), 2);
	ck_assert_uint_eq(send_one(&b, &node, 1), 0);
	wait_for_frame(&node, &frame);
	ck_assert(!frame.shared);
	check_frame(&frame, &b, &node, 1);
	node_close(&node);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("shm_damage");
	TCase *tcase = tcase_create("shm_damage");

	tcase_add_checked_fixture(tcase, set_up, tear_down);
	tcase_set_timeout(tcase, 120);
	tcase_add_test(tcase, lets_go_of_the_dead);
	tcase_add_test(tcase, begins_anew_with_another);
	tcase_add_loop_test(tcase, survives_garbage, 0, 10);
	tcase_add_loop_test(tcase, survives_garbage_meanwhile, 0, 3);
	tcase_add_test(tcase, keeps_rings_though_bells_lie);
	tcase_add_test(tcase, finds_what_no_bell_tells);
	tcase_add_test(tcase, gives_up_a_ring_without_its_records);
	tcase_add_test(tcase, gives_up_a_ring_that_is_not_opened);
	tcase_add_test(tcase, opens_few_rings_of_a_member);
	tcase_add_test(tcase, does_without_a_damaged_inbox);
	tcase_add_test(tcase, gives_up_a_damaged_ring);
	tcase_add_test(tcase, gives_up_a_damaged_ring_at_the_next_look);
	tcase_add_test(tcase, does_without_a_ring);
	tcase_add_test(tcase, does_without_shared_memory);
	tcase_add_test(tcase, does_without_a_roster);
	tcase_add_test(tcase, does_without_a_control_socket);
	own_network_enter(tcase);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
