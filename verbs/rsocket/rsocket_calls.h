/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The functions of rdma/rsocket.h, as verbs/rdma/rdma_forward.c calls them: parameters, results and
 * errno as rsocket(7) and the pages of the socket calls have it. Any thread, any time.
 */
#ifndef URXE_VERBS_RSOCKET_CALLS_H
#define URXE_VERBS_RSOCKET_CALLS_H

#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

int urxe_rsocket(int domain, int type, int protocol);
int urxe_rbind(int socket, const struct sockaddr *address, socklen_t length);
int urxe_rlisten(int socket, int backlog);
int urxe_raccept(int socket, struct sockaddr *address, socklen_t *length);
int urxe_rconnect(int socket, const struct sockaddr *address, socklen_t length);
int urxe_rshutdown(int socket, int how);
int urxe_rclose(int socket);

ssize_t urxe_rrecv(int socket, void *buffer, size_t length, int flags);
ssize_t urxe_rrecvfrom(int socket, void *buffer, size_t length, int flags, struct sockaddr *source,
		       socklen_t *source_length);
ssize_t urxe_rrecvmsg(int socket, struct msghdr *message, int flags);
ssize_t urxe_rsend(int socket, const void *buffer, size_t length, int flags);
ssize_t urxe_rsendto(int socket, const void *buffer, size_t length, int flags,
		     const struct sockaddr *destination, socklen_t destination_length);
ssize_t urxe_rsendmsg(int socket, const struct msghdr *message, int flags);
ssize_t urxe_rread(int socket, void *buffer, size_t length);
ssize_t urxe_rreadv(int socket, const struct iovec *vectors, int count);
ssize_t urxe_rwrite(int socket, const void *buffer, size_t length);
ssize_t urxe_rwritev(int socket, const struct iovec *vectors, int count);

int urxe_rpoll(struct pollfd *fds, nfds_t count, int timeout);
int urxe_rselect(int count, fd_set *reading, fd_set *writing, fd_set *exceptional,
		 struct timeval *timeout);
int urxe_repoll_create(int flags);
int urxe_repoll_ctl(int epfd, int operation, int fd, struct epoll_event *event);
int urxe_repoll_wait(int epfd, struct epoll_event *events, int most, int timeout);

int urxe_rgetpeername(int socket, struct sockaddr *address, socklen_t *length);
int urxe_rgetsockname(int socket, struct sockaddr *address, socklen_t *length);
int urxe_rsetsockopt(int socket, int level, int name, const void *value, socklen_t length);
int urxe_rgetsockopt(int socket, int level, int name, void *value, socklen_t *length);
int urxe_rfcntl(int socket, int command, long argument);

off_t urxe_riomap(int socket, void *buffer, size_t length, int protection, int flags, off_t offset);
int urxe_riounmap(int socket, void *buffer, size_t length);
size_t urxe_riowrite(int socket, const void *buffer, size_t length, off_t offset, int flags);

#endif
