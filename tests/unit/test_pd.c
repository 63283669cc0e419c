/* SPDX-License-Identifier: BSD-2-Clause */
/* Protection domains, address handles, and address vectors that become paths. */
#include <errno.h>

#include "core.h"

static struct gid_table gids;

static const union ibv_gid peer_v4 = {
	.raw = {[10] = 0xff, [11] = 0xff, [12] = 10, [13] = 1, [14] = 2, [15] = 3}};
static const union ibv_gid peer_v6 = {.raw = {0xfd, [15] = 9}};
static const union ibv_gid group_v6 = {.raw = {0xff, 0x0e, [15] = 9}};

static struct ibv_ah_attr vector_to(const union ibv_gid *peer)
{
	return (struct ibv_ah_attr){.is_global = 1,
				    .port_num = 1,
				    .grh = {.dgid = *peer,
					    .flow_label = 0xfff12345,
					    .traffic_class = 0x6a,
					    .hop_limit = 3}};
}

static int no_route;

static int answer_as_told(const struct gid_entry *source, const union ibv_gid *destination)
{
	return no_route;
}

static void begin(void)
{
	static const struct hca_host host = {.check_route = answer_as_told};

	no_route = 0;
	core.host = &host;
	ck_assert_int_eq(gid_table_init(&gids, "127.0.0.1"), 0);
	core.gids.tables[0] = &gids;
}

static void end(void)
{
	gid_table_destroy(&gids);
}

START_TEST(domains_are_counted)
{
	struct pd *pds[4], *pd;

	for (int i = 0; i < 4; i++)
		pds[i] = core_pd();
	ck_assert_int_eq(pd_alloc(&core, &pd), ENOMEM);
	users_add(&pds[0]->users, USER_QP, 1);
	ck_assert_int_eq(pd_dealloc(pds[0]), EBUSY);
	users_add(&pds[0]->users, USER_QP, -1);
	ck_assert_int_eq(pd_dealloc(pds[0]), 0);
	pds[0] = core_pd();
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(pd_dealloc(pds[i]), 0);
}
END_TEST

START_TEST(vectors_become_paths)
{
	struct ibv_ah_attr attr = vector_to(&peer_v4);
	struct gid_entry own;
	struct path path;

	begin();
	ck_assert_int_eq(gid_table_get(&gids, 0, &own), 0);
	ck_assert_int_eq(path_resolve(&core, &attr, &path), 0);
	ck_assert(gid_equal(&path.source, &own.gid));
	ck_assert(gid_equal(&path.destination, &peer_v4));
	ck_assert_uint_eq(path.flow_label, 0x12345);
	ck_assert_uint_eq(path.traffic_class, 0x6a);
	/* Linux replaces it for unicast. */
	ck_assert_uint_eq(path.hop_limit, 64);
	attr = vector_to(&group_v6);
	ck_assert_int_eq(path_resolve(&core, &attr, &path), 0);
	ck_assert_uint_eq(path.hop_limit, 3);
	end();
}
END_TEST

START_TEST(bad_vectors)
{
	struct pd *pd = core_pd();
	struct ibv_ah_attr attr;
	struct ah *ah;

	begin();
	attr = vector_to(&peer_v4);
	attr.port_num = 0;
	ck_assert_int_eq(ah_create(pd, &attr, &ah), EINVAL);
	attr.port_num = 2;
	ck_assert_int_eq(ah_create(pd, &attr, &ah), EINVAL);
	attr = vector_to(&peer_v4);
	attr.is_global = 0;
	ck_assert_int_eq(ah_create(pd, &attr, &ah), EINVAL);
	attr = vector_to(&peer_v4);
	attr.grh.sgid_index = 200;
	ck_assert_int_eq(ah_create(pd, &attr, &ah), ENODATA);
	/* The source is an IPv4 address. */
	attr = vector_to(&peer_v6);
	ck_assert_int_eq(ah_create(pd, &attr, &ah), EINVAL);
	no_route = ENETUNREACH;
	attr = vector_to(&peer_v4);
	ck_assert_int_eq(ah_create(pd, &attr, &ah), ENETUNREACH);
	/* A group needs none. */
	attr = vector_to(&group_v6);
	ck_assert_int_eq(ah_create(pd, &attr, &ah), 0);
	ah_destroy(ah);
	ck_assert_uint_eq(core.ah_count, 0);
	ck_assert_int_eq(pd_dealloc(pd), 0);
	end();
}
END_TEST

START_TEST(handles_use_their_domain)
{
	struct ibv_ah_attr attr = vector_to(&peer_v4);
	struct pd *pd = core_pd();
	struct ah *ahs[4], *ah;

	begin();
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(ah_create(pd, &attr, &ahs[i]), 0);
	ck_assert_int_eq(ah_create(pd, &attr, &ah), ENOMEM);
	ck_assert(gid_equal(&ahs[0]->path.destination, &peer_v4));
	ck_assert_int_eq(pd_dealloc(pd), EBUSY);
	for (int i = 0; i < 4; i++)
		ah_destroy(ahs[i]);
	ck_assert_int_eq(pd_dealloc(pd), 0);
	end();
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {domains_are_counted, vectors_become_paths, bad_vectors,
				      handles_use_their_domain, NULL};

	return core_run("pd", tests);
}
