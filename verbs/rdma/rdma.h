/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * librdmacm's objects over the connection manager of the core (emu/cm/cm.h): ids,
 * event channels, ports. What Linux splits between librdmacm and the kernel's
 * rdma_cm is one here: addresses and service ids, the 36-byte header in the
 * private data, the states of an id, and which call does what to the QP.
 *
 * Used by verbs/rdma, and by verbs/check and verbs/names.c for what they tell of it. The
 * exported functions live in the file of their subject: rdma_channel (channels, the queues of
 * events), rdma_id (ids, migration, options), rdma_device (the devices that ids share), rdma_watch
 * (changes of network devices), rdma_neighbour (hosts on the link), rdma_port (which ids have which
 * port), rdma_sockaddr (families of addresses), rdma_address (bind, resolve_addr), rdma_route
 * (resolve_route), rdma_listen, rdma_connect (connect to disconnect), rdma_event (what the events
 * of a connection are to the application: the table), rdma_request (requests and their ids),
 * rdma_qp (QPs and SRQs of an id), rdma_addrinfo (rdma_getaddrinfo, resolve_addrinfo),
 * rdma_endpoint (create_ep, get_request), rdma_multicast. In mode hw all of them forward to the
 * real library (rdma_forward.c); in emu ids are ours, and in both unless none of our devices can
 * be opened.
 *
 * rdma.lock, one for the process, protects everything here but the queues of
 * events: connecting isn't the data path. It isn't held while waiting for an event.
 * The queues have a lock of their own, for the connection manager adds to them with
 * cm.lock held. Order: rdma.lock -> device.lock, cm.lock and the locks of the core's
 * objects -> the lock of the queues.
 *
 * Life of a connection: its state is that of its cm_id. rdma_state says what the
 * next call may be, rdma_phase what is left to tell of the connection.
 *
 * Life of an id: rdma_destroy_id() waits until its events that the application
 * has got are acked, and drops the others. A CONNECT_REQUEST gets its id when the
 * application gets the event; until then the request is rejected with its listener.
 */
#ifndef URXE_VERBS_RDMA_H
#define URXE_VERBS_RDMA_H

#include <endian.h>
#include <errno.h>
#include <infiniband/ib.h>
#include <netinet/in.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

#include "emu/cm/cm.h"
#include "net/fault/fault_words.h"
#include "net/wire/gid.h"
#include "verbs/event_fd.h"
#include "verbs/neighbour.h"

struct context;
struct device;
struct origin;
struct rdma_id;
struct rdma_lookup;
struct rdma_record;

/* The states of Linux's rdma_cm, by what the next call may be. */
enum rdma_state {
	RDMA_STATE_IDLE,
	RDMA_STATE_ADDRESS_BOUND,
	RDMA_STATE_ADDRESS_QUERY, /* the destination's hardware address is asked for */
	RDMA_STATE_ADDRESS_RESOLVED,
	RDMA_STATE_ROUTE_RESOLVED,
	RDMA_STATE_CONNECT, /* a request was sent or received: the rest is the cm_id's state */
	RDMA_STATE_LISTEN,
	RDMA_STATE_REMOVED, /* the device is gone, or the id itself is about to be */
};

/* What the application still hears of a connection. */
enum rdma_phase {
	RDMA_PHASE_CONNECTION,	 /* everything */
	RDMA_PHASE_DISCONNECTED, /* it has been told DISCONNECTED: TIMEWAIT_EXIT is left */
	RDMA_PHASE_FAILED,	 /* CONNECT_ERROR, or the device is gone: nothing */
};

/* Events newer than the oldest headers that urxe builds with (rdma-core 60). */
#define RDMA_EVENT_ADDRINFO_RESOLVED ((enum rdma_cm_event_type)16)
#define RDMA_EVENT_ADDRINFO_ERROR ((enum rdma_cm_event_type)17)
#define RDMA_EVENT_USER ((enum rdma_cm_event_type)18) /* param: a 64-bit argument */

/* What RDMA CM puts before the consumer's private data (IBA Annex A11). */
struct rdma_header {
	uint8_t version;    /* 0 */
	uint8_t ip_version; /* 4 or 6, in the high nibble */
	__be16 port;
	uint8_t source[16]; /* IPv4 in the last four */
	uint8_t destination[16];
} __attribute__((packed));

