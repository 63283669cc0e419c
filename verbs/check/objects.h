/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the checker knows of the application's objects: where each was made and destroyed, and what
 * it belongs to. An object is entered when the call that made it has succeeded, and stays known
 * when it is destroyed, as long as its memory is in quarantine (net/quarantine.h). Objects that
 * were made before the checker was on, and those of the library itself, aren't known: nothing is
 * said of them.
 *
 * Called by verbs/check/ only. objects.lock, a leaf, protects the table and all members of objects
 * that change; an object itself is kept by its references.
 */
#ifndef URXE_VERBS_CHECK_OBJECTS_H
#define URXE_VERBS_CHECK_OBJECTS_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <uthash.h>

#include "net/cause/origin.h"

enum object_kind {
	OBJECT_NONE,
	OBJECT_DEVICE_LIST,
	OBJECT_CONTEXT,
	OBJECT_PD, /* and parent domains */
	OBJECT_TD,
	OBJECT_MR,
	OBJECT_MW,
	OBJECT_DM,
	OBJECT_BUF,
	OBJECT_CHANNEL,
	OBJECT_CQ,
	OBJECT_SRQ,
	OBJECT_QP,
	OBJECT_AH,
	OBJECT_XRCD,
	OBJECT_CM_CHANNEL,
	OBJECT_CM_ID,
	OBJECT_CM_EVENT,
	OBJECT_CM_DEVICES, /* of rdma_get_devices() */
	OBJECT_ADDRINFO,
	OBJECT_KINDS
};

/* An object that a call is given, of the kind that it has to have. */
struct object_use {
	enum object_kind kind; /* OBJECT_NONE: the end of a list */
	const void *pointer;   /* NULL: none is given */
};

/* Events of an object that the application has got, and acknowledged. */
struct object_events {
	uint32_t taken, acked;
	struct origin *got; /* where the last was */
};

enum object_state {
	OBJECT_ALIVE,
	OBJECT_DESTROYED,
	OBJECT_INHERITED, /* this is a forked child: the object is its parent's */
};

#define OBJECT_OWNERS 6
#define OBJECT_NAME 96

struct object {
	const void *pointer; /* the application's */
	enum object_kind kind;
	enum object_state state;
	bool implicit; /* made by rdma_create_qp() and the like, and destroyed by its counterpart */
	bool told;     /* that it is left behind, or an event that wasn't acknowledged */
	_Atomic unsigned int references;
	char name[OBJECT_NAME]; /* "QP 0x1f01 (RC)" */
	struct origin *made, *destroyed;
	struct origin *refused; /* a call that was to destroy it, and failed with EBUSY */
	/* What it belongs to, referenced; the context first. */
	struct object *owners[OBJECT_OWNERS];
	unsigned int users, events; /* that are alive and belong to it: events of rdma_cm apart */
	struct object_events completion_events, async_events;
	UT_hash_handle hh; /* by pointer */
};

/* --- the table --------------------------------------------------------------------- */

/*
 * The application got @pointer from a call that made it, of what @owners say (a list, or NULL).
 * Returns @pointer; NULL does nothing.
 */
void *object_made(enum object_kind kind, void *pointer, const struct object_use *owners);
/* @pointer belongs to @owner, too; and was made with it. */
void object_join(const void *pointer, const void *owner, bool implicit);
/* @pointer belongs to @now instead of @before. */
void object_move(const void *pointer, const void *before, const void *now);
/* A call destroyed it. */
void object_destroyed(const void *pointer);
/* A call was to, and failed with EBUSY. */
void object_refused(const void *pointer);
/* It was freed, and its address may be another object's: what quarantine_enable() calls. */
void object_forget(const void *pointer);

/* It was reported, and isn't to be again when the process exits, or it is acknowledged late. */
void object_tell(struct object *object);

/* NULL: unknown. The caller puts the reference. */
struct object *object_get(const void *pointer);
void object_put(struct object *object);

/*
 * Call @visit for all objects that are alive, with objects.lock held: it may look, and take
 * references.
 */
void objects_visit(void (*visit)(void *argument, struct object *object), void *argument);
/* How many it would find that belong to @object: all but events of rdma_cm, and those. */
unsigned int object_users(const struct object *object);
unsigned int object_cm_events(const struct object *object);
/* Take a reference in @visit. */
struct object *object_reference(struct object *object);

/* objects.lock */
void objects_enter(void);
void objects_leave(void);
/* At exit: whether it can be taken (check_can_take()). */
bool objects_can_enter(void);
/* With it held. NULL: unknown. */
struct object *object_find(const void *pointer);
/* With it held, in a forked child: all are its parent's. */
void objects_inherit(void);

/* --- words ------------------------------------------------------------------------- */

/* "memory region" and "memory regions", "ibv_dereg_mr()". */
const char *object_kind_text(enum object_kind kind, unsigned int count);
const char *object_destroyer(enum object_kind kind);
/* "QP 0x1f01 (RC)" */
void object_describe(enum object_kind kind, const void *pointer, char name[OBJECT_NAME]);
/* Its context, or NULL. */
const struct ibv_context *object_context(enum object_kind kind, const void *pointer);

#endif
