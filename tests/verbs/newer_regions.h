/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Regions as libibverbs has had them since IBVERBS_1.15, for tests that build with older headers,
 * too: under names of its own.
 */
#ifndef URXE_TESTS_NEWER_REGIONS_H
#define URXE_TESTS_NEWER_REGIONS_H

#include "verbs/mr_ex.h"

struct ibv_mr *newer_reg_mr_ex(struct ibv_pd *pd,
			       struct mr_init_attr *attr) __asm__("ibv_reg_mr_ex");
void *newer_alloc_buf(struct ibv_pd *pd, size_t size, struct buf **buf) __asm__("ibv_alloc_buf");
void newer_free_buf(struct buf *buf) __asm__("ibv_free_buf");
int newer_export_buf_dmabuf_fd(struct buf *buf) __asm__("ibv_export_buf_dmabuf_fd");
struct ibv_mr *newer_reg_buf_mr(struct ibv_pd *pd, struct buf *buf, void *addr, size_t length,
				int access) __asm__("ibv_reg_buf_mr");

#endif