_Static_assert(sizeof(struct rdma_header) == 36, "Annex A11");
_Static_assert(sizeof(struct sockaddr_ib) <= sizeof(struct sockaddr_storage), "AF_IB");

/* The consumer's private data in a SIDR_REQ: what the header leaves of IBA's 216 bytes. */
#define RDMA_PRIVATE_SIDR_REQ (216 - (int)sizeof(struct rdma_header))

/*
 * What becomes of an event of the connection manager (the table in rdma_event.c): the
 * event for the application, told in phase @in, which leads to phase @next. When the
 * application gets it, it is filled in (false: it isn't told after all), and then the
 * QP moves, if the id has one: to success, by which the event is @moved, or not: @failed.
 */
struct rdma_outcome {
	enum rdma_cm_event_type type;
	int status;
	enum rdma_phase in, next;
	bool (*fill)(struct rdma_record *record);
	int (*move_qp)(struct rdma_id *id);
	enum rdma_cm_event_type moved, failed;
};

/* An event on its way to the application, or in its hands. */
struct rdma_record {
	struct rdma_cm_event event;	 /* what the application sees; must be first */
	struct rdma_record *prev, *next; /* utlist */
	struct rdma_id *id; /* of a request the listener; its destruction waits for the ack */
	struct multicast_membership *multicast;
	uint32_t moves; /* of @id when it was taken */
	/*
	 * Of a request, whose id this is for: the one it was taken from, whatever becomes of the
	 * listener meanwhile; NULL: one of its own, as the listener had.
	 */
	struct rdma_channel *channel;

	const struct rdma_outcome *outcome; /* of @cause; NULL: a call's own event */
	struct cm_event cause;		    /* copied: private data is there */
	struct device *device;		    /* of a request: that it came by */
};

/* A group that an id has joined. Its events are counted apart: leaving waits for them. */
struct multicast_membership {
	struct multicast_membership *prev, *next; /* utlist */
	struct sockaddr_storage address;	  /* by which it was joined and will be left */
	union ibv_gid gid;
	void *context;
	bool send_only;
	bool joined;   /* the HCA is a member */
	bool attached; /* the QP is, to the group */
	uint32_t events_taken, events_acked;
};

struct rdma_channel {
	struct rdma_event_channel ibv; /* fd: the descriptor of @readable */
	struct readable readable;      /* while there are events */
	struct rdma_record *head;
	bool inherited; /* this is a forked child: what the channel is told of is its parent's */
	struct rdma_channel *prev, *next; /* of destroyed ones */
};

/* The host on the link that packets to the destination go to, until it is found. */
struct rdma_neighbour {
	struct neighbour host;
	uint64_t deadline;
};

struct rdma_id {
	struct rdma_cm_id ibv; /* what the application sees; must be first */
	enum rdma_state state;
	enum rdma_phase phase;	      /* under the lock of the queues (rdma_channel.c) */
	struct rdma_channel *channel; /* ibv.channel's, or NULL; of its own when @synchronous */
	bool synchronous;	      /* created with channel NULL, or migrated to it */
	struct origin *origin;	      /* where it was made: net/cause/origin.h */
	struct rdma_id *prev, *next;  /* all ids of the process */

	struct context *context; /* the open device behind ibv.verbs, or NULL */
	struct device *device;
	unsigned int interface;	  /* of its address, when it was bound; 0: unknown */
	struct cm_id *cm;	  /* of the connection or datagram exchange, or NULL */
	struct cm_id **listeners; /* one per device when listening */
	unsigned int listener_count;
	int backlog;
	uint32_t pending; /* CONNECT_REQUESTs queued, against @backlog; under the same lock */

	struct rdma_port *port; /* what it has bound, or NULL */
	struct rdma_id *port_prev, *port_next;
	struct rdma_neighbour neighbour;
	struct path path; /* once resolved */
	enum ibv_mtu mtu;
	uint8_t packet_life_time; /* log2 of 4.096 us */

	struct rdma_conn_param peer; /* what the request offered */
	uint32_t qkey;		     /* datagram QPs */
	struct ibv_ece local_ece, remote_ece;

