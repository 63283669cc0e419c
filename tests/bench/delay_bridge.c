/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A path with a round trip, losses, packets out of order and a bottleneck, for kernels without
 * netem: carries frames between two network devices, each the near end of a veth pair.
 *
 *   delay_bridge [OPTION...] DEVICE DEVICE
 *
 *   --delay US     every frame takes this long, so twice that is added to a round trip
 *   --loss RATE    probability that an IP packet is dropped, each way: 0.001 or 0.1%
 *   --reorder RATE that it takes up to a delay longer, and others overtake it
 *   --seed N       of both (default 1)
 *   --rate MBIT    Mbit/s of the link, each way (default: what the CPU can do)
 *   --queue BYTES  what may wait for the link, more is dropped (default: rate x round
 *                  trip, or 1 MiB if that is less)
 *   --mark BYTES   set CE on ECN-capable packets while more than this waits for the link
 *
 * Says "ready" on stdout; SIGTERM or SIGINT ends it, and then a line of counters for each
 * direction follows. Needs CAP_NET_RAW in the network namespace of both devices.
 *
 * Super-packets (GSO) pass whole, or this process would be the bottleneck. Losses hit the
 * packets that a super-packet stands for one by one, as on any path; the rest of it goes on
 * as several shorter ones. A super-packet takes the link's time and room for all its
 * packets, arrives when the last of them does, and overflows or is marked as a whole.
 *
 * One thread and poll(2). Delays count from the kernel's receive timestamp, so that
 * reading late doesn't add to them. A timer wakes the process some 30 us late, so what is
 * due sooner is waited for by polling, without sched_yield(): while other processes spin,
 * too, that takes milliseconds. A bridge that has nothing to carry sleeps.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <malloc.h>
#include <math.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "super_packet.h"

#define SOCKET_BUFFER (4 << 20) /* the kernel allows an ordinary user so much or less */
#define QUEUE_MIN (1 << 20)
#define BATCH 16   /* frames to read, or to send, before looking after the others */
#define SPIN 40000 /* ns */
#define NEVER UINT64_MAX

struct counters {
	uint64_t frames, packets, dropped, overflowed, marked;
	double late; /* ns, of all frames */
};

STAILQ_HEAD(frames, frame);

/* From one device to the other. */
struct direction {
	const char *from_name, *to_name;
	int from, to;
	struct frames frames, overtaken; /* each by their due time */
	uint64_t link_free;		 /* when the link has sent all that waits for it */
	struct counters counters;
};

/* In ns, bytes and bits a ns. */
static struct {
	double delay, loss, reorder, seed, rate, queue, mark;
} options = {.seed = 1, .queue = INFINITY, .mark = INFINITY};

static unsigned short random_state[3];

static int checked(int result, const char *what)
{
	if (result < 0) {
		perror(what);
		exit(1);
	}
	return result;
}

static uint64_t to_ns(const struct timespec *time)
{
	return time->tv_sec * 1000000000ull + time->tv_nsec;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return to_ns(&now);
}

/* --- the path --------------------------------------------------------------------- */

static void insert_overtaken(struct direction *d, struct frame *frame)
{
	struct frame *before = NULL, *next;

	frame->due += options.delay * erand48(random_state);
	STAILQ_FOREACH(next, &d->overtaken, next)
	{
		if (next->due > frame->due)
			break;
		before = next;
	}
	if (before)
		STAILQ_INSERT_AFTER(&d->overtaken, before, frame, next);
	else
		STAILQ_INSERT_HEAD(&d->overtaken, frame, next);
}

/* Gives the frame its place in the queue of the link, or none if that is full. */
static void enqueue(struct direction *d, struct frame *frame, uint64_t arrived, bool overtaken)
{
	struct layout layout = frame_layout(frame);
	uint64_t waiting, length = frame->length + layout.payload * (layout.packets - 1);

	if (d->link_free < arrived)
		d->link_free = arrived;
	waiting = (d->link_free - arrived) * options.rate / 8;
	if (waiting + length > options.queue) {
		d->counters.overflowed += layout.packets;
		free(frame);
		return;
	}
	if (waiting > options.mark && frame_mark(frame))
		d->counters.marked += layout.packets;
	if (options.rate > 0)
		d->link_free += length * 8 / options.rate;
	frame->due = d->link_free + options.delay;
	if (overtaken)
		insert_overtaken(d, frame);
	else
		STAILQ_INSERT_TAIL(&d->frames, frame, next);
}

