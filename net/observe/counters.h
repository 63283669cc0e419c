/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the device counted, by the names of Linux rxe's hw_counters where it has
 * them, else of mlx5's; shown in sysfs and by urxe_counters(). Relaxed atomics, no lock.
 *
 * rxe's ack_deferred isn't here: it counts responses that wait for the completer's
 * task, and here each is completed as it arrives. send_err are packets that the
 * kernel refused to send, which sent_pkts lacks and sent_bytes includes.
 */
#ifndef URXE_NET_OBSERVE_COUNTERS_H
#define URXE_NET_OBSERVE_COUNTERS_H

#include <stdatomic.h>
#include <stdint.h>

#define COUNTERS(X)                                                                                \
	X(sent_pkts)                                                                               \
	X(rcvd_pkts)                                                                               \
	X(sent_bytes)                                                                              \
	X(rcvd_bytes)                                                                              \
	X(duplicate_request)                                                                       \
	X(out_of_seq_request)                                                                      \
	X(rcvd_rnr_err)                                                                            \
	X(send_rnr_err)                                                                            \
	X(rcvd_seq_err)                                                                            \
	X(retry_exceeded_err)                                                                      \
	X(retry_rnr_exceeded_err)                                                                  \
	X(completer_retry_err)                                                                     \
	X(send_err)                                                                                \
	X(rdma_sends)                                                                              \
	X(rdma_recvs)                                                                              \
	X(icrc_errors)                                                                             \
	X(malformed_packets)                                                                       \
	X(dropped_packets)                                                                         \
	X(bad_pkey)                                                                                \
	X(bad_qkey)                                                                                \
	X(retransmitted_pkts)                                                                      \
	X(timeouts)                                                                                \
	X(np_ecn_marked_roce_packets)                                                              \
	X(np_cnp_sent)                                                                             \
	X(rp_cnp_handled)

struct counters {
#define X(name) _Atomic uint64_t name;
	COUNTERS(X)
#undef X
};

/* What is counted by port, too. Of an HCA with one port it is what the HCA counted. */
#define PORT_COUNTERS(X)                                                                           \
	X(sent_pkts)                                                                               \
	X(rcvd_pkts)                                                                               \
	X(sent_bytes)                                                                              \
	X(rcvd_bytes)

struct port_counters {
#define X(name) _Atomic uint64_t name;
	PORT_COUNTERS(X)
#undef X
};

/* COUNT(hca, timeouts, 1) */
#define COUNT(hca, name, n) COUNT_IN((hca)->counters, name, n)
#define COUNT_IN(counters, name, n)                                                                \
	atomic_fetch_add_explicit(&(counters)->name, (n), memory_order_relaxed)

/* The same of one that a single thread at a time writes: without a locked instruction. */
#define COUNT_ALONE(hca, name, n) COUNT_ALONE_IN((hca)->counters, name, n)
#define COUNT_ALONE_IN(counters, name, n)                                                          \
	atomic_store_explicit(&(counters)->name,                                                   \
			      atomic_load_explicit(&(counters)->name, memory_order_relaxed) + (n), \
			      memory_order_relaxed)

#endif
