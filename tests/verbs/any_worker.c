/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/verbs/any_worker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <string.h>

#include "net/random.h"
#include "tests/verbs/fixture.h"
#include "tests/verbs/manager.h"
#include "tests/verbs/newer_manager.h"

struct any_world any_world;

/* --- what failed ------------------------------------------------------------------------- */

void worker_note(struct worker *w, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(w->lines[w->line++ % LINES], LINE, format, arguments);
	va_end(arguments);
}

void worker_print(const struct worker *w)
{
	unsigned int first = w->line > LINES ? w->line - LINES : 0;

	for (unsigned int i = first; i < w->line; i++)
		fprintf(stderr, "  worker %u: %s\n", w->number, w->lines[i % LINES]);
}

/* --- ids ------------------------------------------------------------------------------------ */

unsigned int worker_random(struct worker *w, unsigned int bound)
{
	return random_below(&w->random, bound);
}

struct slot *worker_find_slot(struct worker *w, const struct rdma_cm_id *id)
{
	for (unsigned int i = 0; i < SLOTS; i++) {
		if (w->slots[i].id == id)
			return &w->slots[i];
	}
	return NULL;
}

void worker_ack_held(struct worker *w)
{
	for (unsigned int i = 0; i < HELD; i++) {
		if (w->held[i])
			rdma_ack_cm_event(w->held[i]);
		w->held[i] = NULL;
	}
}

/* Half of the ids of a seed are of one kind, so that they find one another. */
static bool is_usual(struct worker *w)
{
	return worker_random(w, 2);
}

static enum model_space usual_space(void)
{
	return any_world.seed % MODEL_SPACES;
}

bool worker_makes_endpoints(struct worker *w)
{
	return worker_random(w, w->synchronous || usual_space() == SPACE_XRC ? 2 : 8) == 0;
}

static enum model_family pick_family(struct worker *w)
{
	const enum model_family family = is_usual(w)
						 ? any_world.seed / MODEL_SPACES % MODEL_FAMILIES
						 : worker_random(w, MODEL_FAMILIES);

	return family == MODEL_IPV6 && !any_world.has_ipv6 ? MODEL_IPV4 : family;
}

static void note_created(struct worker *w, const struct slot *slot, const char *what)
{
	static const char *const spaces[] = {"TCP", "UDP", "IB", "XRC"};
	static const char *const families[] = {"IPv4", "IPv6", "AF_IB"};

	worker_note(w, "%u: create %s, %s, %s%s", slot_number(w, slot), what,
		    spaces[slot->model.space], families[slot->model.family],
		    slot->model.has_qp		   ? ", QP"
		    : slot->model.requests_have_qp ? ", with QPs"
						   : "");
}

static struct rdma_event_channel *pick_channel(struct worker *w)
{
	struct rdma_event_channel *channel =
		w->channels[w->waited_for ? 0 : worker_random(w, CHANNELS)];

	return w->synchronous ? NULL : channel;
}

static void describe(struct worker *w, struct slot *slot, enum model_space space)
{
	slot->model = (struct model){.space = space,
				     .datagram = space == SPACE_UDP,
				     .family = pick_family(w),
				     .synchronous = w->synchronous};
}

void worker_create_id(struct worker *w, struct slot *slot)
{
	static const enum rdma_port_space spaces[] = {RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IB};
	struct rdma_event_channel *channel = pick_channel(w);
	enum model_space space = is_usual(w) ? usual_space() : worker_random(w, SPACE_XRC);

	if (space == SPACE_XRC) /* for endpoints alone */
		space = SPACE_TCP;
	describe(w, slot, space);
	holds(w, rdma_create_id(channel, &slot->id, w, spaces[space]) == 0, "%s", strerror(errno));
	note_created(w, slot, "id");
}

/* Of a synchronous id: what the last call has waited for. */
static void drop_event(struct rdma_cm_id *id)
{
	if (id->event)
		rdma_ack_cm_event(id->event);
	id->event = NULL;
}

void worker_create_endpoint(struct worker *w, struct slot *slot)
{
	const bool passive = worker_random(w, 2), with_qp = worker_random(w, 2) && !w->waited_for;
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};
	struct rdma_event_channel *channel = pick_channel(w);
	struct model *model = &slot->model;
	struct rdma_addrinfo *info;

	describe(w, slot, is_usual(w) ? usual_space() : worker_random(w, MODEL_SPACES));
	model->state = passive ? BOUND : ROUTED;
	model->has_qp = with_qp && !passive;
	model->requests_have_qp = with_qp && passive && w->synchronous;
	info = model_look_up(model, passive, passive ? 0 : worker_any_port(w, model));
	holds(w, info, "%s", strerror(errno));
	holds(w, rdma_create_ep(&slot->id, info, NULL, with_qp ? &attr : NULL) == 0, "%s",
	      strerror(errno));
	rdma_freeaddrinfo(info);
	drop_event(slot->id);
	holds(w, !channel || rdma_migrate_id(slot->id, channel) == 0, "%s", strerror(errno));
	note_created(w, slot, passive ? "passive endpoint" : "active endpoint");
}

