/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A node whose connection manager talks to the test itself, message by message:
 * what a well-behaved peer never sends can be sent, and everything that the
 * node says can be seen. Events of the node are noted.
 */
#ifndef URXE_TESTS_SIM_CM_PEER_H
#define URXE_TESTS_SIM_CM_PEER_H

#include "emu/cm/cm.h"
#include "peer.h"

#define CM_PEER_SERVICE UINT64_C(0x0000000001061d2f)
#define CM_PEER_GUID UINT64_C(0x0211223344556677)
#define CM_PEER_ID 0xc0000001
#define CM_PEER_EVENTS 16

struct cm_peer_test {
	struct peer peer;
	struct cm *cm;
	struct cm_id *id;	 /* of the node: the active one, or that the last request made */
	struct cm_message heard; /* the last message that the node sent */
	uint8_t mad[MAD_LENGTH]; /* its bytes */
	int events[CM_PEER_EVENTS];
	unsigned int count;
	struct cm_event last;
	struct cm_id *listener;
};

void cm_peer_create(struct cm_peer_test *t);
void cm_peer_destroy(struct cm_peer_test *t);
uint64_t cm_peer_now(const struct cm_peer_test *t);

/* Listen for CM_PEER_SERVICE. */
void cm_peer_listen(struct cm_peer_test *t, bool datagram);

/* A REQ as the test's side sends it; CM_PEER_SERVICE, QP PEER_QPN. */
struct cm_message cm_peer_req(const struct cm_peer_test *t);
/* A message with the comm ids of both. */
struct cm_message cm_peer_message(const struct cm_peer_test *t, uint16_t attribute);
/* Send it. */
void cm_peer_post(struct cm_peer_test *t, const struct cm_message *message);
/* Send it and let it take effect. */
void cm_peer_say(struct cm_peer_test *t, const struct cm_message *message);
/* The next message of the node must be of this kind; it comes within a moment. */
const struct cm_message *cm_peer_hear(struct cm_peer_test *t, uint16_t attribute);
/* The same, within @limit; returns when it came. */
uint64_t cm_peer_await(struct cm_peer_test *t, uint16_t attribute, uint64_t limit);
void cm_peer_hear_nothing(struct cm_peer_test *t, uint64_t limit);

/* The next event that hasn't been looked at must be this one, and the only one; -1: none. */
void cm_peer_event(struct cm_peer_test *t, int event);

/* The node's id connects, or is connected to, and what that took is forgotten. */
void cm_peer_active(struct cm_peer_test *t, enum cm_state state);
void cm_peer_passive(struct cm_peer_test *t, enum cm_state state);

#endif
