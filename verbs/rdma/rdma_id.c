/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ids: their lives, the channel that they are on, their options. And rdma.lock.
 */
#include <infiniband/sa.h>
#include <stdlib.h>
#include <utlist.h>

#include "net/cause/cause.h"
#include "net/cause/origin.h"
#include "net/clock.h"
#include "net/quarantine.h"
#include "verbs/devices.h"
#include "verbs/rdma/rdma.h"
#include "verbs/registry.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int cancel_state; /* of the thread that has it */
static struct rdma_id *ids;

static void rdma_prepare(void);

void rdma_enter(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int state;

	pthread_once(&once, rdma_prepare);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	pthread_mutex_lock(&lock);
	cancel_state = state;
}

void rdma_leave(void)
{
	int state = cancel_state;

	pthread_mutex_unlock(&lock);
	pthread_setcancelstate(state, NULL);
}

void rdma_wait(pthread_cond_t *condition)
{
	int state = cancel_state;

	pthread_cond_wait(condition, &lock);
	cancel_state = state;
}

struct rdma_id *rdma_ids(void)
{
	return ids;
}

/* --- forks ------------------------------------------------------------------------- */

static void rdma_before_fork(void)
{
	rdma_enter();
	rdma_channels_before_fork();
}

static void rdma_after_fork(void)
{
	rdma_channels_after_fork();
	rdma_leave();
}

/* Connections, listeners, events and descriptors are the parent's; the child may destroy ids. */
static void rdma_after_fork_in_child(void)
{
	struct rdma_id *id;

	rdma_port_after_fork_child();
	DL_FOREACH (ids, id) {
		id->state = RDMA_STATE_REMOVED;
		id->cm = NULL;
		id->listener_count = 0;
		if (id->channel)
			rdma_channel_inherit(id->channel);
		id->events_acked = id->events_taken;
		id->moved_from = 0;
		rdma_multicast_after_fork_child(id);
		rdma_addrinfo_after_fork_child(id);
		rdma_port_release(id);
	}
	rdma_devices_after_fork_child();
	rdma_watch_after_fork_child();
	rdma_neighbour_after_fork_child();
	rdma_after_fork();
}

/* Hooks are added before rdma.lock is taken, which a fork takes with hooks_lock held. */
static void rdma_prepare(void)
{
	static struct registry_hooks hooks = {
		.order = FORK_OUTERMOST,
		.before_fork = rdma_before_fork,
		.after_fork_in_parent = rdma_after_fork,
		.after_fork_in_child = rdma_after_fork_in_child,
	};
	struct device *devices;

	devices_all(&devices);
	registry_add_hooks(&hooks);
}

/* --- states ------------------------------------------------------------------------ */

/* In the words of rdma_cm(7). */
static const char *state_text(const struct rdma_id *id)
{
	static const char *const names[] = {
		[RDMA_STATE_IDLE] = "not bound",
		[RDMA_STATE_ADDRESS_BOUND] = "bound to an address",
		[RDMA_STATE_ADDRESS_QUERY] = "waiting for ADDR_RESOLVED",
		[RDMA_STATE_ADDRESS_RESOLVED] = "at ADDR_RESOLVED",
		[RDMA_STATE_ROUTE_RESOLVED] = "at ROUTE_RESOLVED",
		[RDMA_STATE_LISTEN] = "listening",
		[RDMA_STATE_REMOVED] = "without its device",
	};

	if (id->state != RDMA_STATE_CONNECT)
		return names[id->state];
	return cm_state_text(id->cm ? cm_id_state(id->cm) : CM_STATE_IDLE);
}

int rdma_refuse_state(const struct rdma_id *id, const char *call, const char *needed)
{
	char made[ORIGIN_TEXT];

	return refuse(EINVAL, CAUSE_CM_ID_STATE, "%s: the id is %s, and has to be %s%s", call,
		      state_text(id), needed,
		      origin_phrase(id->origin, CAUSE_LINE "the id was created at ", made));
}

