/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SOCK_DGRAM rsockets: a UDP socket, and a UD queue pair for each local address that they send from
 * or that peers know. Called by the other files of verbs/rsocket for those. The calls of sockets
 * take rs->lock themselves; open and destroy have the rsocket for themselves.
 */
#ifndef URXE_VERBS_RSOCKET_DATAGRAM_H
#define URXE_VERBS_RSOCKET_DATAGRAM_H

#include "verbs/rsocket/rsocket.h"

/*
 * Local addresses with a queue pair: a socket bound to none may be reached at all of a machine's.
 */
#define RSOCKET_ENDPOINTS (RSOCKET_DESCRIPTORS - 1)

/* Return 0 or an errno. */
int rsocket_datagram_open(struct rsocket *rs);
int rsocket_datagram_bind(struct rsocket *rs, const struct sockaddr *address, socklen_t length);
int rsocket_datagram_connect(struct rsocket *rs, const struct sockaddr *address, socklen_t length);
int rsocket_datagram_shutdown(struct rsocket *rs, int how);
void rsocket_datagram_destroy(struct rsocket *rs);

/* As sendmsg(2) and recvmsg(2): bytes, or -1 with errno. */
ssize_t rsocket_datagram_send(struct rsocket *rs, const struct msghdr *message, int flags);
ssize_t rsocket_datagram_receive(struct rsocket *rs, struct msghdr *message, int flags);

/* What rsocket_wait.c does for any rsocket, with rs->lock. */
bool rsocket_datagram_progress(struct rsocket *rs);
void rsocket_datagram_arm(struct rsocket *rs);
void rsocket_datagram_drain_events(struct rsocket *rs);
unsigned int rsocket_datagram_descriptors(const struct rsocket *rs, struct pollfd *fds);
short rsocket_datagram_events(const struct rsocket *rs, short events);

#endif
