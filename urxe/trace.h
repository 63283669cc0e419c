/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * urxe trace: captures as tables, sequence diagrams and JSON. What the files urxe/trace*.c hand on
 * to each other, in this order:
 *
 *   trace_read     captures become records, which tshark dissects
 *   trace_faults   what faults did to them
 *   trace_flow     records become flows (what one QP is sent by one peer), flows conversations
 *   trace_match    records of both ends become transmissions: sent, received, or both
 *   trace_message  transmissions become messages; what was sent again, what was acknowledged when
 *   trace_row      transmissions become rows, folded; trace_fold folds equal messages further
 *   trace_table, trace_diagram, trace_svg, trace_json, trace_summary   rows become output;
 *                  trace_view has what these share
 *
 * One thread. Nothing is freed: the program ends when all is printed. Without memory it ends at
 * once (trace_grow()).
 */
#ifndef URXE_TRACE_H
#define URXE_TRACE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "net/descriptor.h"
#include "net/wire/wire.h"
#include "urxe/psn_list.h"

/* --- Records: the lines of captures ---------------------------------------------------- */

enum side { SIDE_UNKNOWN, SIDE_SENDER, SIDE_RECEIVER };

/* A message of the connection manager. */
struct cm {
	uint16_t attribute; /* enum cm_attribute */
	uint32_t local_id, remote_id;
	uint32_t qpn; /* REQ, REP: the sender's */
	uint32_t psn; /* REQ, REP: where it begins */
	unsigned int reason;
	char *service;
	unsigned int end; /* that sends it, of the connection's conversation; 0: it isn't known */
};

struct record {
	unsigned int file, number;	  /* the frame's number in its capture, from 1 */
	uint64_t time;			  /* ns since 1970 */
	enum side side;			  /* of the process, or card, that captured it */
	unsigned int source, destination; /* of trace.addresses */
	const struct opcode *op;
	uint8_t opcode;
	bool ack_request;
	uint8_t syndrome;
	uint32_t msn;
	uint32_t qpn;	     /* of the destination */
	uint32_t source_qpn; /* UD */
	uint32_t psn;
	uint32_t crc;
	uint32_t payload; /* bytes */
	uint32_t rkey, dma_length;
	uint64_t va;
	struct cm *cm;	   /* or NULL */
	const char *fault; /* what a fault did to it, or NULL */
	struct flow *flow;
};

/* --- Transmissions: packets on their way ----------------------------------------------- */

/*
 * One sending of a packet, as the sender's capture has it, the receiver's, or both. A packet that
 * is sent twice is two transmissions; one that the network duplicates is one, with two arrivals.
 */
struct transmission {
	const struct record *sent, *received; /* one may be NULL */
	const struct record *record;	      /* the one that there is: the sender's if both */
	uint64_t time;
	uint64_t psn;	  /* unwrapped: in the requester's PSN space, counted on beyond 24 bits */
	unsigned int end; /* of the conversation, that sends */
	struct message *message; /* that it is a packet of, or the response to */
	unsigned int arrivals;
	bool lost;	/* the receiver's capture doesn't have it, or a fault dropped it */
	bool overtaken; /* it arrived behind one that was sent later */
	bool resent;	/* the PSN was sent before */
	bool copied;	/* a fault at the sender made it of the one before */
};

/* --- Messages ------------------------------------------------------------------------- */

#define TIME_UNKNOWN UINT64_MAX

struct message {
	unsigned int flags;   /* enum opcode_flags of its packets */
	uint8_t opcode;	      /* of its first packet */
	uint64_t first, last; /* PSNs */
	bool complete;	      /* its last packet was seen */
	uint64_t bytes;
	uint64_t begin, acked; /* times; @acked may be TIME_UNKNOWN */
	struct row *row;       /* of its packets that were sent for the first time, or NULL */
	unsigned int resent;   /* packets sent again */
};

/* Which message each PSN of a flow is of. */
struct psn_map {
	struct psn_page *pages;
};

/* All that one QP is sent by one peer. */
struct flow {
	unsigned int source, destination;
	uint32_t qpn, source_qpn;
	uint8_t transport;  /* enum wire_transport */
	uint64_t first;	    /* time */
	unsigned int index; /* of trace.flows */
	unsigned int end;   /* the flow is conversation->flows[end], from ends[end] */
	struct conversation *conversation;
	uint64_t highest;	   /* the last PSN of a request, unwrapped; 0: there is none yet */
	struct psn_map requests;   /* of each PSN from the first to the last one sent */
	struct psn_map sent;	   /* of those that really were */
	struct psn_map responses;  /* sent, to the other end's requests */
	struct message **messages; /* by their first transmission */
	unsigned int message_count, acked_count;
};

/* --- Conversations: two QPs, or the connection managers of two addresses ---------------- */

