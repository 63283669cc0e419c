/* SPDX-License-Identifier: BSD-2-Clause */
/* Which packets count as the peer's, over a link that says what the test tells it to. */
#include "core.h"
#include "emu/objects/qp.h"
#include "net/log.h"

static enum link_sender sender;
static unsigned int asked;

static enum link_sender fake_sender(struct link *link, const struct link_frame *frame)
{
	asked++;
	return sender;
}

static const struct link_ops fake_ops = {.sender = fake_sender};
static const struct link_ops ops_without_sender;
static struct link fake;
static struct qp qp;

static void setup(void)
{
	core_setup();
	log_set_level(LOG_ERROR);
	fake.ops = &fake_ops;
	core.link = &fake;
	qp = (struct qp){.hca = &core};
	asked = 0;
}

static void teardown(void)
{
	core_teardown();
}

/* What the caller asks before. */
static bool is_known(uint16_t port)
{
	return qp.source_port.any || qp.source_port.port == port;
}

static bool check(uint16_t port, enum link_sender found)
{
	struct link_frame frame = {.source_port = port};

	sender = found;
	return source_port_check(&qp, &qp.source_port, &frame);
}

START_TEST(peer_is_asked_for_once)
{
	ck_assert(!is_known(5000));
	ck_assert(check(5000, LINK_SENDER_NODE));
	ck_assert(is_known(5000));
	ck_assert(!is_known(5001));
	ck_assert_uint_eq(asked, 1);
}
END_TEST

START_TEST(other_users_never_count)
{
	ck_assert(!check(5001, LINK_SENDER_FOREIGN));
	ck_assert(check(5000, LINK_SENDER_NODE));
	ck_assert(!check(5001, LINK_SENDER_FOREIGN));
	ck_assert(is_known(5000));
}
END_TEST

/* What a peer that ended said last counts, and what poses as it does no more. */
START_TEST(gone_counts_until_one_is_known)
{
	ck_assert(check(5000, LINK_SENDER_GONE));
	ck_assert(!is_known(5000));
	ck_assert(check(5000, LINK_SENDER_NODE));
	ck_assert(!check(5001, LINK_SENDER_GONE));
	ck_assert(is_known(5000));
}
END_TEST

START_TEST(port_may_change)
{
	ck_assert(check(5000, LINK_SENDER_NODE));
	ck_assert(check(5001, LINK_SENDER_NODE));
	ck_assert(is_known(5001));
}
END_TEST

START_TEST(elsewhere_any_port_counts)
{
	ck_assert(check(5000, LINK_SENDER_UNKNOWN));
	ck_assert(is_known(5000));
	ck_assert(is_known(5001));
}
END_TEST

START_TEST(unknown_later_forgets_nothing)
{
	ck_assert(check(5000, LINK_SENDER_NODE));
	ck_assert(check(5001, LINK_SENDER_UNKNOWN));
	ck_assert(!is_known(5001));
}
END_TEST

START_TEST(links_that_cannot_say)
{
	fake.ops = &ops_without_sender;
	ck_assert(check(5000, LINK_SENDER_FOREIGN));
	ck_assert(is_known(5001));
	ck_assert_uint_eq(asked, 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("source_port");
	TCase *tests = tcase_create("source_port");

	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_add_test(tests, peer_is_asked_for_once);
	tcase_add_test(tests, other_users_never_count);
	tcase_add_test(tests, gone_counts_until_one_is_known);
	tcase_add_test(tests, port_may_change);
	tcase_add_test(tests, elsewhere_any_port_counts);
	tcase_add_test(tests, unknown_later_forgets_nothing);
	tcase_add_test(tests, links_that_cannot_say);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
