/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Applications of the connection manager, for tests: nodes that listen and
 * answer each request in one way, and ids that connect and note what they hear.
 */
#ifndef URXE_TESTS_SIM_CALLER_H
#define URXE_TESTS_SIM_CALLER_H

#include "emu/cm/cm.h"
#include "world.h"

#define SERVICE UINT64_C(0x0000000001061d2f)
#define SERVICE_QKEY 0x01234567
#define CALLER_EVENTS 12

enum {
	REQUEST_RESOURCES = 3,
	REQUEST_DEPTH = 4,
	REQUEST_RETRY = 5,
	REQUEST_RNR_RETRY = 6,
	REPLY_RESOURCES = 2,
	REPLY_DEPTH = 1,
	REPLY_RNR_RETRY = 4,
};

enum answer {
	ANSWER_ACCEPT,
	ANSWER_REJECT,
	ANSWER_NOTHING,
	ANSWER_DESTROY,
};

/* One id, and what it has heard. */
struct caller {
	struct callers *callers;
	struct node *node;
	struct cm_id *id;
	uint32_t local_id, qpn;
	uint32_t peer; /* the other's comm id */
	bool passive, silent /* doesn't answer a DREQ */;
	int events[CALLER_EVENTS];
	unsigned int count;
	struct cm_message last;
	uint8_t data[CM_PRIVATE_MAX]; /* the last private data that wasn't empty */
	struct caller *next;
};

struct callers {
	struct world world;
	struct caller *head; /* utlist */
	enum answer answer;
	uint32_t qpn; /* the next one's */
	bool no_rtu;  /* REPs stay without an answer */
	struct cm_id *listeners[8];
	unsigned int listener_count;
};

/* Two nodes. */
void callers_create(struct callers *c, const struct sim_options *options, uint64_t seed);
/* Destroys what is left. */
void callers_destroy(struct callers *c);

struct cm_id *callers_listen(struct callers *c, unsigned int node, uint64_t service);
struct cm_id *callers_listen_datagram(struct callers *c, unsigned int node, uint64_t service);

/* A new id on node @from that asks for @service of node @to. */
struct caller *caller_connect(struct callers *c, unsigned int from, unsigned int to,
			      uint64_t service);
struct caller *caller_resolve(struct callers *c, unsigned int from, unsigned int to,
			      uint64_t service);
/* The request and the path that caller_connect() uses, without private data. */
struct cm_request caller_request(struct callers *c, unsigned int from, unsigned int to,
				 uint64_t service);
/* A new id on node @from that does nothing yet. */
struct caller *caller_create(struct callers *c, unsigned int node);

/* The caller at the other end, or NULL. */
struct caller *caller_peer(const struct caller *caller);

/* What @caller has heard is this; -1 at the end. */
void caller_expect(const struct caller *caller, const int *events);
bool caller_heard(const struct caller *caller, int event);

/* Destroy its id. */
void caller_destroy(struct caller *caller);

#endif
