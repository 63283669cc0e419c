/* SPDX-License-Identifier: BSD-2-Clause */
/* XRC domains: which opening gives which domain, and what keeps one from being closed. */
#include <errno.h>
#include <fcntl.h>

#include "core.h"
#include "emu/objects/xrcd.h"

static const struct descriptor_identity file = {1, 2}, other_inode = {1, 3}, other_device = {2, 2};

static struct xrcd *open_domain(const struct descriptor_identity *name, int oflags)
{
	struct xrcd *xrcd;

	ck_assert_int_eq(xrcd_open(&core, name, oflags, &xrcd), 0);
	return xrcd;
}

static void expect(const struct descriptor_identity *name, int oflags, int error)
{
	struct xrcd *xrcd;

	ck_assert_int_eq(xrcd_open(&core, name, oflags, &xrcd), error);
}

/* ibv_open_xrcd(3). */
START_TEST(existence)
{
	struct xrcd *first, *second;

	expect(&file, 0, EAGAIN);
	expect(&file, O_EXCL, EAGAIN);
	first = open_domain(&file, O_CREAT | O_EXCL);
	expect(&file, O_CREAT | O_EXCL, EINVAL);
	expect(&file, O_EXCL, EINVAL);
	second = open_domain(&file, 0);
	ck_assert(first->domain == second->domain);
	ck_assert_int_eq(xrcd_close(first), 0);
	expect(&file, O_CREAT | O_EXCL, EINVAL);
	first = open_domain(&file, O_CREAT);
	ck_assert(first->domain == second->domain);
	ck_assert_int_eq(xrcd_close(second), 0);
	ck_assert_int_eq(xrcd_close(first), 0);
	expect(&file, 0, EAGAIN);
}
END_TEST

START_TEST(domains_differ)
{
	const struct descriptor_identity *names[] = {&file, &other_inode, &other_device, NULL,
						     NULL};
	struct xrcd *xrcds[5];

	for (int i = 0; i < 5; i++)
		xrcds[i] = open_domain(names[i], O_CREAT | O_EXCL);
	for (int i = 0; i < 5; i++)
		for (int j = 0; j < 5; j++)
			ck_assert_int_eq(xrcds[i]->domain == xrcds[j]->domain, i == j);
	for (int i = 0; i < 5; i++)
		ck_assert_int_eq(xrcd_close(xrcds[i]), 0);
	expect(NULL, 0, EAGAIN);
}
END_TEST

/* Each handle has its own users. */
START_TEST(busy)
{
	struct xrcd *first = open_domain(&file, O_CREAT), *second = open_domain(&file, 0);

	users_add(&first->users, USER_QP, 1);
	ck_assert_int_eq(xrcd_close(first), EBUSY);
	ck_assert_int_eq(xrcd_close(second), 0);
	users_add(&first->users, USER_QP, -1);
	ck_assert_int_eq(xrcd_close(first), 0);
	ck_assert_ptr_null(core.xrc_domains);
}
END_TEST

/* It stays as long as it has one, though no handle of it is left. */
START_TEST(kept_by_a_queue_pair)
{
	struct xrcd *xrcd = open_domain(&file, O_CREAT);
	struct xrc_domain *domain = xrcd->domain;

	xrc_domain_get(&core, domain);
	ck_assert_int_eq(xrcd_close(xrcd), 0);
	xrcd = open_domain(&file, 0);
	ck_assert_ptr_eq(xrcd->domain, domain);
	ck_assert_int_eq(xrcd_close(xrcd), 0);
	xrc_domain_put(&core, domain);
	expect(&file, 0, EAGAIN);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {existence, domains_differ, busy, kept_by_a_queue_pair, NULL};

	return core_run("xrcd", tests);
}
