/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The steps of test_any_sockets.c in which several threads make calls with the same sockets at
 * once. Which comes first isn't known: what each has sent arrives in its order, all of it once, and
 * no call fails.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "net/random.h"
#include "tests/verbs/any_sockets.h"

enum { SENDERS = 2, RECEIVERS = 2, CHUNK = 6000, MOST = 24000, VALUES = 128 };

static void start(pthread_t *thread, void *(*function)(void *argument), void *argument)
{
	if (pthread_create(thread, NULL, function, argument) != 0)
		sockets_fail("no thread");
}

/* --- two who send, one or two who receive ------------------------------------------------ */

/* From a slot to its peer, in one world. */
struct direction {
	unsigned int world, receivers;
	bool blocking;
	const struct slot *from;
	unsigned int lengths[SENDERS];
	uint64_t random;
	_Atomic unsigned int left; /* that no receiver has asked for yet */
	_Atomic unsigned int counts[SENDERS * VALUES];
};

struct sender {
	struct direction *direction;
	unsigned int number;
	uint64_t random;
	pthread_t thread;
};

struct receiver {
	struct direction *direction;
	uint64_t random;
	pthread_t thread;
	unsigned int next[SENDERS]; /* values, where one alone receives */
};

/* What can't be done without waiting: those that don't wait do it in poll(). */
static void await(unsigned int world, int fd, short events)
{
	struct pollfd poll = {.fd = fd, .events = events};

	if (errno != EAGAIN)
		sockets_fail("a call fails beside another thread's");
	if (socket_calls[world].poll(&poll, 1, 1000) < 0 || poll.revents & ~events)
		sockets_fail("poll() fails beside another thread's call");
}

/* Of each sender its bytes count up, and say whose they are. */
static void *send_its_bytes(void *argument)
{
	struct sender *sender = argument;
	const struct direction *direction = sender->direction;
	const struct socket_calls *c = &socket_calls[direction->world];
	const int fd = direction->from->fds[direction->world];
	unsigned int done = 0, length = direction->lengths[sender->number];
	uint8_t data[CHUNK];

	while (done < length) {
		unsigned int part = 1 + random_below(&sender->random, CHUNK);
		ssize_t sent;

		if (part > length - done)
			part = length - done;
		for (unsigned int i = 0; i < part; i++)
			data[i] = sender->number * VALUES + (done + i) % VALUES;
		sent = c->sendto(fd, data, part, 0, NULL, 0);
		if (sent < 0)
			await(direction->world, fd, POLLOUT);
		else
			done += sent;
	}
	return NULL;
}

/*
 * A sender's bytes of one call may have another one's between them: where a call waits for room, it
 * isn't one piece with sockets.
 */
static void take(struct receiver *receiver, const uint8_t *data, unsigned int length)
{
	struct direction *direction = receiver->direction;

	for (unsigned int i = 0; i < length; i++) {
		const unsigned int from = data[i] / VALUES, value = data[i] % VALUES;

		atomic_fetch_add(&direction->counts[data[i]], 1);
		if (direction->receivers > 1)
			continue;
		if (value != receiver->next[from])
			sockets_fail("a thread's bytes are lost or not in its order");
		receiver->next[from] = (value + 1) % VALUES;
	}
}

/* How many to ask for: none that another receiver takes. 0: there are no more. */
static unsigned int claim(struct receiver *receiver)
{
	_Atomic unsigned int *left = &receiver->direction->left;
	const unsigned int most = 1 + random_below(&receiver->random, CHUNK);
	unsigned int before = atomic_load(left), part;

	do {
		part = before < most ? before : most;
	} while (!atomic_compare_exchange_weak(left, &before, before - part));
	return part;
}

static void *receive_their_bytes(void *argument)
{
	struct receiver *receiver = argument;
	const struct direction *direction = receiver->direction;
	const struct socket_calls *c = &socket_calls[direction->world];
	const int fd = direction->from->peer->fds[direction->world];
	uint8_t data[CHUNK];
	unsigned int part;

	while ((part = claim(receiver))) {
		for (unsigned int done = 0; done < part;) {
			ssize_t got = c->recvfrom(fd, data, part - done, part % 3 ? 0 : MSG_WAITALL,
						  NULL, NULL);

			if (got == 0)
				sockets_fail("the end of a stream that has none");
			if (got < 0)
				await(direction->world, fd, POLLIN);
			else
				take(receiver, data, got);
			done += got > 0 ? got : 0;
		}
	}
	return NULL;
}

/* --- what is asked meanwhile ------------------------------------------------------------- */

