/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RDMA WRITEs over several queue pairs by several threads, which perftest
 * doesn't do. The client prints MiB/s of all together.
 *
 *   flows -p PORT [-q QPS] [-t THREADS] [-s BYTES] [-n WRITES] [HOST]
 *
 * Each thread has a CQ of its own, and its share of the queue pairs, each of
 * which carries WRITES writes. With HOST it is the client.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rc.h"

#define QPS_MAX 64
#define DEPTH 16

struct thread {
	pthread_t id;
	struct ibv_cq *cq;
	unsigned int first, count; /* of the queue pairs */
};

static struct {
	unsigned int qps, threads, bytes, writes;
	int port;
	const char *host;
} options = {.qps = 1, .threads = 1, .bytes = 1 << 20, .writes = 1000};

static struct rc_device device;
static struct ibv_qp *qps[QPS_MAX];
static struct rc_end local[QPS_MAX], remote[QPS_MAX];
static struct thread threads[QPS_MAX];
static struct ibv_mr *mr;
static uint8_t *memory;
static pthread_barrier_t start;

/* --- out of band ------------------------------------------------------------------ */

static int meet(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(options.port)};
	int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1, listener;

	CHECK(fd >= 0);
	if (options.host) {
		CHECK(inet_pton(AF_INET, options.host, &address.sin_addr) == 1);
		CHECK(connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
		return fd;
	}
	listener = fd;
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	CHECK(bind(listener, (struct sockaddr *)&address, sizeof(address)) == 0);
	CHECK(listen(listener, 1) == 0);
	fd = accept(listener, NULL, NULL);
	CHECK(fd >= 0);
	close(listener);
	return fd;
}

static void exchange(int fd, const void *mine, void *theirs, size_t length)
{
	CHECK(send(fd, mine, length, 0) == (ssize_t)length);
	CHECK(recv(fd, theirs, length, MSG_WAITALL) == (ssize_t)length);
}

/* --- the client ------------------------------------------------------------------- */

static void post(unsigned int number)
{
	struct ibv_sge sge = {local[number].address, options.bytes, mr->lkey};

	rc_post(qps[number], IBV_WR_RDMA_WRITE, number, &sge, remote[number].address,
		remote[number].rkey);
}

static void *write_all(void *argument)
{
	struct thread *thread = argument;
	unsigned int left[QPS_MAX], open = thread->count * options.writes;
	struct ibv_wc wc[16];

	pthread_barrier_wait(&start);
	for (unsigned int i = 0; i < thread->count; i++) {
		left[thread->first + i] = options.writes;
		for (unsigned int n = 0; n < DEPTH && left[thread->first + i]; n++) {
			post(thread->first + i);
			left[thread->first + i]--;
		}
	}
	while (open) {
		int done = rc_poll(thread->cq, wc, 16);

		for (int i = 0; i < done; i++) {
			open--;
			if (!left[wc[i].wr_id])
				continue;
			left[wc[i].wr_id]--;
			post(wc[i].wr_id);
		}
	}
	return NULL;
}

static void be_client(void)
{
	uint64_t begin, total = (uint64_t)options.qps * options.writes * options.bytes;

	CHECK(pthread_barrier_init(&start, NULL, options.threads + 1) == 0);
	for (unsigned int i = 0; i < options.threads; i++)
		CHECK(pthread_create(&threads[i].id, NULL, write_all, &threads[i]) == 0);
	pthread_barrier_wait(&start);
	begin = rc_now();
	for (unsigned int i = 0; i < options.threads; i++)
		CHECK(pthread_join(threads[i].id, NULL) == 0);
	printf("%.1f\n", total / 1048576.0 / ((rc_now() - begin) / 1e9));
}

/* --- both ------------------------------------------------------------------------- */

static void create(void)
{
	size_t length = (size_t)options.bytes * options.qps;
	unsigned int share = options.qps / options.threads;

	rc_open(&device);
	memory = aligned_alloc(4096, (length + 4095) & ~4095ull);
	CHECK(memory);
	memset(memory, 1, length);
	mr = rc_register(&device, memory, length);
	for (unsigned int t = 0; t < options.threads; t++) {
		threads[t].cq = ibv_create_cq(device.context, share * DEPTH, NULL, NULL, 0);
		CHECK(threads[t].cq);
		threads[t].first = t * share;
		threads[t].count = share;
	}
	for (unsigned int i = 0; i < options.qps; i++) {
		struct ibv_cq *cq = threads[i / share].cq;

		qps[i] = rc_create(&device, cq, cq, DEPTH, 1);
		rc_init(qps[i]);
		local[i] =
			(struct rc_end){.gid = device.gid,
					.qpn = qps[i]->qp_num,
					.rkey = mr->rkey,
					.address = (uintptr_t)memory + (uint64_t)i * options.bytes};
	}
}

static void destroy(void)
{
	for (unsigned int i = 0; i < options.qps; i++)
		CHECK(ibv_destroy_qp(qps[i]) == 0);
	for (unsigned int t = 0; t < options.threads; t++)
		CHECK(ibv_destroy_cq(threads[t].cq) == 0);
	CHECK(ibv_dereg_mr(mr) == 0);
	rc_close(&device);
	free(memory);
}

static void parse(int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "p:q:t:s:n:")) != -1) {
		if (option == 'p')
			options.port = atoi(optarg);
		else if (option == 'q')
			options.qps = atoi(optarg);
		else if (option == 't')
			options.threads = atoi(optarg);
		else if (option == 's')
			options.bytes = atoi(optarg);
		else if (option == 'n')
			options.writes = atoi(optarg);
		else
			exit(2);
	}
	options.host = argv[optind];
	CHECK(options.threads >= 1 && options.qps <= QPS_MAX && options.bytes && options.writes);
	CHECK(options.qps >= options.threads && options.qps % options.threads == 0);
}

int main(int argc, char **argv)
{
	char here = 1, there;
	int fd;

	parse(argc, argv);
	create();
	fd = meet();
	exchange(fd, local, remote, sizeof(local));
	for (unsigned int i = 0; i < options.qps; i++)
		rc_connect(qps[i], &remote[i].gid, remote[i].qpn);
	exchange(fd, &here, &there, 1);
	if (options.host)
		be_client();
	exchange(fd, &here, &there, 1); /* the server sleeps here */
	destroy();
	close(fd);
	return 0;
}
