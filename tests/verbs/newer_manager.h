/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What librdmacm has had since rdma-core 60, for tests that build with older headers, too: under
 * names of its own.
 */
#ifndef URXE_TESTS_NEWER_MANAGER_H
#define URXE_TESTS_NEWER_MANAGER_H

#include <rdma/rdma_cma.h>
#include <stdint.h>

#define NEWER_EVENT_ADDRINFO_RESOLVED ((enum rdma_cm_event_type)16)
#define NEWER_EVENT_ADDRINFO_ERROR ((enum rdma_cm_event_type)17)
#define NEWER_EVENT_USER ((enum rdma_cm_event_type)18)
#define NEWER_EVENT_INTERNAL ((enum rdma_cm_event_type)19)

#ifndef RAI_SA
#define RAI_SA 0x10
#define RAI_DNS 0x20
#endif

int newer_write_cm_event(struct rdma_cm_id *id, int event, int status,
			 uint64_t argument) __asm__("rdma_write_cm_event");
int newer_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service,
			   const struct rdma_addrinfo *hints) __asm__("rdma_resolve_addrinfo");
int newer_query_addrinfo(struct rdma_cm_id *id,
			 struct rdma_addrinfo **info) __asm__("rdma_query_addrinfo");

#endif