	uint8_t tos, ack_timeout; /* rdma_set_option() */
	bool ack_timeout_set;	  /* perhaps to 0: the QP's timer is off (IBA 9.7.6.1.3) */
	bool reuse_address, address_family_only, address_family_only_set;
	bool source_chosen; /* by rdma_resolve_addr() */

	/* rdma_create_ep(): for rdma_get_request() and rdma_connect(). */
	struct ibv_qp_init_attr *request_qp;
	void *connect_data; /* goes before the private data of the caller */
	uint8_t connect_length;
	struct multicast_membership *memberships;

	/* rdma_resolve_addrinfo(): in progress, or NULL; and what the last one found. */
	struct rdma_lookup *lookup;
	struct rdma_addrinfo *addrinfo;

	uint32_t events_taken, events_acked;
	uint32_t moves, moved_from; /* migrations; events taken before the last, and not acked */
};

/* Connections of InfiniBand's addresses have none (Linux: cma_format_hdr()). */
static inline uint8_t rdma_header_length(const struct rdma_id *id)
{
	return id->ibv.route.addr.src_addr.sa_family == AF_IB ? 0 : sizeof(struct rdma_header);
}

static inline struct rdma_id *to_rdma_id(struct rdma_cm_id *id)
{
	return (struct rdma_id *)id;
}

/* -1 with errno, as all of librdmacm returns errors. */
static inline int rdma_fail(int error)
{
	errno = error;
	return -1;
}

/* rdma_id.c */
/*
 * rdma.lock. A thread isn't cancelled while it has it: applications cancel threads
 * that wait for events, at any time.
 */
void rdma_enter(void);
void rdma_leave(void);
/* With it held, until @condition is signalled. */
void rdma_wait(pthread_cond_t *condition);

/* All ids of the process, by their next. rdma.lock is held. */
struct rdma_id *rdma_ids(void);

/* A new id on @channel (NULL: synchronous). 0, ENODEV, EINVAL, ENOMEM. rdma.lock is held. */
int rdma_id_new(struct rdma_channel *channel, void *context, enum rdma_port_space ps,
		enum ibv_qp_type qp_type, struct rdma_id **id);
/* Free what rdma_id_new() made, before the application has seen it. rdma.lock is held. */
void rdma_id_free(struct rdma_id *id);

/*
 * EINVAL: @call isn't possible in the state that @id is in, which has to be @needed. rdma.lock is
 * held.
 */
int rdma_refuse_state(const struct rdma_id *id, const char *call, const char *needed);
/* The same where rdma.lock isn't held. */
int rdma_refuse_state_unlocked(const struct rdma_id *id, const char *call, const char *needed);

/* rdma_channel.c. Queue the event that a call answers by. 0 or ENOMEM; lost without a channel. */
int rdma_event(struct rdma_id *id, enum rdma_cm_event_type type, int status);
/* The same in two steps: NULL without memory; false (and @record is gone) without a channel. */
struct rdma_record *rdma_record_new(struct rdma_id *id, enum rdma_cm_event_type type, int status);
bool rdma_channel_append(struct rdma_record *record);
/*
 * The private data of @record is its cause's, without the first @skip bytes, which are gone then:
 * what is left is where malloc() could have put it.
 */
void rdma_record_private(struct rdma_record *record, uint8_t skip);

/* Queue @cause for @id as @outcome says, unless the phase of @id forbids it. */
void rdma_channel_report(struct rdma_id *id, const struct rdma_outcome *outcome,
			 const struct cm_event *cause);
/* Queue a request, or say why not. */
enum cm_verdict rdma_channel_add_request(struct rdma_id *listener, const struct cm_event *cause,
					 struct device *device);
/* Drop the events of @id that the application hasn't got: all, or those about @membership. */
void rdma_channel_drop(struct rdma_id *id);
void rdma_channel_drop_membership(struct rdma_id *id,
				  const struct multicast_membership *membership);