struct asker {
	unsigned int world;
	const struct slot *slot;
	const struct mapping *mapping; /* of the peer, or NULL */
	_Atomic bool over;
	uint64_t random;
	pthread_t thread;
};

static void ask(struct asker *asker)
{
	const struct socket_calls *c = &socket_calls[asker->world];
	const int fd = asker->slot->fds[asker->world];
	struct pollfd poll = {.fd = fd, .events = POLLIN | POLLOUT};
	struct sockaddr_storage name;
	socklen_t length = sizeof(name), size = sizeof(int);
	int error = -1;

	switch (random_below(&asker->random, 5)) {
	case 0:
		if (c->getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error)
			sockets_fail("SO_ERROR says something");
		break;
	case 1:
		if (c->getpeername(fd, (struct sockaddr *)&name, &length) != 0)
			sockets_fail("there is no peer");
		break;
	case 2:
		if (c->poll(&poll, 1, 0) < 0 || poll.revents & ~(POLLIN | POLLOUT))
			sockets_fail("poll() says something else");
		break;
	case 3:
		if (c->get_flags(fd) < 0)
			sockets_fail("there are no flags");
		break;
	default:
		if (asker->world == RSOCKETS)
			mapped_local(asker->slot);
		break;
	}
}

static void write_mapped(struct asker *asker)
{
	unsigned int from = random_below(&asker->random, asker->mapping->length);

	mapped_write(asker->slot, asker->mapping, from,
		     1 + random_below(&asker->random, asker->mapping->length - from),
		     asker->random);
}

static void *ask_meanwhile(void *argument)
{
	struct asker *asker = argument;

	while (!atomic_load(&asker->over)) {
		ask(asker);
		if (asker->world == RSOCKETS && asker->mapping)
			write_mapped(asker);
	}
	return NULL;
}

/* --- all of it --------------------------------------------------------------------------- */

struct traffic {
	struct direction direction;
	struct sender senders[SENDERS];
	struct receiver receivers[RECEIVERS];
};

/* Both worlds have the same. */
static void prepare(struct traffic traffic[WORLDS], const struct slot *from)
{
	struct direction direction = {.from = from,
				      .receivers = 1 + below(RECEIVERS),
				      .blocking = below(2),
				      .random = below(1 << 30)};

	for (unsigned int i = 0; i < SENDERS; i++)
		direction.lengths[i] = below(4) ? below(MOST / 16) : below(MOST);
	direction.left = direction.lengths[0] + direction.lengths[1];
	for (unsigned int w = 0; w < WORLDS; w++) {
		memset(&traffic[w], 0, sizeof(traffic[w]));
		memcpy(&traffic[w].direction, &direction, sizeof(direction));
		traffic[w].direction.world = w;
	}
}

static void start_traffic(struct traffic *traffic)
{
	struct direction *direction = &traffic->direction;

	for (unsigned int i = 0; i < SENDERS; i++) {
		traffic->senders[i] = (struct sender){
			.direction = direction, .number = i, .random = direction->random + i};
		start(&traffic->senders[i].thread, send_its_bytes, &traffic->senders[i]);
	}
	for (unsigned int i = 0; i < direction->receivers; i++) {
		traffic->receivers[i] = (struct receiver){
			.direction = direction, .random = direction->random + SENDERS + i};
		start(&traffic->receivers[i].thread, receive_their_bytes, &traffic->receivers[i]);
	}
}

static void finish_traffic(struct traffic *traffic)
{
	const struct direction *direction = &traffic->direction;

	for (unsigned int i = 0; i < SENDERS; i++)
		pthread_join(traffic->senders[i].thread, NULL);
	for (unsigned int i = 0; i < direction->receivers; i++)
		pthread_join(traffic->receivers[i].thread, NULL);
	for (unsigned int i = 0; i < SENDERS * VALUES; i++) {
		const unsigned int length = direction->lengths[i / VALUES], value = i % VALUES;

		if (direction->counts[i] != length / VALUES + (value < length % VALUES))
			sockets_fail("bytes are lost, or came twice");
	}
}

static void set_blocking(unsigned int world, const struct slot *slot, bool blocking)
{
	if (socket_calls[world].set_flags(slot->fds[world], blocking ? 0 : O_NONBLOCK) != 0)
		sockets_fail("no flags");
}

static void run_world(unsigned int world, struct slot *slot, struct traffic *there,
		      struct traffic *back, const struct mapping *mapping)
{
	struct asker asker = {.world = world,
			      .slot = slot,
			      .mapping = mapping,
			      .random = there->direction.random};
	const bool blocking = there->direction.blocking;

