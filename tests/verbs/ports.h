/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A node whose ports are network devices of the test's own: urxe0, and urxe2 for the second port,
 * each one end of a veth pair. For tests of what becomes of ports when these change.
 */
#ifndef URXE_TESTS_PORTS_H
#define URXE_TESTS_PORTS_H

#include <infiniband/verbs.h>

#include "tests/said.h"
#include "tests/verbs/fixture.h"
#include "tests/verbs/namespace.h"

#define FIRST "10.99.0.1"
#define SECOND "10.99.0.3"
#define THIRD "fd99::1"
#define FOURTH "10.98.0.1" /* of the second port */

#define EVENT(type) (1u << (type))

/* With their addresses FIRST and FOURTH. */
void make_netdev(void);
void make_second_netdev(void);

/* Fixtures of a test case; what an earlier test left goes first. */
void port_setup(void);
void port_setup_two(void);

/* The next events, which have to be @types of the port @port_num, in any order. */
void expect_events_of(struct ibv_context *context, int port_num, unsigned int types);
void expect_events(struct ibv_context *context, unsigned int types);
void expect_no_event(struct ibv_context *context);

enum ibv_port_state state_of(struct ibv_context *context, uint8_t port_num);
struct ibv_port_attr port_attr(struct ibv_context *context);

/* Slot @index of the GID table has @address; NULL: it is empty. */
void expect_gid(struct ibv_context *context, unsigned int index, const char *address);

/* Errors are explained from now on, and notices are lines. */
void begin_reports(struct said *said);

/* Connect both queue pairs by the GID with the index @gid, whatever they were before, and write. */
void expect_traffic_by(struct pair *pair, unsigned int gid);

/* Datagrams of the sender of @pair. The first two return the status of the completion. */
enum ibv_wc_status send_by_ah(struct pair *pair, struct ibv_ah *ah, uint32_t qpn, uint32_t length,
			      uint32_t number);
enum ibv_wc_status send_datagram(struct pair *pair, struct ibv_ah_attr *attr, uint32_t qpn,
				 uint32_t length, uint32_t number);
/* From the address @index of a port; the sender is in RESET, before and after. */
void send_to_group(struct pair *pair, uint8_t port_num, uint8_t index, const union ibv_gid *group,
		   uint32_t number);
/* The receiver's next one has the immediate data @number. */
void expect_datagram(struct pair *pair, uint32_t number);

#endif