enum fate { IN_ORDER, LOST, OVERTAKEN };

static enum fate draw_fate(void)
{
	if (options.loss > 0 && erand48(random_state) < options.loss)
		return LOST;
	if (options.reorder > 0 && erand48(random_state) < options.reorder)
		return OVERTAKEN;
	return IN_ORDER;
}

/* The @count packets from @first on: a frame of their own, unless they are all of @frame. */
static struct frame *part_of(struct frame *frame, uint32_t first, uint32_t count)
{
	return count == frame_layout(frame).packets ? frame : frame_carve(frame, first, count);
}

/* Draws for each packet of the frame what becomes of it; what isn't lost is enqueued. */
static void draw_fates(struct direction *d, struct frame *frame, uint64_t arrived)
{
	struct layout layout = frame_layout(frame);
	struct frame *part = NULL;
	uint32_t begin = 0; /* of the packets that aren't enqueued yet, and stay in order */

	for (uint32_t i = 0; i < layout.packets; i++) {
		enum fate fate = layout.ip ? draw_fate() : IN_ORDER;
		uint32_t end = fate == IN_ORDER ? i + 1 : i;

		if (fate == IN_ORDER && end < layout.packets)
			continue;
		if (end > begin)
			enqueue(d, part = part_of(frame, begin, end - begin), arrived, false);
		if (fate == OVERTAKEN)
			enqueue(d, part = part_of(frame, i, 1), arrived, true);
		if (fate == LOST)
			d->counters.dropped++;
		begin = i + 1;
	}
	if (part != frame)
		free(frame);
}

/* False when there is nothing to read. */
static bool receive(struct direction *d)
{
	struct frame *frame = malloc(sizeof(*frame) + FRAME_MAX);
	struct iovec iov[] = {{&frame->offload, sizeof(frame->offload)}, {frame->data, FRAME_MAX}};
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct timespec))];
	struct msghdr message = {.msg_iov = iov,
				 .msg_iovlen = 2,
				 .msg_control = control,
				 .msg_controllen = sizeof(control)};
	ssize_t length = recvmsg(d->from, &message, MSG_DONTWAIT);
	const struct cmsghdr *stamp = CMSG_FIRSTHDR(&message);

	if (length < (ssize_t)(sizeof(frame->offload) + ETH_HLEN)) {
		if (length < 0 && errno != EAGAIN)
			checked(-1, d->from_name);
		free(frame);
		return false;
	}
	frame->length = length - sizeof(frame->offload);
	frame = realloc(frame, sizeof(*frame) + frame->length);
	draw_fates(d, frame, stamp ? to_ns((const struct timespec *)CMSG_DATA(stamp)) : now_ns());
	return true;
}

/* The frames of which the first is due next. */
static struct frames *next_due(struct direction *d)
{
	const struct frame *frame = STAILQ_FIRST(&d->frames);
	const struct frame *overtaken = STAILQ_FIRST(&d->overtaken);

	return overtaken && (!frame || overtaken->due < frame->due) ? &d->overtaken : &d->frames;
}

/* Sends what is due and returns when the rest is. */
static uint64_t transmit(struct direction *d)
{
	struct frames *frames;
	struct frame *frame;
	uint64_t now = now_ns();

	for (int n = 0;; n++) {
		frames = next_due(d);
		frame = STAILQ_FIRST(frames);
		if (!frame || frame->due > now || n == BATCH)
			break;
		struct iovec iov[] = {{&frame->offload, sizeof(frame->offload)},
				      {frame->data, frame->length}};

		checked(writev(d->to, iov, 2), d->to_name);
		d->counters.frames++;
		d->counters.packets += frame_layout(frame).packets;
		d->counters.late += now - frame->due;
		STAILQ_REMOVE_HEAD(frames, next);
		free(frame);
	}
	return frame ? frame->due : NEVER;
}

/* Until one of @polled is readable, or shortly before @due. */
static void wait_until(uint64_t due, struct pollfd polled[3])
{
	uint64_t now = now_ns(), left = due > now + SPIN ? due - now - SPIN : 0;
	struct timespec timeout = {left / 1000000000u, left % 1000000000u};

	checked(ppoll(polled, 3, due == NEVER ? NULL : &timeout, NULL), "poll");
}