	set_blocking(world, slot, blocking);
	set_blocking(world, slot->peer, blocking);
	start_traffic(there);
	start_traffic(back);
	start(&asker.thread, ask_meanwhile, &asker);
	finish_traffic(there);
	finish_traffic(back);
	atomic_store(&asker.over, true);
	pthread_join(asker.thread, NULL);
	set_blocking(world, slot, false);
	set_blocking(world, slot->peer, false);
}

void step_duplex(struct slot *any)
{
	static struct traffic there[WORLDS], back[WORLDS];
	struct slot *slot = find_whole(any);
	const struct mapping *mapping;

	if (!slot)
		return;
	receive_rest(slot);
	receive_rest(slot->peer);
	mapping = mapped_of_peer(slot);
	prepare(there, slot);
	prepare(back, slot->peer);
	sockets_note("%u: threads: %u and %u bytes, %u and %u back%s%s", slot->number,
		     there->direction.lengths[0], there->direction.lengths[1],
		     back->direction.lengths[0], back->direction.lengths[1],
		     there->direction.blocking ? ", blocking" : "", mapping ? ", riowrite()" : "");
	for (unsigned int w = 0; w < WORLDS; w++)
		run_world(w, slot, &there[w], &back[w], mapping);
	mapped_tell(slot);
	mapped_check(slot->peer);
}

/* --- what wakes a thread that waits ------------------------------------------------------ */

struct waiter {
	unsigned int world;
	int fd;
	bool accepts;
	struct result result;
	pthread_t thread;
};

static void *wait_in_call(void *argument)
{
	struct waiter *waiter = argument;
	const struct socket_calls *c = &socket_calls[waiter->world];
	char byte;

	waiter->result =
		result_of(waiter->accepts ? c->accept(waiter->fd, NULL, NULL)
					  : c->recvfrom(waiter->fd, &byte, 1, 0, NULL, NULL));
	return NULL;
}

static void start_waiters(struct waiter waiters[WORLDS], const struct slot *slot, bool accepts)
{
	for (unsigned int w = 0; w < WORLDS; w++) {
		set_blocking(w, slot, true);
		waiters[w] = (struct waiter){.world = w, .fd = slot->fds[w], .accepts = accepts};
		start(&waiters[w].thread, wait_in_call, &waiters[w]);
	}
	if (below(2))
		usleep(500); /* mostly they wait then */
}

static void join_waiters(struct waiter waiters[WORLDS], const struct slot *slot, const char *call)
{
	struct result results[WORLDS];

	for (unsigned int w = 0; w < WORLDS; w++) {
		pthread_join(waiters[w].thread, NULL);
		results[w] = waiters[w].result;
		set_blocking(w, slot, false);
	}
	sockets_compare(slot, call, results);
}

/* Sockets that listened don't listen any more. */
static void wake_accept(struct slot *slot)
{
	struct waiter waiters[WORLDS];

	start_waiters(waiters, slot, true);
	BOTH(slot, "shutdown beside accept", c->shutdown(fd, SHUT_RDWR));
	join_waiters(waiters, slot, "accept beside shutdown");
	close_slot(slot);
}

/* The end comes from here or from there. */
void step_wake(struct slot *slot)
{
	static const int hows[] = {SHUT_RD, SHUT_RDWR, SHUT_WR};
	const int how = hows[below(3)];
	struct waiter waiters[WORLDS];
	struct slot *by;

	if (slot->kind == LISTENING && below(2)) {
		wake_accept(slot);
		return;
	}
	if (!is_whole(slot) || slot->available)
		return;
	by = how == SHUT_WR ? slot->peer : slot;
	start_waiters(waiters, slot, false);
	BOTH(by, "shutdown beside receive", c->shutdown(fd, how));
	join_waiters(waiters, slot, "receive beside shutdown");
	note_shutdown(by, how);
}

/* --- one connection, two who accept it --------------------------------------------------- */

int threads_accept(unsigned int world, const struct slot *listener)
{
	struct waiter waiters[2];
	int accepted = -1;

	for (unsigned int i = 0; i < 2; i++) {
		waiters[i] = (struct waiter){
			.world = world, .fd = listener->fds[world], .accepts = true};
		start(&waiters[i].thread, wait_in_call, &waiters[i]);
	}
	for (unsigned int i = 0; i < 2; i++) {
		pthread_join(waiters[i].thread, NULL);
		if (waiters[i].result.value >= 0 && accepted >= 0)
			sockets_fail("one connection is accepted twice");
		if (waiters[i].result.value >= 0)
			accepted = waiters[i].result.value;
		else if (waiters[i].result.error != EAGAIN)
			sockets_fail("accept() fails beside another thread's");
	}
	errno = EAGAIN;
	return accepted;
}