enum rdma_phase rdma_channel_phase(const struct rdma_id *id);
/* The device is gone: nothing more is told of the connection. */
void rdma_channel_end(struct rdma_id *id);
/* CONNECT_ERROR: the same, and what is queued isn't told either. */
void rdma_channel_fail(struct rdma_id *id);
/* @id is on channel @to from now on, and so are its events. rdma.lock is held. */
void rdma_channel_move(struct rdma_id *id, struct rdma_channel *to);
bool rdma_channel_is_empty(struct rdma_channel *channel);
void rdma_channels_before_fork(void);
void rdma_channels_after_fork(void);
void rdma_channel_inherit(struct rdma_channel *channel);
/*
 * For synchronous ids: wait for the next event of @id; 0, or -1 with errno (rdma_create_id(3)).
 * @synchronous: what @id was before what it waits for began; another one may be gone by now, as a
 * thread that got its event may destroy it.
 */
int rdma_complete(struct rdma_id *id, bool synchronous);
/* Ack the event that a synchronous call has left in ibv.event. */
void rdma_drop_event(struct rdma_id *id);
struct rdma_channel *rdma_channel_new(void);
void rdma_channel_free(struct rdma_channel *channel);
/* Wait until every event of @id that was taken is acked. rdma.lock is held, and let go of. */
void rdma_drain_events(struct rdma_id *id);
/* The same of those that were taken before rdma_channel_move(). */
void rdma_drain_moved_events(struct rdma_id *id);
void rdma_drain_membership_events(struct multicast_membership *membership);

/* rdma_event.c: the sink of every HCA's connection manager. */
void rdma_handle_event(void *context, const struct cm_event *event);
/* The application gets @record, which has an outcome. False: it isn't told. Without rdma.lock. */
bool rdma_on_get_event(struct rdma_record *record);
/* The errno with which a step that has succeeded fails all the same, as a fault asks for; or 0. */
int rdma_injected(enum fault_cm_event event);

/* rdma_request.c: a request came by @device; and the application gets its event. */
extern const struct rdma_outcome rdma_request_outcome;
enum cm_verdict rdma_handle_request(void *device, const struct cm_event *event);
bool rdma_adopt_request(struct rdma_record *record);
/* What the peer offers is ours to use, the other way round. */
struct rdma_conn_param rdma_offer(const struct cm_message *message);

/* rdma_connect.c: answer a REP by moving the QP, if there is one, and by the RTU. 0 or an errno. */
int rdma_complete_connect(struct rdma_id *id);

/*
 * rdma_listen.c: make @id's listeners, if it has none: on the device of its address or on
 * all. 0 or an errno; then, too, what was made goes with rdma_stop_listening().
 * rdma.lock is held.
 */
int rdma_make_listeners(struct rdma_id *id);
/*
 * Claim the service of @id's port for them. 0, or an errno (rdma_is_taken(): another process
 * has it). rdma.lock isn't held: this may wait for other processes.
 */
int rdma_claim(const struct rdma_id *id);
bool rdma_is_taken(int error);
/* What the application is told of it: the kernel's errno where there is no port left. */
int rdma_claim_error(int error);
/* Say which process has the port of @address. Slow; without rdma.lock. */
void rdma_tell_claimant(const struct rdma_id *id, const struct sockaddr *address);
/* Destroy the listeners, and with them their claims; without rdma.lock. */
void rdma_stop_listening(struct rdma_id *id);

/*
 * rdma_device.c: bind @id to the open device that has (or can add) @gid: sets
 * ibv.verbs, ibv.port_num and ibv.pd, the default PD of the device (one each, kept
 * as long as the process lives). 0, ENODEV, EADDRNOTAVAIL. rdma.lock is held.
 */
int rdma_id_attach(struct rdma_id *id, const union ibv_gid *gid);
/* The same, with the device given, too. */
int rdma_id_use(struct rdma_id *id, struct device *device, const union ibv_gid *gid);
void rdma_id_detach(struct rdma_id *id);
/* The default XRC domain of the device that @id is bound to, one each, or NULL with errno. */
struct ibv_xrcd *rdma_default_xrcd(const struct rdma_id *id);
/* Open all devices. Returns how many there are in *@devices, which stays ours. */
unsigned int rdma_open_devices(struct device **devices);
/* The same, without rdma.lock: is any of them open now? */
bool rdma_any_device_opens(void);
/* Whether @device was opened for ids, and works no more. */
bool rdma_device_has_failed(const struct device *device);
/* The application stops polling: the calling thread is about to sleep. */
void rdma_devices_app_sleeping(void);
void rdma_devices_after_fork_child(void);

