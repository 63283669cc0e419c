/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An application that calls what it likes: the input is a list of verbs calls, on the library as it
 * is, with two devices that send to one another by the link that URXE_LINK names (calls.h).
 *
 * Apart from what sanitizers see it must hold: what is destroyed is in use or not as the other
 * objects have it; a list of work requests is accepted up to the first that can't be; each that was
 * accepted completes once, in the order of its queue, and not behind the end of that; data of a
 * success is what was sent; a key that names nothing any more gives no access; atomics are executed
 * once; requests are flushed in ERR and SQE alone; in ERR all completes, and the queues take as
 * many as they have space for; and the events of SQD, of ERR and of an SRQ's limit come.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "calls.h"

static void call_objects(struct world *world)
{
	objects_make(world);
}

/* A byte of the input chooses. New ones belong at the end, for the corpus. */
static void (*const calls[])(struct world *world) = {
	call_objects,
	call_create_qp,
	call_connect_qp,
	call_post_recv,
	call_post_send,
	call_poll_cq,
	call_poll_all,
	call_modify_qp,
	call_destroy_qp,
	call_query_qp,
	call_wr,
	call_bind_mw,
	call_alloc_pd,
	call_dealloc_pd,
	call_reg_mr,
	call_rereg_mr,
	call_dereg_mr,
	call_alloc_mw,
	call_dealloc_mw,
	call_create_ah,
	call_destroy_ah,
	call_open_xrcd,
	call_close_xrcd,
	call_create_channel,
	call_destroy_channel,
	call_create_cq,
	call_resize_cq,
	call_modify_cq,
	call_destroy_cq,
	call_create_srq,
	call_modify_srq,
	call_destroy_srq,
	call_post_srq_recv,
	call_attach_mcast,
	call_detach_mcast,
	call_req_notify,
	call_get_cq_event,
	call_ack_cq_events,
	call_get_async_event,
	call_ack_async_events,
	call_alloc_parent_domain,
	call_drain,
	call_open_qp,
	call_modify_handle,
	call_close_handle,
	call_reg_mr_iova,
	call_alloc_dm,
	call_copy_dm,
	call_free_dm,
	call_reg_dm_mr,
	call_alloc_null_mr,
	call_reg_dmabuf_mr,
	call_advise_mr,
	call_alloc_td,
	call_dealloc_td,
	call_alloc_threads_domain,
	call_ece,
	call_import_mr,
	call_unimport_mr,
};

static struct ibv_device **devices;
/* To open a device of which another context is open takes a hundredth of the time. */
static struct ibv_context *kept[DEVICES];

static void fill_source(void)
{
	uint32_t word;

	for (uint32_t i = 0; i < SOURCE_SIZE / sizeof(word); i++) {
		word = i * SOURCE_FACTOR;
		memcpy(arena.source + i * sizeof(word), &word, sizeof(word));
	}
}

/* Two devices on addresses of this process's own. */
static void list_devices(void)
{
	unsigned int pid = getpid(), high = pid >> 8 & 0xff, low = pid & 0xff;
	char text[96];
	int count;

	snprintf(text, sizeof(text), "one=127.88.%u.%u;two=127.89.%u.%u", high, low, high, low);
	setenv("URXE_DEVICES", text, 1);
	unsetenv("URXE_NODE");
	devices = ibv_get_device_list(&count);
	must(devices && count == DEVICES);
}

static void open_devices(struct world *world)
{
	for (unsigned int i = 0; i < DEVICES; i++) {
		if (!kept[i])
			must(kept[i] = ibv_open_device(devices[i]));
		world->contexts[i] = ibv_open_device(devices[i]);
		must(world->contexts[i]);
		must(fcntl(world->contexts[i]->async_fd, F_SETFL, O_NONBLOCK) == 0);
		must(ibv_query_gid(world->contexts[i], 1, 0, &world->gids[i]) == 0);
	}
}

static void close_kept(void)
{
	for (unsigned int i = 0; i < DEVICES; i++) {
		must(ibv_close_device(kept[i]) == 0);
		kept[i] = NULL;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct world world;

	world = (struct world){.input = {.data = data, .left = size}};
	memset(arena.atomics, 0, sizeof(arena.atomics));
	if (!devices) {
		list_devices();
		fill_source();
	}
	open_devices(&world);
	world.end = input_u8(&world.input);
	/* The devices end with the last of what was made of them. */
	if (world.end & END_DEVICES)
		close_kept();
	while (world.input.left)
		calls[input_u8(&world.input) % COUNT_OF(calls)](&world);
	world_end(&world);
	return 0;
}
