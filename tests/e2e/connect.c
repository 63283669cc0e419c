/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many connections, one after the other in each of several threads: each is
 * made, used for one message, and ended. Neither side may lose or keep one.
 *
 *   connect [-n CONNECTIONS] [-t THREADS] [-l] [-k] ADDRESS PORT
 *
 * -l: the server, which listens. -k: a process for each connection of the client, which is
 * killed when it has used it; the server must hear of the end all the same.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MESSAGE 64

static unsigned int connections = 1, threads = 1;
static char *port, *address;
static bool listens, killed;

static void check(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(EXIT_FAILURE);
}

static struct ibv_qp_init_attr queue_pair(void)
{
	return (struct ibv_qp_init_attr){
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};
}

static struct rdma_addrinfo *look_up(int flags)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP, .ai_flags = flags}, *info;

	check(rdma_getaddrinfo(address, port, &hints, &info) == 0, "rdma_getaddrinfo");
	return info;
}

/* --- the server ------------------------------------------------------------------ */

/* What the server keeps with an id. */
struct connection {
	struct ibv_mr *mr;
	char buffer[MESSAGE];
};

static void accept_one(struct rdma_cm_id *id)
{
	struct connection *connection = calloc(1, sizeof(*connection));
	struct ibv_qp_init_attr attr = queue_pair();

	check(connection, "calloc");
	id->context = connection;
	check(rdma_create_qp(id, NULL, &attr) == 0, "rdma_create_qp");
	connection->mr = rdma_reg_msgs(id, connection->buffer, MESSAGE);
	check(connection->mr, "rdma_reg_msgs");
	check(rdma_post_recv(id, NULL, connection->buffer, MESSAGE, connection->mr) == 0,
	      "rdma_post_recv");
	check(rdma_accept(id, NULL) == 0, "rdma_accept");
}

static void end_one(struct rdma_cm_id *id)
{
	struct connection *connection = id->context;
	struct ibv_wc wc;

	check(rdma_get_recv_comp(id, &wc) == 1, "rdma_get_recv_comp");
	check(wc.status == IBV_WC_SUCCESS && wc.byte_len == MESSAGE, "the message");
	check(rdma_disconnect(id) == 0, "rdma_disconnect");
	rdma_destroy_qp(id);
	rdma_dereg_mr(connection->mr);
	free(connection);
	check(rdma_destroy_id(id) == 0, "rdma_destroy_id");
}

static void serve(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_addrinfo *info = look_up(RAI_PASSIVE);
	unsigned int established = 0, ended = 0;
	struct rdma_cm_id *listener, *id;

	check(channel, "rdma_create_event_channel");
	check(rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) == 0, "rdma_create_id");
	check(rdma_bind_addr(listener, info->ai_src_addr) == 0, "rdma_bind_addr");
	check(rdma_listen(listener, 0) == 0, "rdma_listen");
	while (ended < connections) {
		struct rdma_cm_event *event;
		enum rdma_cm_event_type type;

		check(rdma_get_cm_event(channel, &event) == 0, "rdma_get_cm_event");
		id = event->id;
		type = event->event;
		check(event->status == 0, rdma_event_str(type));
		rdma_ack_cm_event(event);
		if (type == RDMA_CM_EVENT_CONNECT_REQUEST)
			accept_one(id);
		established += type == RDMA_CM_EVENT_ESTABLISHED;
		if (type == RDMA_CM_EVENT_DISCONNECTED) {
			end_one(id);
			ended++;
		}
	}
	printf("%u established, %u ended\n", established, ended);
	rdma_destroy_id(listener);
	rdma_destroy_event_channel(channel);
	rdma_freeaddrinfo(info);
}

/* --- the client ------------------------------------------------------------------ */

static void connect_once(struct rdma_addrinfo *info)
{
	struct ibv_qp_init_attr attr = queue_pair();
	char buffer[MESSAGE] = "a message";
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	struct ibv_wc wc;

	check(rdma_create_ep(&id, info, NULL, &attr) == 0, "rdma_create_ep");
	mr = rdma_reg_msgs(id, buffer, MESSAGE);
	check(mr, "rdma_reg_msgs");
	check(rdma_connect(id, NULL) == 0, "rdma_connect");
	check(rdma_post_send(id, NULL, buffer, MESSAGE, mr, 0) == 0, "rdma_post_send");
	check(rdma_get_send_comp(id, &wc) == 1, "rdma_get_send_comp");
	check(wc.status == IBV_WC_SUCCESS, ibv_wc_status_str(wc.status));
	if (killed)
		raise(SIGKILL);
	check(rdma_disconnect(id) == 0, "rdma_disconnect");
	rdma_dereg_mr(mr);
	rdma_destroy_ep(id);
}

static void connect_and_die(struct rdma_addrinfo *info)
{
	pid_t pid = fork();
	int status;

	check(pid >= 0, "fork");
	if (pid == 0)
		connect_once(info);
	check(waitpid(pid, &status, 0) == pid, "waitpid");
	check(WIFSIGNALED(status), "a process that was to be killed");
}

static void *connect_share(void *info)
{
	for (unsigned int i = 0; i < connections / threads; i++)
		killed ? connect_and_die(info) : connect_once(info);
	return NULL;
}

static void connect_all(void)
{
	struct rdma_addrinfo *info = look_up(0);
	pthread_t others[threads];
	struct timespec begin, end;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (unsigned int i = 0; i < threads; i++)
		check(pthread_create(&others[i], NULL, connect_share, info) == 0, "pthread_create");
	for (unsigned int i = 0; i < threads; i++)
		pthread_join(others[i], NULL);
	clock_gettime(CLOCK_MONOTONIC, &end);
	printf("%u connections, %.0f a second\n", connections,
	       connections / (end.tv_sec - begin.tv_sec + (end.tv_nsec - begin.tv_nsec) * 1e-9));
	rdma_freeaddrinfo(info);
}

int main(int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "n:t:lk")) != -1) {
		if (option == 'n')
			connections = atoi(optarg);
		else if (option == 't')
			threads = atoi(optarg);
		else if (option == 'l')
			listens = true;
		else if (option == 'k')
			killed = true;
		else
			return EXIT_FAILURE;
	}
	if (optind + 2 != argc || threads == 0 || connections % threads)
		return EXIT_FAILURE;
	address = argv[optind];
	port = argv[optind + 1];
	if (listens)
		serve();
	else
		connect_all();
	return EXIT_SUCCESS;
}
