/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/context.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <utlist.h>

#include "net/cause/cause.h"
#include "net/clock.h"
#include "net/quarantine.h"
#include "net/syscalls.h"
#include "verbs/command_fd.h"
#include "verbs/event.h"
#include "verbs/open_qp.h"
#include "verbs/profile.h"
#include "verbs/registry.h"

static void set_operations(struct context *context)
{
	struct verbs_context *verbs = &context->verbs;

#define OPERATION(member, type, name, ...) verbs->member = urxe_##name;
#include "verbs/operations.def"
#undef OPERATION
	verbs->sz = ABI_VERBS_CONTEXT_SIZE;
	verbs->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
}

int refuse_system_error(int error, const char *call)
{
	struct rlimit limit = {};

	if (is_descriptor_error(error)) {
		getrlimit(RLIMIT_NOFILE, &limit);
		return refuse(error, CAUSE_DESCRIPTORS_USED_UP,
			      "%s: %s; this process may have %llu", call, strerror(error),
			      (unsigned long long)limit.rlim_cur);
	}
	if (error == ENOMEM)
		return refuse(error, CAUSE_OUT_OF_MEMORY, "for %s", call);
	if (error == EPERM || error == ENOSYS)
		return refuse(error, CAUSE_SYSTEM_CALL_FORBIDDEN, "%s: %s", call, strerror(error));
	return error;
}

/* Takes @cmd_fd, unless it fails: then NULL and errno. */
static struct context *context_create(struct device *device, int cmd_fd)
{
	struct context *context = calloc(1, sizeof(*context));
	struct ibv_context *ibv;
	int error = ENOMEM;

	if (!context)
		return fail(error);
	ibv = &context->verbs.context;
	error = event_fd_open(&context->async);
	if (error)
		goto free;
	ibv->cmd_fd = cmd_fd;
	context->cmd_identity = descriptor_identify(cmd_fd);
	set_operations(context);
	context->device = device;
	context->hca = device->hca;
	ibv->device = &device->ibv;
	ibv->async_fd = context->async.readable.fd;
	ibv->num_comp_vectors = registry_configuration()->profile->num_comp_vectors;
	if (!ibv->num_comp_vectors)
		ibv->num_comp_vectors = sysconf(_SC_NPROCESSORS_ONLN);
	pthread_mutex_init(&ibv->mutex, NULL);
	context->users = 1;
	return context;

free:
	free(context);
	return fail(error);
}

/* From now on events of the ports, a fork and hooks_enable() find it. */
static void context_enlist(struct context *context)
{
	struct device *device = context->device;

	pthread_mutex_lock(&device->contexts_lock);
	DL_APPEND(device->contexts, context);
	if (hooks_on())
		hooks_set_operations(context);
	pthread_mutex_unlock(&device->contexts_lock);
}

static void context_unlist(struct context *context)
{
	struct device *device = context->device;

	pthread_mutex_lock(&device->contexts_lock);
	DL_DELETE(device->contexts, context);
	pthread_mutex_unlock(&device->contexts_lock);
}

static struct ibv_context *open_context(struct device *device, int cmd_fd)
{
	struct context *context;
	const struct event_sink sink = {deliver_completion, deliver_async, device};
	int error = device_up(device, &sink);

	if (error)
		return fail(error);
	context = context_create(device, cmd_fd);
	if (!context) {
		error = errno;
		device_down(device);
		return fail(error);
	}
	context_enlist(context);
	return &context->verbs.context;
}

struct ibv_context *urxe_open_device(struct ibv_device *ibv)
{
	struct device *device = (struct device *)ibv;
	int cmd_fd = command_fd_open(device);
	struct ibv_context *context;
	int error;

	if (cmd_fd < 0)
		return fail(refuse_system_error(errno, "ibv_open_device()"));
	context = open_context(device, cmd_fd);
	if (!context) {
		error = errno;
		sys_close(cmd_fd);
		errno = refuse_system_error(error, "ibv_open_device()");
	}
	return context;
}

struct ibv_context *urxe_import_device(int cmd_fd)
{
	struct device *device = command_fd_device(cmd_fd);
	struct ibv_context *context;

	if (!device)
		return fail(refuse(errno, CAUSE_IMPORT_UNKNOWN,
				   "ibv_import_device(): descriptor %d names no device", cmd_fd));
	context = open_context(device, cmd_fd);
	if (!context)
		errno = refuse_system_error(errno, "ibv_import_device()");
	return context;
}

bool context_shares_file(const struct ibv_context *a, const struct ibv_context *b)
{
	return descriptor_same(&to_context((struct ibv_context *)a)->cmd_identity,
			       &to_context((struct ibv_context *)b)->cmd_identity);
}

int refuse_import(const char *call, uint32_t handle, const char *kind, bool found)
{
	if (found)
		return refuse(ENOENT, CAUSE_IMPORT_UNKNOWN,
			      "%s: handle %u is of a context with another cmd_fd", call, handle);
	return refuse(ENOENT, CAUSE_IMPORT_UNKNOWN, "%s: handle %u is no %s's of this process",
		      call, handle, kind);
}

void context_get(struct ibv_context *context)
{
	to_context(context)->users++;
}

void context_put(struct ibv_context *ibv)
{
	struct context *context = to_context(ibv);
	struct device *device = context->device;
	bool inherited, unused;

	if (--context->users)
		return;
	/* In a forked child the device isn't up, or is up anew, with a list of its own. */
	inherited = context->hca != device->hca;
	if (!inherited)
		context_unlist(context);
	unused = event_fd_destroy(&context->async);
	pthread_mutex_destroy(&ibv->mutex);
	if (unused)
		quarantine_free_as(context, sizeof(*context), ibv);
	if (!inherited)
		device_down(device);
}

/*
 * What the kernel does with the queue pairs of a process that closes its device. Their
 * memory stays, for the application has pointers to it.
 */
static void stop_queue_pairs(struct context *context)
{
	struct table *qps = &context->hca->qps;
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	struct qp *qp;

	for (uint32_t number = 0; (qp = table_get_next(qps, &number)); number++) {
		if (qp_is_abandoned(qp, context->device)) {
			qp_modify(qp, &reset, IBV_QP_STATE, clock_now());
			qp->ibv.state = IBV_QPS_RESET;
		}
		table_put(qps, number);
	}
}

int urxe_close_device(struct ibv_context *ibv)
{
	struct context *context = to_context(ibv);
	unsigned int left = context->users - 1;

	pthread_mutex_lock(&context->device->contexts_lock);
	context->closed = true;
	pthread_mutex_unlock(&context->device->contexts_lock);
	if (left) {
		cause_report(CAUSE_CONTEXT_BUSY,
			     "ibv_close_device(): %u object%s of %s %s not destroyed (domains, "
			     "completion queues and channels, device memory, buffers, opened queue "
			     "pairs)",
			     left, left > 1 ? "s" : "", ibv->device->name, left > 1 ? "are" : "is");
		stop_queue_pairs(context);
	}
	event_fd_close(&context->async);
	descriptor_close(ibv->cmd_fd, &context->cmd_identity);
	ibv->async_fd = ibv->cmd_fd = -1;
	context_put(ibv);
	return 0;
}