/* What its waiter has got of it is of no id any more, but requests have ids of their own. */
static void forget_got(struct worker *w, const struct rdma_cm_id *id)
{
	pthread_mutex_lock(&w->lock);
	for (struct got *got = w->got; got; got = got->next) {
		if (got->event.id == id)
			got->event.id = NULL;
	}
	pthread_mutex_unlock(&w->lock);
}

/* Of one port space those of XRC and the others don't fit. */
static enum model_space any_space(struct worker *w, enum model_space space)
{
	if (space < SPACE_IB || worker_random(w, 8))
		return space;
	return space == SPACE_IB ? SPACE_XRC : SPACE_IB;
}

_Atomic uint16_t *worker_ports(const struct model *model)
{
	return any_world.ports[model->space][model->family];
}

uint16_t worker_any_port(struct worker *w, const struct model *model)
{
	const struct model there = {
		.space = any_space(w, model->space),
		.family = worker_random(w, 8) ? model->family : worker_random(w, MODEL_FAMILIES)};
	const unsigned int start = worker_random(w, PORTS);
	uint16_t port = 0;

	for (unsigned int i = 0; i < PORTS && !port; i++)
		port = atomic_load(&worker_ports(&there)[(start + i) % PORTS]);
	return port && worker_random(w, 16) ? port : 9; /* discard */
}

static void close_port(struct slot *slot)
{
	for (unsigned int i = 0; i < PORTS; i++) {
		uint16_t port = ntohs(rdma_get_src_port(slot->id));

		atomic_compare_exchange_strong(&worker_ports(&slot->model)[i], &port, 0);
	}
}

void worker_destroy_id(struct worker *w, struct slot *slot)
{
	struct rdma_cm_id *id = slot->id;

	worker_note(w, "%u: destroy at %s", slot_number(w, slot),
		    model_state_name(slot->model.state));
	worker_ack_held(w);
	if (slot->model.state == LISTENING)
		close_port(slot);
	if (slot->model.has_qp)
		rdma_destroy_qp(id);
	if (slot->model.has_srq)
		srq_destroy(slot);
	holds(w, rdma_destroy_id(id) == 0, "%s", strerror(errno));
	forget_got(w, id);
	slot->id = NULL;
}

/* --- events --------------------------------------------------------------------------------- */

/* Behind the addresses, where a listener at GIDs sees these. No token begins as they do. */
static uint32_t token_in(const uint8_t *data)
{
	enum { ADDRESSES = 36 };
	uint32_t token;

	memcpy(&token, data, sizeof(token));
	if (token > TOKENS)
		memcpy(&token, data + ADDRESSES, sizeof(token));
	return token;
}

static uint32_t token_of(const struct rdma_cm_event *event, bool datagram)
{
	const void *data = datagram ? event->param.ud.private_data : event->param.conn.private_data;

	return event->event == RDMA_CM_EVENT_CONNECT_REQUEST && data ? token_in(data) : 0;
}

static enum model_space space_of(const struct rdma_cm_id *id)
{
	if (id->ps == RDMA_PS_UDP)
		return SPACE_UDP;
	if (id->ps == RDMA_PS_TCP)
		return SPACE_TCP;
	return id->qp_type == IBV_QPT_XRC_RECV ? SPACE_XRC : SPACE_IB;
}

static void take_request(struct worker *w, struct rdma_cm_id *id, uint32_t token, bool has_qp)
{
	struct slot *slot = worker_find_slot(w, NULL);

	holds(w, token > 0 && token <= TOKENS, "token %u", token);
	holds(w, atomic_fetch_add(&any_world.requests[token], 1) == 0, "token %u came twice",
	      token);
	if (!slot) {
		worker_ack_held(w);
		rdma_destroy_ep(id);
		return;
	}
	slot->id = id;
	slot->model = (struct model){.state = REQUESTED,
				     .space = space_of(id),
				     .datagram = id->ps == RDMA_PS_UDP,
				     .synchronous = w->synchronous,
				     .has_qp = has_qp};
	worker_note(w, "%u: request %u", slot_number(w, slot), token);
}

static void take_event(struct worker *w, const struct rdma_cm_event *event, uint32_t token)
{
	struct slot *slot = event->id ? worker_find_slot(w, event->id) : NULL;

	if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		take_request(w, event->id, token, false);
		return;
	}
	if (!event->id)
		return;
	holds(w, slot, "%s for an id that isn't there", rdma_event_str(event->event));
	worker_note(w, "%u: %s, status %d, at %s%s", slot_number(w, slot),
		    rdma_event_str(event->event), event->status,
		    model_state_name(slot->model.state), slot->model.has_qp ? ", QP" : "");
	holds(w, model_take_event(&slot->model, event->event, event->status), "id %u",
	      slot_number(w, slot));
}