int rdma_refuse_state_unlocked(const struct rdma_id *id, const char *call, const char *needed)
{
	int error;

	rdma_enter();
	error = rdma_refuse_state(id, call, needed);
	rdma_leave();
	return error;
}

/* --- life -------------------------------------------------------------------------- */

/* The QP type that a port space has (rdma_create_id(3)), or -1. */
static int port_space_qp_type(enum rdma_port_space ps)
{
	switch (ps) {
	case RDMA_PS_TCP:
	case RDMA_PS_IB:
		return IBV_QPT_RC;
	case RDMA_PS_UDP:
	case RDMA_PS_IPOIB:
		return IBV_QPT_UD;
	default:
		return -1;
	}
}

int rdma_id_new(struct rdma_channel *channel, void *context, enum rdma_port_space ps,
		enum ibv_qp_type qp_type, struct rdma_id **result)
{
	struct device *devices;
	struct rdma_id *id;

	if (devices_all(&devices) == 0)
		return ENODEV;
	if (port_space_qp_type(ps) < 0)
		return refuse(EINVAL, CAUSE_CM_PORT_SPACE, "the port space is 0x%x", ps);
	id = calloc(1, sizeof(*id));
	if (!id)
		return refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for an rdma_cm_id");
	id->synchronous = !channel;
	id->channel = channel ? channel : rdma_channel_new();
	if (!id->channel) {
		int error = errno ? errno : ENOMEM;

		free(id);
		return error;
	}
	id->ibv.channel = &id->channel->ibv;
	id->origin = origin_capture();
	id->ibv.context = context;
	id->ibv.ps = ps;
	id->ibv.qp_type = qp_type;
	DL_APPEND(ids, id);
	*result = id;
	return 0;
}

void rdma_id_free(struct rdma_id *id)
{
	DL_DELETE(ids, id);
	rdma_port_release(id);
	rdma_addrinfo_leave(id);
	/* What a lookup or the network devices have told since its events were dropped. */
	rdma_channel_drop(id);
	if (id->synchronous)
		rdma_channel_free(id->channel);
	free(id->ibv.route.path_rec);
	free(id->request_qp);
	free(id->connect_data);
	origin_free(id->origin);
	quarantine_free(id, sizeof(*id));
}

int urxe_rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **result,
			void *context, enum rdma_port_space ps)
{
	struct rdma_id *id = NULL;
	int error;

	rdma_enter();
	error = rdma_id_new((struct rdma_channel *)channel, context, ps, port_space_qp_type(ps),
			    &id);
	rdma_leave();
	if (error)
		return rdma_fail(error);
	*result = &id->ibv;
	return 0;
}

/* The connection manager's part: after this it tells the id nothing more. */
static void leave_cm(struct rdma_id *id)
{
	struct cm_id *cm;

	rdma_enter();
	cm = id->cm;
	id->cm = NULL;
	id->state = RDMA_STATE_REMOVED;
	rdma_leave();
	if (cm)
		cm_id_destroy(cm, clock_now());
	rdma_stop_listening(id);
}

int urxe_rdma_destroy_id(struct rdma_cm_id *ibv)
{
	struct rdma_id *id = to_rdma_id(ibv);

	leave_cm(id);
	rdma_drop_event(id);
	rdma_channel_drop(id);
	rdma_enter();
	rdma_port_release(id);
	rdma_drain_events(id);
	rdma_multicast_leave(id);
	rdma_id_free(id);
	rdma_leave();
	return 0;
}

/* --- migration --------------------------------------------------------------------- */

int urxe_rdma_migrate_id(struct rdma_cm_id *ibv, struct rdma_event_channel *channel)
{
	struct rdma_channel *to = (struct rdma_channel *)channel, *left = NULL;
	struct rdma_id *id = to_rdma_id(ibv);

	if (!channel && id->synchronous)
		return rdma_fail(refuse(EINVAL, CAUSE_CM_ARGUMENT,
					"rdma_migrate_id(): channel NULL of an id that is "
					"synchronous already"));
	if (!channel)
		to = rdma_channel_new();
	if (!to)
		return -1;
	rdma_drop_event(id);
	rdma_enter();
	if (id->synchronous)
		left = id->channel;
	rdma_channel_move(id, to);
	id->synchronous = !channel;
	/* What a thread takes from the new channel meanwhile may wait for this call to return. */
	rdma_drain_moved_events(id);
	rdma_leave();
	if (left)
		rdma_channel_free(left);
	return 0;
}

