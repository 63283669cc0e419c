/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Exchanges of the connection manager that take minutes, or that no peer of ours would begin: in
 * virtual time, with a core of the test's own (tests/sim/cm_peer.h). Each ends when what it is
 * about was reported.
 */
#ifndef URXE_TESTS_CM_EXCHANGES_H
#define URXE_TESTS_CM_EXCHANGES_H

void silent_peer(void);
void no_process_there(void);
void no_datagram_service_there(void);
void silent_after_reply(void);
void silent_after_disconnect(void);
void silent_service(void);
void slow_peer(void);
void slow_application(void);
void request_for_another_address(void);
void request_of_a_connected_qp(void);
void request_with_a_large_mtu(void);
void request_with_a_strange_alternate(void);
void refused_as_stale(void);
void refused_after_reply(void);
void refused_for_its_mtu(void);
void given_up_by_the_client(void);

#endif
