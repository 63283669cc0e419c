/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The public functions of librdmacm, one line each. In mode hw they are the real
 * library's, and so they are in mode both where none of our devices can be opened.
 * Otherwise the manager of our devices answers: urxe_NAME (OURS and its like).
 * What the real library lacks fails with EOPNOTSUPP in mode both, and with
 * ENODEV in hw, as everything does where it isn't installed.
 *
 * Whose ids are is decided once, by the first call of the process: an id of one library
 * means nothing to the other.
 *
 *   OURS(type, name, node, parameters, arguments, failure)
 */
#include <errno.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <rdma/rsocket.h>
#include <stdarg.h>

#include "net/guard.h"
#include "net/log.h"
#include "verbs/check/checked.h"
#include "verbs/devices.h"
#include "verbs/hooks.h"
#include "verbs/preload/export.h"
#include "verbs/preload/real.h"
#include "verbs/rdma/rdma.h"
#include "verbs/registry.h"
#include "verbs/rsocket/rsocket_calls.h"

static struct {
	pthread_once_t once;
	bool real;
} ids = {.once = PTHREAD_ONCE_INIT};

static bool real_manager_exists(void)
{
	static void *cache;

	return real_find(&cache, REAL_CM, "rdma_create_id", "RDMACM_1.0");
}

static void choose_manager(void)
{
	hooks_configure();
	/* A configuration that is refused gives no devices at all, in no mode. */
	if (registry_mode() == MODE_EMU || devices_failed())
		return;
	if (registry_mode() == MODE_HW) {
		ids.real = true;
		/* A list of devices says why there is no hardware. */
		ibv_free_device_list(ibv_get_device_list(NULL));
	} else if (real_manager_exists() && !rdma_any_device_opens()) {
		ids.real = true;
		log_warn("no device of urxe opens: rdma_cm is that of the real devices "
			 "(URXE_MODE=both)");
	}
}

/* The real library's own calls come by here, too: they are about its ids. */
static bool ids_are_real(void)
{
	if (inside_real)
		return true;
	pthread_once(&ids.once, choose_manager);
	return ids.real;
}

/* NULL, with errno, when there is no real library to forward to. */
static void *forward(void **cache, const char *name, const char *node)
{
	void *real = NULL;

	if (registry_mode() != MODE_EMU && !devices_failed())
		real = real_find(cache, REAL_CM, name, node);
	if (!real)
		errno = registry_mode() == MODE_HW ? ENODEV : EOPNOTSUPP;
	return real;
}

/*
 * The rest of a function, which is the real library's. What librdmacm asks libibverbs
 * for while it serves us is about its devices, not ours.
 */
