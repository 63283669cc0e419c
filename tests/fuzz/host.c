/* SPDX-License-Identifier: BSD-2-Clause */
#include "host.h"

#include "net/cause/libdw.h"
#include "net/log.h"
#include "seal.h"

#define ROUNDS_MAX 5000 /* at one instant, far more than there can be work */

/* One thread, which waits for no other. */
static void machine_yield(void)
{
	must(false);
}

static size_t machine_page_size(void)
{
	return 4096;
}

static int machine_check_memory(const void *addr, size_t length, bool write)
{
	return 0;
}

static bool machine_lock_at_exit(pthread_mutex_t *lock)
{
	return pthread_mutex_trylock(lock) == 0;
}

static const struct hca_host machine = {
	.yield = machine_yield,
	.page_size = machine_page_size,
	.check_memory = machine_check_memory,
	.lock_at_exit = machine_lock_at_exit,
};

/* Instead of net/cause/libdw.c: to read debug information takes longer than all the rest. */
bool libdw_load(struct libdw *libdw)
{
	return false;
}

void host_init(struct host *host, const struct link_ops *ops, struct hca_options options)
{
	log_set_level(LOG_DEBUG); /* what fails is reported, again and again */
	host->link.ops = ops;
	host->now = 1000000000;
	pthread_mutex_init(&host->gids.lock, NULL);
	host->gids.entries = calloc(GID_TABLE_LENGTH, sizeof(*host->gids.entries));
	must(host->gids.entries);
	host->gids.count = 1;
	host->gids.entries[0].mtu = 65536;
	must(gid_from_text(&host->gids.entries[0].gid, "10.0.0.1") == 0);
	must(gid_from_text(&host->peer, "10.0.0.2") == 0);
	options.link = &host->link;
	options.gids.tables[0] = &host->gids;
	options.host = &machine;
	options.seed = 1;
	must(hca_create(&options, &host->hca) == 0);
}

void host_destroy(struct host *host)
{
	hca_destroy(host->hca);
	free(host->gids.entries);
	pthread_mutex_destroy(&host->gids.lock);
}

unsigned int host_receive(struct link *link, struct link_frame *frames, unsigned int max,
			  uint64_t now)
{
	struct host *host = (struct host *)link;

	if (!host->arrived)
		return 0;
	host->arrived = false;
	frames[0] = host->frame;
	return 1;
}

uint64_t host_deadline(struct link *link)
{
	return TIME_NEVER;
}

void host_progress(struct host *host)
{
	unsigned int rounds = 0;

	while (hca_progress(host->hca, host->now))
		must(++rounds < ROUNDS_MAX);
}

void host_wait(struct host *host, uint64_t time)
{
	uint64_t deadline = hca_deadline(host->hca);

	if (time)
		host->now += time;
	else if (deadline != TIME_NEVER && deadline > host->now)
		host->now = deadline;
	host_progress(host);
}

void host_address_frame(struct host *host, bool somebody_else)
{
	host->frame = (struct link_frame){
		.destination = host->gids.entries[0].gid,
		.source = host->peer,
		.source_port = ROCE_V2_SOURCE_PORT_MIN,
	};
	if (somebody_else)
		host->frame.source.raw[15]++;
}

void host_seal(struct host *host, uint8_t *bytes, uint32_t length)
{
	seal_bytes(bytes, length, &host->frame, 0);
	host->frame.data = bytes;
	host->frame.length = length + ICRC_LENGTH;
}

void host_deliver(struct host *host)
{
	host->arrived = true;
	host_progress(host);
	must(!host->arrived);
}
