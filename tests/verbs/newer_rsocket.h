/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What rsockets have had since rdma-core 65, for tests that build with older headers, too: under
 * names of its own.
 */
#ifndef URXE_TESTS_NEWER_RSOCKET_H
#define URXE_TESTS_NEWER_RSOCKET_H

#include <sys/epoll.h>

int newer_repoll_create(int flags) __asm__("repoll_create");
int newer_repoll_ctl(int epfd, int operation, int fd,
		     struct epoll_event *event) __asm__("repoll_ctl");
int newer_repoll_wait(int epfd, struct epoll_event *events, int most,
		      int timeout) __asm__("repoll_wait");

#endif