static void *wait_for_events(void *argument)
{
	struct worker *w = argument;
	struct rdma_cm_event *event;

	while (rdma_get_cm_event(w->channels[0], &event) == 0) {
		struct got *got = calloc(1, sizeof(*got));
		bool last = atomic_load(&w->over) && event->event == NEWER_EVENT_USER;
		bool yields;

		got->event = *event;
		got->token = token_of(event, event->id->ps == RDMA_PS_UDP);
		yields = got->token % 2;
		pthread_mutex_lock(&w->lock);
		if (w->got)
			w->last_got->next = got;
		else
			w->got = got;
		w->last_got = got;
		pthread_mutex_unlock(&w->lock);
		if (yields)
			sched_yield();
		rdma_ack_cm_event(event);
		if (last)
			break;
	}
	return NULL;
}

static bool take_got(struct worker *w)
{
	struct got *got;

	pthread_mutex_lock(&w->lock);
	got = w->got;
	if (got)
		w->got = got->next;
	pthread_mutex_unlock(&w->lock);
	if (!got)
		return false;
	take_event(w, &got->event, got->token);
	free(got);
	return true;
}

static bool get_event(struct worker *w, unsigned int channel)
{
	struct rdma_cm_event *event, copy;
	unsigned int place = worker_random(w, HELD);
	uint32_t token;

	if (rdma_get_cm_event(w->channels[channel], &event) != 0) {
		holds(w, errno == EAGAIN, "%s", strerror(errno));
		return false;
	}
	copy = *event;
	token = token_of(event, event->id->ps == RDMA_PS_UDP);
	if (w->held[place])
		rdma_ack_cm_event(w->held[place]);
	w->held[place] = event;
	take_event(w, &copy, token);
	return true;
}

bool worker_take_events(struct worker *w)
{
	bool any = false;

	if (w->synchronous)
		return false;
	if (w->waited_for) {
		while (take_got(w))
			any = true;
		return any;
	}
	for (unsigned int i = 0; i < CHANNELS; i++) {
		while (get_event(w, i))
			any = true;
	}
	return any;
}

/* What a call of a synchronous id has waited for. Returns the errno that it says. */
int worker_take_synchronous(struct worker *w, struct slot *slot)
{
	struct rdma_cm_event *event = slot->id->event, copy;

	if (!event)
		return 0;
	copy = *event;
	drop_event(slot->id);
	take_event(w, &copy, 0);
	if (copy.event == RDMA_CM_EVENT_REJECTED)
		return ECONNREFUSED;
	return abs(copy.status);
}

void worker_take_request(struct worker *w, struct rdma_cm_id *holder, bool has_qp)
{
	const struct rdma_cm_event *event = holder->event;
	const uint32_t token = token_of(event, holder->ps == RDMA_PS_UDP);
	struct rdma_cm_id *id = event->id;

	holds(w, event->event == RDMA_CM_EVENT_CONNECT_REQUEST, "%s", rdma_event_str(event->event));
	holds(w, (id->qp != NULL) == has_qp, "queue pair %p", (void *)id->qp);
	drop_event(holder);
	take_request(w, id, token, has_qp);
}

/* Until there is one, or for a moment: the others' turn. */
void worker_await_events(struct worker *w)
{
	struct pollfd fds[CHANNELS] = {{.events = POLLIN}, {.events = POLLIN}};

	for (unsigned int i = 0; i < CHANNELS; i++)
		fds[i].fd = w->channels[i]->fd;
	poll(fds, w->waited_for || w->synchronous ? 0 : CHANNELS, w->waited_for ? 1 : 5);
	worker_take_events(w);
}

/* --- its life --- */

void worker_open(struct worker *w)
{
	for (unsigned int i = 0; i < CHANNELS; i++) {
		w->channels[i] = rdma_create_event_channel();
		holds(w, w->channels[i], "%s", strerror(errno));
		if (!w->waited_for)
			fcntl(w->channels[i]->fd, F_SETFL, O_NONBLOCK);
	}
	if (w->waited_for)
		holds(w, pthread_create(&w->waiter, NULL, wait_for_events, w) == 0, "no thread");
}

/* The waiter ends by an event of the application's. */
void worker_close(struct worker *w)
{
	struct slot *slot = &w->slots[0];

	if (w->waited_for) {
		worker_create_id(w, slot);
		atomic_store(&w->over, true);
		holds(w, newer_write_cm_event(slot->id, NEWER_EVENT_USER, 0, 0) == 0, "%s",
		      strerror(errno));
		pthread_join(w->waiter, NULL);
		slot->model.user_events = 1;
		worker_take_events(w);
		worker_destroy_id(w, slot);
	}
	for (unsigned int i = 0; i < CHANNELS; i++)
		rdma_destroy_event_channel(w->channels[i]);
}
