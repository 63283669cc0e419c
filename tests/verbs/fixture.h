/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A device on an address of this process's own, and two connected queue pairs
 * on it, for the tests of the verbs layer. They are linked with liburxe and
 * nothing of rdma-core.
 */
#ifndef URXE_TESTS_FIXTURE_H
#define URXE_TESTS_FIXTURE_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

#define BUFFER_SIZE 4096
#define DEPTH 16
#define FIXTURE_QKEY 0x1ee7 /* of datagram QPs */

/* Sets URXE_NODE. To be called before anything lists devices. */
void fixture_environment(void);
const char *fixture_address(void);
/*
 * The same, with ::1 if there can be one of our own: in a network namespace. A process that shares
 * an address may end with what it has received for us. In a test, before there are threads.
 */
bool fixture_environment_both(void);

/* Open and close the device; what fails ends the test. */
struct ibv_context *fixture_open(void);
void fixture_close(struct ibv_context *context);

/* Of a child that exits, when it has. */
int exit_status(pid_t child);

/* The first 255 bytes of a file that has to be there, until the next call. */
const char *file_content(const char *path);

/* From now on nothing can be opened. Returns the limit before. */
struct rlimit allow_no_descriptors(void);

/*
 * Until the thread whose number another thread writes to @tid, 0 before, sleeps: in the call that
 * it makes next, if it has nothing else to sleep in.
 */
void wait_until_asleep(const _Atomic pid_t *tid);

struct pair {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_comp_channel *channel;
	struct ibv_cq *send_cq, *recv_cq; /* recv_cq has the channel */
	struct ibv_qp *sender, *receiver;
	uint8_t buffer[2 * BUFFER_SIZE];
};

/* @send_ops_flags: for ibv_create_qp_ex(), or 0 for plain queue pairs. In state RTS. */
void pair_open(struct pair *pair, enum ibv_qp_type type, uint64_t send_ops_flags);
void pair_close(struct pair *pair);
/* Move @qp to RTS, connected to @peer unless it is UD. */
void connect_qp(struct ibv_qp *qp, struct ibv_qp *peer);
/* The same between addresses that aren't GID 0, or not the first port's. */
void connect_qp_by(struct ibv_qp *qp, struct ibv_qp *peer, unsigned int gid_index);
void connect_qp_on(struct ibv_qp *qp, struct ibv_qp *peer, uint8_t port_num,
		   unsigned int gid_index);
/* Move both queue pairs through RESET to RTS on the port @port_num. */
void pair_move(struct pair *pair, uint8_t port_num);

/* 64 bytes from the beginning of the buffer to its second half, signaled. As ibv_post_send(). */
int post_write(struct pair *pair, uint64_t wr_id);
void post_receive(struct pair *pair, uint64_t wr_id);
/* Wait for one completion. */
struct ibv_wc wait_completion(struct ibv_cq *cq);
struct ibv_sge send_sge(struct pair *pair, uint32_t length);

#endif