/* --- options ----------------------------------------------------------------------- */

/* Each returns 0 or an errno; rdma.lock is held. */
static int set_tos(struct rdma_id *id, const void *value, size_t length)
{
	id->tos = *(const uint8_t *)value;
	return 0;
}

static int set_reuse_address(struct rdma_id *id, const void *value, size_t length)
{
	int reuse = *(const int *)value;

	if (id->state != RDMA_STATE_IDLE && (!reuse || id->state == RDMA_STATE_LISTEN))
		return rdma_refuse_state(id, "rdma_set_option(REUSEADDR)", "not bound");
	id->reuse_address = reuse;
	return 0;
}

static int set_family_only(struct rdma_id *id, const void *value, size_t length)
{
	if (id->state != RDMA_STATE_IDLE && id->state != RDMA_STATE_ADDRESS_BOUND)
		return rdma_refuse_state(id, "rdma_set_option(AFONLY)", "not bound, or bound");
	id->address_family_only = *(const int *)value;
	id->address_family_only_set = true;
	return 0;
}

static int set_ack_timeout(struct rdma_id *id, const void *value, size_t length)
{
	if (id->ibv.qp_type != IBV_QPT_RC && id->ibv.qp_type != IBV_QPT_XRC_SEND)
		return refuse(EINVAL, CAUSE_CM_OPTION_VALUE,
			      "rdma_set_option(ACK_TIMEOUT): an id with queue pairs of type %d",
			      id->ibv.qp_type);
	id->ack_timeout = *(const uint8_t *)value;
	id->ack_timeout_set = true;
	return 0;
}

/* RoCE's route follows from the addresses; a primary path may say more of it. */
static int set_path(struct rdma_id *id, const void *value, size_t length)
{
	const uint32_t primary =
		IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL;
	const struct ibv_path_data *paths = value;

	for (size_t i = 0; i < length / sizeof(*paths); i++) {
		if (paths[i].flags == primary)
			return rdma_resolve_path(id, &paths[i].path);
	}
	return refuse(EINVAL, CAUSE_CM_OPTION_VALUE,
		      "rdma_set_option(IB_PATH): none of %zu paths is a primary one for both "
		      "directions",
		      length / sizeof(*paths));
}

static const struct option {
	int level, name;
	size_t length;
	bool many; /* an array of it */
	int (*set)(struct rdma_id *id, const void *value, size_t length);
} options[] = {
	{RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, sizeof(uint8_t), false, set_tos},
	{RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, sizeof(int), false, set_reuse_address},
	{RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, sizeof(int), false, set_family_only},
	{RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, sizeof(uint8_t), false, set_ack_timeout},
	{RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, sizeof(struct ibv_path_data), true, set_path},
};

int urxe_rdma_set_option(struct rdma_cm_id *ibv, int level, int name, void *value, size_t length)
{
	const struct option *option = NULL;
	int error;

	for (unsigned int i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		if (options[i].level == level && options[i].name == name)
			option = &options[i];
	}
	if (!option)
		return rdma_fail(refuse(ENOSYS, CAUSE_CM_OPTION,
					"rdma_set_option(): level %d, option %d", level, name));
	if (option->many ? length == 0 || length % option->length : length != option->length)
		return rdma_fail(refuse(EINVAL, CAUSE_CM_OPTION_VALUE,
					"rdma_set_option(): level %d, option %d has %zu bytes, not "
					"%zu",
					level, name, option->length, length));
	if (!value)
		return rdma_fail(refuse(EFAULT, CAUSE_CM_OPTION_VALUE,
					"rdma_set_option(): the value is at NULL"));
	rdma_enter();
	error = option->set(to_rdma_id(ibv), value, length);
	rdma_leave();
	return error ? rdma_fail(error) : 0;
}