/* rdma_watch.c: begin to tell ids of changes of network devices. rdma.lock is held. */
void rdma_watch_start(void);
/* A device works no more: DEVICE_REMOVAL to its ids, soon. */
void rdma_watch_removed(void);
/* ADDR_CHANGE to @id. */
void rdma_watch_changed(struct rdma_id *id);
void rdma_watch_after_fork_child(void);

/*
 * rdma_neighbour.c: the way of @id is known; tell ADDR_RESOLVED when the host on the link is,
 * too, or ADDR_ERROR if it isn't found within @timeout_ms (negative: for ever).
 * rdma.lock is held.
 */
void rdma_neighbour_resolve(struct rdma_id *id, int timeout_ms);
void rdma_neighbour_after_fork_child(void);

/*
 * rdma_port.c: ports. A port is of a port space and an address (zeros: any); an id
 * owns it from when it is bound to when it is destroyed. rdma.lock is held.
 */
/*
 * Give @id the port of its source address, or any if that is 0. 0, EADDRINUSE, EADDRNOTAVAIL,
 * EACCES.
 */
int rdma_port_bind(struct rdma_id *id);
/* Whether the sharing of a port that allows @id to be bound allows it to listen. 0 or an errno. */
int rdma_port_check_listen(const struct rdma_id *id);
/* What AFONLY is for IPv6 if it isn't set: what the administrator says (net.ipv6.bindv6only). */
bool rdma_port_ipv6_only(void);
void rdma_port_release(struct rdma_id *id);
/* In a forked child, before ids release their ports: what was leased is the parent's. */
void rdma_port_after_fork_child(void);

/* rdma_sockaddr.c: of any family that there is. */
size_t rdma_sockaddr_length(const struct sockaddr *address); /* 0: there isn't */
bool rdma_sockaddr_is_any(const struct sockaddr *address);
uint16_t rdma_sockaddr_port(const struct sockaddr *address);
void rdma_sockaddr_set_port(struct sockaddr *address, uint16_t port);
void rdma_sockaddr_gid(const struct sockaddr *address, union ibv_gid *gid);
/* The unspecified address of IPv4 or IPv6; of @address the port stays. */
void rdma_sockaddr_set_any(struct sockaddr_storage *address, int family);
/* All else stays; unless it is AF_IB, the address becomes one of the GID's family. */
void rdma_sockaddr_set_gid(struct sockaddr *address, const union ibv_gid *gid);
void rdma_sockaddr_to_ib(struct sockaddr_ib *ib, const struct sockaddr *address, int ps);
/* @addr, whose destination is set, with the IP addresses that AF_IB's and mapped ones stand for. */
struct rdma_addr rdma_ip_addresses(const struct rdma_addr *addr);
/* The service that @address names among those of the port space of @id. */
uint64_t rdma_service_id(const struct rdma_id *id, const struct sockaddr *address);
/*
 * Complete the service id of a local @address to one that an id of @ps may have. 0, or
 * EPROTONOSUPPORT.
 */
int rdma_sockaddr_choose_service(struct sockaddr *address, int ps);

#define RDMA_ADDRESS_TEXT 64

/* "10.0.0.1 port 7471"; "no address" of a family that there isn't. Returns @text. */
const char *rdma_address_text(const struct sockaddr *address, char text[RDMA_ADDRESS_TEXT]);

/* rdma_address.c */
/* The address isn't resolved: @id is bound as it was before. With rdma.lock held. */
void rdma_forget_source(struct rdma_id *id);
/*
 * Whether the kernel's routing still knows a way between the addresses of @addr, which come and
 * go. 0 or the errno that it has for it. *@mtu: that of the way, or UINT32_MAX.
 */
int rdma_check_way(const struct rdma_addr *addr, uint32_t *mtu);
/* Report that it doesn't, for @error, which is returned. */
int rdma_refuse_route(const struct rdma_addr *addr, int error);

/* rdma_route.c */
/*
 * rdma_resolve_route() without waiting, by the path that is @asked for (RDMA_OPTION_IB_PATH) or,
 * if that is NULL, by that of the addresses. 0 or an errno. rdma.lock is held.
 */
