/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What cards do differently: where the specification leaves a choice, or where they depart from it.
 * A profile of a card (verbs/profile.h) says so; all zeros is what urxe does by itself. Each field
 * is read in the one place that has the rule. Constant while the HCA exists: no lock.
 */
#ifndef URXE_EMU_BEHAVIOUR_H
#define URXE_EMU_BEHAVIOUR_H

#include <stdbool.h>
#include <stdint.h>

/* What becomes of work that is posted in a state in which the QP can't take it. */
enum early_post {
	EARLY_POST_REFUSED, /* EINVAL (IBA 10.8.2) */
	EARLY_POST_HELD,    /* until the QP is in a state that executes it */
	EARLY_POST_DROPPED, /* silently */
};

/* How many entries a queue gets that was asked for some. */
enum rounding {
	ROUND_NONE,
	ROUND_POWER_OF_TWO,
	ROUND_POWER_OF_TWO_LESS_1, /* the ring has one more entry, which stays free */
};

/* How many bytes of inline data a QP gets that was asked for some. */
enum inline_rounding {
	INLINE_OF_SGES,	 /* what the SGEs of the work request have room for, at least */
	INLINE_AS_ASKED, /* no more */
	INLINE_OF_WQE,	 /* all that is left of the work queue entry */
};

/* Annex A17.4.3 has nothing to say of the 20 bytes before an IPv4 header. */
enum grh_bytes { GRH_ZERO, GRH_UNTOUCHED, GRH_FILLED };

enum send_with_invalidate {
	INVALIDATE_WORKS,
	INVALIDATE_REFUSED, /* at post, EINVAL */
	INVALIDATE_FAILS,   /* completes with IBV_WC_LOC_QP_OP_ERR, though the card offers it */
};

struct hca_behaviour {
	/* Retries. */
	bool retry_cnt_7_infinite;	 /* as rnr_retry 7 is by IBA 9.7.5.2.8 */
	uint16_t ack_timeout_hundredths; /* of the nominal time; 0: between one and four times */
	uint8_t ack_timeout_least;	 /* a smaller timeout, but for 0, counts as this one */

	/* IBA 9.7.5.2.3 lets a responder drop what arrives behind a lost request, or keep it. */
	bool drops_out_of_order;

	/* What is granted when a queue is created. */
	uint8_t round_max_wr, round_cqe, round_max_srq_wr; /* enum rounding */
	uint8_t round_max_inline_data;			   /* enum inline_rounding */

	/* A send queue is memory: bytes; 0: without limit. */
	uint32_t sq_wqe_header; /* of an entry, before its SGEs or inline data */
	uint32_t sq_wqe_unit;	/* an entry has a multiple of it */
	uint32_t sq_wqe_bytes;	/* of an entry, at most */
	uint32_t sq_bytes;	/* of a queue, at most */

	/* What is checked, and when. */
	uint8_t post_send_before_rts; /* enum early_post */
	uint8_t post_recv_in_reset;   /* likewise */
	bool ah_of_any_pd;	      /* the protection domain of an address handle isn't checked */
	bool zero_length_checks_rkey; /* of requests that transfer nothing (C9-88) */
	bool atomic_alignment_at_post;
	uint8_t send_with_invalidate; /* enum send_with_invalidate */
	bool no_cq_resize;

	/* What a receive of a datagram shows. */
	uint8_t grh_ipv4_first_20_bytes; /* enum grh_bytes */
	bool wc_sl_unset;		 /* it isn't the kind of header */
};

#endif
