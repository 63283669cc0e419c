/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rsockets of this process, for the tests of them. What fails here ends the test. Any thread.
 */
#ifndef URXE_TESTS_RSOCKETS_H
#define URXE_TESTS_RSOCKETS_H

#include <check.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <stdint.h>
#include <sys/types.h>

#include "tests/verbs/fails.h"
#include "tests/verbs/manager.h"

/* How long what has to happen may take, ms: reached by a hang alone. */
#define PATIENCE 60000

/* Of an address of this node, and of its length. */
socklen_t address_length(const struct sockaddr *address);

int open_stream(void);
/* Options that are numbers. */
int get_int(int fd, int level, int name);
int set_int(int fd, int level, int name, int value);
/* Of SOCK_STREAM or SOCK_DGRAM, at this node, at a port of the system's choice: *@port. */
int open_bound(int type, uint16_t *port);
/* A listener at this node, at a port of the system's choice: *@port. */
int open_listener(uint16_t *port);
/* Until rpoll() says so of @fd alone; what it says. */
short wait_for(int fd, short events);
/* A blocking stream that @listener accepted, and its peer. Options of @client may be set before. */
void connect_to(int listener, uint16_t port, int client, int *server);
/* The two ends of a connection, by a listener that is closed again. */
void open_streams(int *client, int *server);

/* A bound SOCK_DGRAM, whose address is *@name. */
int open_bound_datagrams(struct sockaddr_in *name);
ssize_t send_to(int fd, const struct sockaddr_in *to, const void *data, size_t length);
/* The next datagram of @fd, which has to be of @from. */
ssize_t receive_from(int fd, const struct sockaddr_in *from, void *data, size_t length);

/*
 * A thread that calls @call, which begins by writing its number to @tid, 0 before, and sleeps: with
 * no descriptor by which another thread could wake it.
 */
pthread_t start_unwoken(void *(*call)(void *), void *argument, const _Atomic pid_t *tid);

/* A byte each way, behind which is nothing that the connection's beginning has sent. */
void settle(int client, int server);
void send_all(int fd, const void *data, size_t length);
/* Exactly so many bytes. */
void receive_all(int fd, void *data, size_t length);
/* @length bytes that follow from @seed. */
void fill(uint8_t *data, size_t length, unsigned int seed);
void check_filled(const uint8_t *data, size_t length, unsigned int seed);

/* The rest of main(): @count tests, each between @setup and @teardown, if there are any. */
int run_rsocket_tests(const char *name, void (*setup)(void), void (*teardown)(void),
		      const TTest *const *all, size_t count);

#endif