int rdma_resolve_path(struct rdma_id *id, const struct ibv_path_record *asked);
/* Fill in ibv.route from the addresses and id.path, which are set. 0 or ENOMEM. */
int rdma_route_set(struct rdma_id *id);
/* Its addresses alone: there is no path. */
void rdma_route_set_gids(struct rdma_id *id);

/*
 * rdma_qp.c: the QP of a connection through its states, 0 or an errno. What
 * responder_resources and initiator_depth say replaces what the exchange gave,
 * unless it is RDMA_MAX_RESP_RES, RDMA_MAX_INIT_DEPTH.
 */
int rdma_qp_connect(struct rdma_id *id, uint8_t responder_resources, uint8_t initiator_depth);
int rdma_qp_error(struct rdma_id *id);

/* rdma_multicast.c: a MULTICAST_JOIN was taken: attach the QP, or make it an error. */
void rdma_multicast_attach(struct rdma_record *record);
/* The QP is about to be destroyed: take it out of the groups. rdma.lock is held. */
void rdma_multicast_detach(struct rdma_id *id);
/* @id is about to be freed, and its events are acked. rdma.lock is held. */
void rdma_multicast_leave(struct rdma_id *id);
/* In a forked child: the groups are the parent's. */
void rdma_multicast_after_fork_child(struct rdma_id *id);

/* rdma_addrinfo.c: @id is about to be freed. rdma.lock is held. */
void rdma_addrinfo_leave(struct rdma_id *id);
/* In a forked child: its thread is the parent's. */
void rdma_addrinfo_after_fork_child(struct rdma_id *id);

/* --- the functions of rdma_cma.h, for our devices (rdma_forward.c decides) ------- */

struct rdma_event_channel *urxe_rdma_create_event_channel(void);
void urxe_rdma_destroy_event_channel(struct rdma_event_channel *channel);
int urxe_rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
			enum rdma_port_space ps);
int urxe_rdma_set_option(struct rdma_cm_id *id, int level, int name, void *value, size_t length);
__be16 urxe_rdma_get_src_port(struct rdma_cm_id *id);
__be16 urxe_rdma_get_dst_port(struct rdma_cm_id *id);
int urxe_rdma_listen(struct rdma_cm_id *id, int backlog);
int urxe_rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param);
int urxe_rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param);
int urxe_rdma_reject(struct rdma_cm_id *id, const void *data, uint8_t length);
int urxe_rdma_reject_ece(struct rdma_cm_id *id, const void *data, uint8_t length);
int urxe_rdma_establish(struct rdma_cm_id *id);
int urxe_rdma_notify(struct rdma_cm_id *id, enum ibv_event_type event);
int urxe_rdma_disconnect(struct rdma_cm_id *id);
int urxe_rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece);
int urxe_rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece);
struct ibv_context **urxe_rdma_get_devices(int *count);
void urxe_rdma_free_devices(struct ibv_context **list);

int urxe_rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
int urxe_rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr);
void urxe_rdma_destroy_qp(struct rdma_cm_id *id);
int urxe_rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
int urxe_rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr);
void urxe_rdma_destroy_srq(struct rdma_cm_id *id);
int urxe_rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask);
int urxe_rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
			  struct rdma_addrinfo **result);
void urxe_rdma_freeaddrinfo(struct rdma_addrinfo *info);
int urxe_rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service,
			       const struct rdma_addrinfo *hints);
int urxe_rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info);
int urxe_rdma_create_ep(struct rdma_cm_id **id, struct rdma_addrinfo *info, struct ibv_pd *pd,
			struct ibv_qp_init_attr *attr);
void urxe_rdma_destroy_ep(struct rdma_cm_id *id);
int urxe_rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **id);
int urxe_rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *address, void *context);
int urxe_rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *attr,
				void *context);
int urxe_rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *address);
int urxe_rdma_destroy_id(struct rdma_cm_id *id);
int urxe_rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *address);
int urxe_rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *source,
			   struct sockaddr *destination, int timeout_ms);
int urxe_rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms);
int urxe_rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event);
int urxe_rdma_ack_cm_event(struct rdma_cm_event *event);
int urxe_rdma_write_cm_event(struct rdma_cm_id *id, int event, int status, uint64_t argument);
int urxe_rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel);

#endif