/* Until @signals becomes readable. */
static void carry(struct direction directions[2], int signals)
{
	struct pollfd polled[] = {
		{directions[0].from, POLLIN}, {directions[1].from, POLLIN}, {signals, POLLIN}};

	while (!polled[2].revents) {
		uint64_t due[] = {transmit(&directions[0]), transmit(&directions[1])};

		wait_until(due[0] < due[1] ? due[0] : due[1], polled);
		for (int i = 0; i < 2; i++)
			for (int n = 0; polled[i].revents && n < BATCH; n++)
				if (!receive(&directions[i]))
					break;
	}
}

/* --- options, devices, counters --------------------------------------------------- */

static int open_device(const char *name)
{
	int on = 1, size = SOCKET_BUFFER;
	struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
	int fd = checked(socket(AF_PACKET, SOCK_RAW, 0), "AF_PACKET");

	address.sll_ifindex = if_nametoindex(name);
	checked(address.sll_ifindex ? 0 : -1, name);
	checked(setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof(on)), "PACKET_VNET_HDR");
	checked(setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof(on)),
		"PACKET_IGNORE_OUTGOING");
	checked(setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on)), "SO_TIMESTAMPNS");
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	checked(bind(fd, (struct sockaddr *)&address, sizeof(address)), name);
	return fd;
}

/* "missed": frames, not packets, that came while the socket's buffer was full. */
static void print_counters(const struct direction *d)
{
	const struct counters *c = &d->counters;
	struct tpacket_stats missed = {0};
	socklen_t length = sizeof(missed);

	getsockopt(d->from, SOL_PACKET, PACKET_STATISTICS, &missed, &length);
	printf("%s to %s: forwarded %" PRIu64 " dropped %" PRIu64 " overflowed %" PRIu64
	       " marked %" PRIu64 " missed %u frames %" PRIu64 " late-us %.1f\n",
	       d->from_name, d->to_name, c->packets, c->dropped, c->overflowed, c->marked,
	       missed.tp_drops, c->frames, c->frames ? c->late / 1e3 / c->frames : 0);
}

static void parse(int argc, char **argv)
{
	static const struct {
		double *value, unit;
	} numbers[] = {{&options.delay, 1e3}, {&options.loss, 1},    {&options.reorder, 1},
		       {&options.seed, 1},    {&options.rate, 1e-3}, {&options.queue, 1},
		       {&options.mark, 1}};
	static const struct option names[] = {
		{"delay", 1, NULL, 0},	 {"loss", 1, NULL, 1},
		{"reorder", 1, NULL, 2}, {"seed", 1, NULL, 3},
		{"rate", 1, NULL, 4},	 {"queue", 1, NULL, 5},
		{"mark", 1, NULL, 6},	 {0},
	};
	int option;

	while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
		char *rest;

		if (option == '?')
			exit(2);
		*numbers[option].value = strtod(optarg, &rest) * numbers[option].unit;
		if (!strcmp(rest, "%"))
			*numbers[option].value /= 100;
		else if (*rest || rest == optarg)
			exit(2);
	}
	random_state[0] = options.seed;
	if (options.rate > 0 && options.queue == INFINITY)
		options.queue = fmax(QUEUE_MIN, options.rate / 8 * 2 * options.delay);
}

int main(int argc, char **argv)
{
	struct direction directions[2] = {0};
	sigset_t ends;

	parse(argc, argv);
	if (argc - optind != 2) {
		fprintf(stderr, "usage: delay_bridge [OPTION...] DEVICE DEVICE\n");
		return 2;
	}
	sigemptyset(&ends);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGINT);
	sigprocmask(SIG_BLOCK, &ends, NULL);
	prctl(PR_SET_TIMERSLACK, 1);
	mallopt(M_TRIM_THRESHOLD, 256 << 20);
	for (int i = 0; i < 2; i++) {
		struct direction *d = &directions[i], *other = &directions[!i];

		STAILQ_INIT(&d->frames);
		STAILQ_INIT(&d->overtaken);
		d->from_name = other->to_name = argv[optind + i];
		d->from = other->to = open_device(argv[optind + i]);
	}
	printf("ready\n");
	fflush(stdout);
	carry(directions, checked(signalfd(-1, &ends, 0), "signalfd"));
	for (int i = 0; i < 2; i++)
		print_counters(&directions[i]);
	return 0;
}