#define FORWARD(type, name, node, parameters, arguments, failure)                                  \
	static void *cache;                                                                        \
	type(*real) parameters = forward(&cache, #name, node);                                     \
	type result;                                                                               \
                                                                                                   \
	if (!real)                                                                                 \
		return failure;                                                                    \
	inside_real++;                                                                             \
	result = real arguments;                                                                   \
	inside_real--;                                                                             \
	return result

#define FORWARD_VOID(name, node, parameters, arguments)                                            \
	static void *cache;                                                                        \
	void(*real) parameters = forward(&cache, #name, node);                                     \
                                                                                                   \
	if (!real)                                                                                 \
		return;                                                                            \
	inside_real++;                                                                             \
	real arguments;                                                                            \
	inside_real--

/* Before our function, while hooks are on (verbs/hooks.h). */
#define HOOK(name, arguments, failure)                                                             \
	if (unlikely(hooks_on())) {                                                                \
		int error = hook_call(FAULT_CALL_##name);                                          \
                                                                                                   \
		if (error)                                                                         \
			return errno = error, failure;                                             \
		return checked_##name arguments;                                                   \
	}

/* By @symbol, if that isn't @name. */
#define OURS_AS(symbol, type, name, node, parameters, arguments, failure)                          \
	EXPORT type symbol parameters                                                              \
	{                                                                                          \
		if (!ids_are_real()) {                                                             \
			guard_thread();                                                            \
			HOOK(name, arguments, failure)                                             \
			return urxe_##name arguments;                                              \
		}                                                                                  \
		FORWARD(type, name, node, parameters, arguments, failure);                         \
	}

#define OURS(type, name, node, parameters, arguments, failure)                                     \
	OURS_AS(name, type, name, node, parameters, arguments, failure)

/* One that can't fail. */
#define UNFAILING(type, name, node, parameters, arguments, failure)                                \
	EXPORT type name parameters                                                                \
	{                                                                                          \
		if (!ids_are_real())                                                               \
			return HOOKED(name) arguments;                                             \
		FORWARD(type, name, node, parameters, arguments, failure);                         \
	}

#define OURS_VOID(name, node, parameters, arguments)                                               \
	EXPORT void name parameters                                                                \
	{                                                                                          \
		if (!ids_are_real()) {                                                             \
			guard_thread();                                                            \
			HOOKED(name) arguments;                                                    \
			return;                                                                    \
		}                                                                                  \
		FORWARD_VOID(name, node, parameters, arguments);                                   \
	}

/* Hooks are for the calls of verbs and rdma_cm that an rsocket makes. */
#define SOCKET_AS(symbol, type, name, node, parameters, arguments, failure)                        \
	EXPORT type symbol parameters                                                              \
	{                                                                                          \
		if (!ids_are_real()) {                                                             \
			guard_thread();                                                            \
			return urxe_##name arguments;                                              \
		}                                                                                  \
		FORWARD(type, name, node, parameters, arguments, failure);                         \
	}

#define SOCKET(type, name, node, parameters, arguments, failure)                                   \
	SOCKET_AS(name, type, name, node, parameters, arguments, failure)

#define V "RDMACM_1.0"

/* clang-format off */

/* --- connections ------------------------------------------------------------ */
OURS(int, rdma_accept, V, (struct rdma_cm_id *id, struct rdma_conn_param *conn_param), (id, conn_param), -1)
OURS(int, rdma_ack_cm_event, V, (struct rdma_cm_event *event), (event), -1)
OURS(int, rdma_bind_addr, V, (struct rdma_cm_id *id, struct sockaddr *addr), (id, addr), -1)
OURS(int, rdma_connect, V, (struct rdma_cm_id *id, struct rdma_conn_param *conn_param), (id, conn_param), -1)
OURS(int, rdma_create_ep, V, (struct rdma_cm_id **id, struct rdma_addrinfo *res, struct ibv_pd *pd, struct ibv_qp_init_attr *qp_init_attr), (id, res, pd, qp_init_attr), -1)
OURS(struct rdma_event_channel *, rdma_create_event_channel, V, (void), (), NULL)
OURS(int, rdma_create_id, V, (struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context, enum rdma_port_space ps), (channel, id, context, ps), -1)
OURS(int, rdma_create_qp, V, (struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *qp_init_attr), (id, pd, qp_init_attr), -1)
OURS(int, rdma_create_qp_ex, V, (struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *qp_init_attr), (id, qp_init_attr), -1)
OURS(int, rdma_create_srq, V, (struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr), (id, pd, attr), -1)
OURS(int, rdma_create_srq_ex, V, (struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr), (id, attr), -1)
OURS_VOID(rdma_destroy_ep, V, (struct rdma_cm_id *id), (id))
OURS_VOID(rdma_destroy_event_channel, V, (struct rdma_event_channel *channel), (channel))
OURS(int, rdma_destroy_id, V, (struct rdma_cm_id *id), (id), -1)
OURS_VOID(rdma_destroy_qp, V, (struct rdma_cm_id *id), (id))
OURS_VOID(rdma_destroy_srq, V, (struct rdma_cm_id *id), (id))
OURS(int, rdma_disconnect, V, (struct rdma_cm_id *id), (id), -1)
OURS_VOID(rdma_free_devices, V, (struct ibv_context **list), (list))
OURS_VOID(rdma_freeaddrinfo, V, (struct rdma_addrinfo *res), (res))
OURS(int, rdma_get_cm_event, V, (struct rdma_event_channel *channel, struct rdma_cm_event **event), (channel, event), -1)
/* libfabric looks at the count alone. */
OURS(struct ibv_context **, rdma_get_devices, V, (int *num_devices), (num_devices), (num_devices ? *num_devices = 0 : 0, NULL))
OURS(int, rdma_get_request, V, (struct rdma_cm_id *listen, struct rdma_cm_id **id), (listen, id), -1)
OURS(int, rdma_getaddrinfo, V, (const char *node, const char *service, const struct rdma_addrinfo *hints, struct rdma_addrinfo **res), (node, service, hints, res), -1)
OURS(int, rdma_join_multicast, V, (struct rdma_cm_id *id, struct sockaddr *addr, void *context), (id, addr, context), -1)
OURS(int, rdma_leave_multicast, V, (struct rdma_cm_id *id, struct sockaddr *addr), (id, addr), -1)
OURS(int, rdma_listen, V, (struct rdma_cm_id *id, int backlog), (id, backlog), -1)
OURS(int, rdma_migrate_id, V, (struct rdma_cm_id *id, struct rdma_event_channel *channel), (id, channel), -1)
OURS(int, rdma_notify, V, (struct rdma_cm_id *id, enum ibv_event_type event), (id, event), -1)
OURS(int, rdma_reject, V, (struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len), (id, private_data, private_data_len), -1)
OURS(int, rdma_resolve_addr, V, (struct rdma_cm_id *id, struct sockaddr *src_addr, struct sockaddr *dst_addr, int timeout_ms), (id, src_addr, dst_addr, timeout_ms), -1)
OURS(int, rdma_resolve_route, V, (struct rdma_cm_id *id, int timeout_ms), (id, timeout_ms), -1)
OURS(int, rdma_set_option, V, (struct rdma_cm_id *id, int level, int optname, void *optval, size_t optlen), (id, level, optname, optval, optlen), -1)
OURS(int, rdma_join_multicast_ex, "RDMACM_1.1", (struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *mc_join_attr, void *context), (id, mc_join_attr, context), -1)
OURS(int, rdma_establish, "RDMACM_1.2", (struct rdma_cm_id *id), (id), -1)
OURS(int, rdma_init_qp_attr, "RDMACM_1.2", (struct rdma_cm_id *id, struct ibv_qp_attr *qp_attr, int *qp_attr_mask), (id, qp_attr, qp_attr_mask), -1)
OURS(int, rdma_get_remote_ece, "RDMACM_1.3", (struct rdma_cm_id *id, struct ibv_ece *ece), (id, ece), -1)
OURS(int, rdma_reject_ece, "RDMACM_1.3", (struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len), (id, private_data, private_data_len), -1)
OURS(int, rdma_set_local_ece, "RDMACM_1.3", (struct rdma_cm_id *id, struct ibv_ece *ece), (id, ece), -1)

/* --- rsockets ----------------------------------------------------------------- */
SOCKET(int, raccept, V, (int socket, struct sockaddr *addr, socklen_t *addrlen), (socket, addr, addrlen), -1)
SOCKET(int, rbind, V, (int socket, const struct sockaddr *addr, socklen_t addrlen), (socket, addr, addrlen), -1)
SOCKET(int, rclose, V, (int socket), (socket), -1)
SOCKET(int, rconnect, V, (int socket, const struct sockaddr *addr, socklen_t addrlen), (socket, addr, addrlen), -1)
SOCKET(int, rgetpeername, V, (int socket, struct sockaddr *addr, socklen_t *addrlen), (socket, addr, addrlen), -1)
SOCKET(int, rgetsockname, V, (int socket, struct sockaddr *addr, socklen_t *addrlen), (socket, addr, addrlen), -1)
SOCKET(int, rgetsockopt, V, (int socket, int level, int optname, void *optval, socklen_t *optlen), (socket, level, optname, optval, optlen), -1)
SOCKET(off_t, riomap, V, (int socket, void *buf, size_t len, int prot, int flags, off_t offset), (socket, buf, len, prot, flags, offset), -1)
SOCKET(int, riounmap, V, (int socket, void *buf, size_t len), (socket, buf, len), -1)
SOCKET(size_t, riowrite, V, (int socket, const void *buf, size_t count, off_t offset, int flags), (socket, buf, count, offset, flags), (size_t)-1)
SOCKET(int, rlisten, V, (int socket, int backlog), (socket, backlog), -1)
SOCKET(int, rpoll, V, (struct pollfd *fds, nfds_t nfds, int timeout), (fds, nfds, timeout), -1)
SOCKET(ssize_t, rread, V, (int socket, void *buf, size_t count), (socket, buf, count), -1)
SOCKET(ssize_t, rreadv, V, (int socket, const struct iovec *iov, int iovcnt), (socket, iov, iovcnt), -1)
SOCKET(ssize_t, rrecv, V, (int socket, void *buf, size_t len, int flags), (socket, buf, len, flags), -1)
SOCKET(ssize_t, rrecvfrom, V, (int socket, void *buf, size_t len, int flags, struct sockaddr *src_addr, socklen_t *addrlen), (socket, buf, len, flags, src_addr, addrlen), -1)
SOCKET(ssize_t, rrecvmsg, V, (int socket, struct msghdr *msg, int flags), (socket, msg, flags), -1)
SOCKET(int, rselect, V, (int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds, struct timeval *timeout), (nfds, readfds, writefds, exceptfds, timeout), -1)
SOCKET(ssize_t, rsend, V, (int socket, const void *buf, size_t len, int flags), (socket, buf, len, flags), -1)
SOCKET(ssize_t, rsendmsg, V, (int socket, const struct msghdr *msg, int flags), (socket, msg, flags), -1)
SOCKET(ssize_t, rsendto, V, (int socket, const void *buf, size_t len, int flags, const struct sockaddr *dest_addr, socklen_t addrlen), (socket, buf, len, flags, dest_addr, addrlen), -1)
SOCKET(int, rsetsockopt, V, (int socket, int level, int optname, const void *optval, socklen_t optlen), (socket, level, optname, optval, optlen), -1)
SOCKET(int, rshutdown, V, (int socket, int how), (socket, how), -1)
SOCKET(int, rsocket, V, (int domain, int type, int protocol), (domain, type, protocol), -1)
SOCKET(ssize_t, rwrite, V, (int socket, const void *buf, size_t count), (socket, buf, count), -1)
SOCKET(ssize_t, rwritev, V, (int socket, const struct iovec *iov, int iovcnt), (socket, iov, iovcnt), -1)

/* clang-format on */

/* 0: the id has none. */
UNFAILING(__be16, rdma_get_src_port, V, (struct rdma_cm_id * id), (id), 0)
UNFAILING(__be16, rdma_get_dst_port, V, (struct rdma_cm_id * id), (id), 0)

EXPORT int rfcntl(int socket, int cmd, ... /* arg */)
{
	static void *cache;
	int (*real)(int, int, ...);
	va_list arguments;
	long argument;

	va_start(arguments, cmd);
	argument = va_arg(arguments, long);
	va_end(arguments);
	if (!ids_are_real())
		return urxe_rfcntl(socket, cmd, argument);
	real = forward(&cache, "rfcntl", V);
	return real ? real(socket, cmd, argument) : -1;
}

/* --- newer than the oldest headers that urxe builds with, by names that can't clash ------ */

#define NEWER_OURS(name, node, parameters, arguments)                                              \
	int newer_##name parameters __asm__(#name);                                                \
	OURS_AS(newer_##name, int, name, node, parameters, arguments, -1)

#define NEWER_SOCKET(name, node, parameters, arguments)                                            \
	int newer_##name parameters __asm__(#name);                                                \
	SOCKET_AS(newer_##name, int, name, node, parameters, arguments, -1)

/* clang-format off */
NEWER_OURS(rdma_query_addrinfo, "RDMACM_1.4", (struct rdma_cm_id *id, struct rdma_addrinfo **info), (id, info))
NEWER_OURS(rdma_resolve_addrinfo, "RDMACM_1.4", (struct rdma_cm_id *id, const char *node, const char *service, const struct rdma_addrinfo *hints), (id, node, service, hints))
NEWER_OURS(rdma_write_cm_event, "RDMACM_1.4", (struct rdma_cm_id *id, int event, int status, uint64_t argument), (id, event, status, argument))
NEWER_SOCKET(repoll_create, "RDMACM_1.5", (int flags), (flags))
NEWER_SOCKET(repoll_ctl, "RDMACM_1.5", (int epfd, int op, int fd, struct epoll_event *event), (epfd, op, fd, event))
NEWER_SOCKET(repoll_wait, "RDMACM_1.5", (int epfd, struct epoll_event *events, int maxevents, int timeout), (epfd, events, maxevents, timeout))
/* clang-format on */