struct end {
	unsigned int address;
	uint32_t qpn;  /* 0: not known */
	bool captured; /* there are records of this end */
};

struct totals {
	unsigned int messages, packets, lost, resent, naks, rnr_naks, duplicates;
	uint64_t bytes, pause;
};

struct conversation {
	uint8_t transport;
	struct end ends[2];
	struct flow *flows[2];	 /* by the end that sends; NULL: there is none */
	struct record **records; /* by time, with the messages that connected the two QPs */
	size_t record_count;
	struct transmission *transmissions; /* by time */
	size_t transmission_count;
	size_t lent; /* of @records, those that are shown with the connection that they made, too */
	struct row **rows; /* by time */
	size_t row_count;
	struct totals totals[2]; /* by the end that sends */
};

struct trace_file {
	const char *path;
	struct descriptor_identity identity;
	int64_t shift; /* of its clock, to be added: where captures are of two machines */
};

struct trace {
	struct trace_file *files;
	unsigned int file_count;
	char **addresses;
	unsigned int address_count;
	struct record *records; /* by time */
	size_t record_count;
	struct flow **flows; /* by their first record, as the next */
	unsigned int flow_count;
	struct conversation **conversations;
	unsigned int conversation_count;
	uint64_t start; /* the time of the first record */
	bool unfolded;	/* a row for each packet */
};

/* --- Rows: what is shown --------------------------------------------------------------- */

/* What became of some packets of a row: "lost", "dropped by drop#2/RC_SEND". */
struct mark {
	const char *text;
	struct psn_list psns;
};

enum row_kind {
	ROW_MESSAGE,
	ROW_RESENT,   /* packets of messages, or responses, that were sent before */
	ROW_RESPONSE, /* READ responses, answers to atomics */
	ROW_ACK,
	ROW_NAK,
	ROW_RNR_NAK,
	ROW_CM,
	ROW_CNP,
};

struct row {
	enum row_kind kind;
	unsigned int end; /* that sends */
	uint64_t time, until;
	const struct transmission *transmission; /* the first */
	const struct message *message;		 /* of all of them, or NULL */
	const struct row *cause; /* the NAK after which packets are sent again, or NULL */
	uint64_t silence;	 /* else: for how long there had been no packet */
	uint64_t bytes;
	unsigned int messages; /* that it stands for */
	unsigned int packets, lost, resent;
	bool repeated; /* by the connection manager */
	struct psn_list psns;
	struct mark *marks;
	unsigned int mark_count;
	char *what, *psn_text, *notes; /* as shown */
};

/* trace_text.c. These three end the program without memory. */
void *trace_allocate(size_t size);
/* Space for one more behind @count elements of @size bytes, which only this function grows. */
void *trace_grow(void *array, size_t count, size_t size);
/* As asprintf(). */
char *trace_text(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * trace_read.c: the records of the capture @path, unless it was read, behind those that there are
 */
void trace_read(struct trace *trace, const char *path);
/* trace_faults.c: what the file beside the capture says of records @first and on */
void trace_faults_read(struct trace *trace, const char *path, size_t first);

void trace_find_conversations(struct trace *trace);
void trace_match(struct trace *trace);
void trace_find_messages(struct conversation *conversation);
void trace_make_rows(const struct trace *trace, struct conversation *conversation);
/* trace_fold.c: runs of equal messages, of which each went well, become one row */
void trace_fold(struct conversation *conversation);

/* trace_text.c */
const char *trace_transport_name(uint8_t transport);
const char *trace_cm_name(unsigned int attribute);
const char *trace_nak_name(uint8_t syndrome);
char *trace_size(uint64_t bytes);  /* "1 MiB" */
char *trace_duration(uint64_t ns); /* "2.113 ms" */
char *trace_end(const struct trace *trace, const struct end *end);
const char *trace_message_name(unsigned int flags, uint8_t opcode);

/* What is shown: rows from time @from to time @to, relative to the first record. */
struct trace_view {
	uint64_t from, to;
	bool limited_to_qp;
	uint32_t qpn;
};

/* trace_view.c */
bool trace_shows(const struct trace_view *view, const struct conversation *conversation);
bool trace_shows_row(const struct trace *trace, const struct trace_view *view,
		     const struct row *row);
/* The row as the label of an arrow: "WRITE 1 MiB, PSN 100..355, 256 packets". */
char *trace_label(const struct row *row);
void trace_table(const struct trace *trace, const struct trace_view *view, FILE *out);
void trace_diagram(const struct trace *trace, const struct trace_view *view, FILE *out);
void trace_svg(const struct trace *trace, const struct trace_view *view, FILE *out);
void trace_json(const struct trace *trace, const struct trace_view *view, FILE *out);
void trace_summary(const struct trace *trace, const struct trace_view *view, FILE *out);

#endif
