/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Device profiles: each that is installed is what the device says it is, value by value, and what
 * can't be read is refused. tests/verbs/test_profile_limits.c has what is enforced.
 */
#include <check.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/sized.h"
#include "tests/must.h"
#include "tests/run_suite.h"
#include "tests/verbs/fixture.h"
#include "tests/verbs/profile_file.h"

static char names[PROFILE_FILES][64];
static unsigned int name_count;

/* --- what the device says ------------------------------------------------------------ */

struct answers {
	struct ibv_device_attr_ex device;
	struct ibv_port_attr port;
	int num_comp_vectors;
};

static void ask(struct answers *answers)
{
	struct ibv_context *context = fixture_open();

	must(ibv_query_device_ex(context, NULL, &answers->device) == 0);
	must(ibv_query_port(context, 1, &answers->port) == 0);
	answers->num_comp_vectors = context->num_comp_vectors;
	fixture_close(context);
}

/* A process reads its environment once: another one has no profile. */
static const struct answers *without_profile(void)
{
	struct answers *answers = mmap(NULL, sizeof(*answers), PROT_READ | PROT_WRITE,
				       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status;
	pid_t pid;

	ck_assert_ptr_ne(answers, MAP_FAILED);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		must(unsetenv("URXE_PROFILE") == 0);
		ask(answers);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	return answers;
}

enum sort {
	NUMBER,	   /* as the file says, or as much as there is of it */
	BITS,	   /* all that the file says */
	POSSIBLE,  /* those of the file that there are */
	BEHAVIOUR, /* nothing answers it */
};

#define FIELD(sort, key, member)                                                                   \
	{                                                                                          \
#key, sort, offsetof(struct answers, member),                                      \
			sizeof(((struct answers *)0)->member)                                      \
	}
#define DEVICE(sort, name) FIELD(sort, name, device.orig_attr.name)
#define PORT(sort, name) FIELD(sort, name, port.name)
#define SHOWS_ELSEWHERE(key)                                                                       \
	{                                                                                          \
#key, BEHAVIOUR                                                                    \
	}

static const struct question {
	const char *key;
	enum sort sort;
	size_t offset, size;
} questions[] = {
	DEVICE(NUMBER, max_mr_size),
	DEVICE(BITS, page_size_cap),
	DEVICE(NUMBER, vendor_id),
	DEVICE(NUMBER, vendor_part_id),
	DEVICE(NUMBER, hw_ver),
	DEVICE(NUMBER, max_qp),
	DEVICE(NUMBER, max_qp_wr),
	DEVICE(POSSIBLE, device_cap_flags),
	DEVICE(NUMBER, max_sge),
	DEVICE(NUMBER, max_sge_rd),
	DEVICE(NUMBER, max_cq),
	DEVICE(NUMBER, max_cqe),
	DEVICE(NUMBER, max_mr),
	DEVICE(NUMBER, max_pd),
	DEVICE(NUMBER, max_qp_rd_atom),
	DEVICE(NUMBER, max_ee_rd_atom),
	DEVICE(NUMBER, max_res_rd_atom),
	DEVICE(NUMBER, max_qp_init_rd_atom),
	DEVICE(NUMBER, max_ee_init_rd_atom),
	DEVICE(NUMBER, max_ee),
	DEVICE(NUMBER, max_rdd),
	DEVICE(NUMBER, max_mw),
	DEVICE(NUMBER, max_raw_ipv6_qp),
	DEVICE(NUMBER, max_raw_ethy_qp),
	DEVICE(NUMBER, max_mcast_grp),
	DEVICE(NUMBER, max_mcast_qp_attach),
	DEVICE(NUMBER, max_total_mcast_qp_attach),
	DEVICE(NUMBER, max_ah),
	DEVICE(NUMBER, max_fmr),
	DEVICE(NUMBER, max_map_per_fmr),
	DEVICE(NUMBER, max_srq),
	DEVICE(NUMBER, max_srq_wr),
	DEVICE(NUMBER, max_srq_sge),
	DEVICE(NUMBER, max_pkeys),
	DEVICE(NUMBER, local_ca_ack_delay),
	FIELD(BITS, completion_timestamp_mask, device.completion_timestamp_mask),
	FIELD(NUMBER, max_dm_size, device.max_dm_size),
	FIELD(NUMBER, max_cq_count, device.cq_mod_caps.max_cq_count),
	FIELD(NUMBER, max_cq_period, device.cq_mod_caps.max_cq_period),
	PORT(NUMBER, max_msg_sz),
	PORT(NUMBER, max_vl_num),
	PORT(NUMBER, subnet_timeout),
	PORT(NUMBER, lid),
	PORT(BITS, port_cap_flags),
	PORT(NUMBER, gid_tbl_len),
	/* Of their own tests. */
	SHOWS_ELSEWHERE(description),
	SHOWS_ELSEWHERE(fw_ver),
	SHOWS_ELSEWHERE(atomic_cap),
	SHOWS_ELSEWHERE(device_cap_flags_ex),
	SHOWS_ELSEWHERE(odp),
	SHOWS_ELSEWHERE(qp_types),
	SHOWS_ELSEWHERE(num_comp_vectors),
	SHOWS_ELSEWHERE(active_width),
	SHOWS_ELSEWHERE(active_speed),
	SHOWS_ELSEWHERE(max_inline_data),
	SHOWS_ELSEWHERE(create_flags),
	SHOWS_ELSEWHERE(retry_cnt_7),
	SHOWS_ELSEWHERE(ack_timeout_factor),
	SHOWS_ELSEWHERE(ack_timeout_least),
	SHOWS_ELSEWHERE(out_of_order),
	SHOWS_ELSEWHERE(round_max_wr),
	SHOWS_ELSEWHERE(round_cqe),
	SHOWS_ELSEWHERE(round_max_srq_wr),
	SHOWS_ELSEWHERE(round_max_inline_data),
	SHOWS_ELSEWHERE(sq_wqe_header),
	SHOWS_ELSEWHERE(sq_wqe_unit),
	SHOWS_ELSEWHERE(sq_wqe_bytes),
	SHOWS_ELSEWHERE(sq_bytes),
	SHOWS_ELSEWHERE(post_send_before_rts),
	SHOWS_ELSEWHERE(post_recv_in_reset),
	SHOWS_ELSEWHERE(check_ah_pd),
	SHOWS_ELSEWHERE(zero_length_checks_rkey),
	SHOWS_ELSEWHERE(atomic_alignment),
	SHOWS_ELSEWHERE(send_with_invalidate),
	SHOWS_ELSEWHERE(resize_cq),
	SHOWS_ELSEWHERE(grh_ipv4_first_20_bytes),
	SHOWS_ELSEWHERE(wc_sl),
};

static uint64_t answer(const struct answers *answers, const struct question *question)
{
	return sized_get((const char *)answers + question->offset, question->size);
}

static const struct answers *usual, *now;
static const char *profile;

static void compare(const char *key, const char *value)
{
	const struct question *question = questions;
	uint64_t wanted, got;

	while (strcmp(question->key, key) != 0) {
		question++;
		ck_assert_msg(question < questions + sizeof(questions) / sizeof(*questions),
			      "%s: nothing tests %s", profile, key);
	}
	if (question->sort == BEHAVIOUR)
		return;
	wanted = strtoull(value, NULL, 0);
	got = answer(now, question);
	if (question->sort == POSSIBLE)
		wanted &= answer(usual, question);
	else if (question->sort == NUMBER && wanted > got && got >= answer(usual, question))
		return; /* lowered, but not below what there is without a profile */
	ck_assert_msg(got == wanted, "%s: %s is %llu, not %s", profile, key,
		      (unsigned long long)got, value);
}

START_TEST(answers_are_the_profile)
{
	struct answers answers = {};
	const char *text;

	profile = names[_i];
	usual = without_profile();
	use_profile(profile);
	ask(&answers);
	now = &answers;
	profile_lines(profile, compare);

	text = profile_text(profile, "fw_ver");
	ck_assert_str_eq(answers.device.orig_attr.fw_ver,
			 text ? text : usual->device.orig_attr.fw_ver);
	text = profile_text(profile, "atomic_cap");
	ck_assert_int_eq(answers.device.orig_attr.atomic_cap,
			 text && strcmp(text, "none") == 0 ? IBV_ATOMIC_NONE : IBV_ATOMIC_HCA);
	text = profile_text(profile, "odp");
	ck_assert(!answers.device.odp_caps.general_caps == (text && strcmp(text, "no") == 0));
	text = profile_text(profile, "device_cap_flags_ex");
	ck_assert_uint_eq(answers.device.device_cap_flags_ex,
			  (text ? strtoull(text, NULL, 0) & usual->device.device_cap_flags_ex
				: usual->device.device_cap_flags_ex &
					   ~(uint64_t)usual->device.orig_attr.device_cap_flags) |
				  answers.device.orig_attr.device_cap_flags);
	text = profile_text(profile, "num_comp_vectors");
	ck_assert_int_eq(answers.num_comp_vectors,
			 text && atoi(text) ? atoi(text) : usual->num_comp_vectors);
}
END_TEST

/* --- what can't be read ----------------------------------------------------------------- */

static const struct {
	const char *text, *said;
} bad[] = {
	{"max_qp = 5\nmax_qpp = 5\n", ":2: there is no key \"max_qpp\""},
	{"# a comment\n\nmax_qp\n", ":3: \"max_qp\" isn't of the form key = value"},
	{"max_qp = \n", ":1: max_qp has no value"},
	{"max_qp = # 5\n", ":1: max_qp has no value"},
	{"max_qp = many\n", ":1: max_qp is \"many\", which is no number"},
	{"max_qp = 0x\n", ":1: max_qp is \"0x\", which is no number"},
	{"max_qp = -1\n", ":1: max_qp is \"-1\", which is no number"},
	{"max_qp = 5 6\n", ":1: max_qp is \"5 6\", which is no number"},
	{"max_qp = 99999999999999999999\n", "which is no number"},
	{"max_qp = 1\nmax_qp = 1\n", ":2: max_qp is given a second time"},
	{"atomic_cap = all\n", ":1: atomic_cap is \"all\", which isn't hca or none"},
	{"round_cqe = up\n", "which isn't power_of_two, power_of_two_less_1 or none"},
	{"ack_timeout_factor = 1.234\n", "which is no number such as 7 or 1.75"},
	{"ack_timeout_factor = .5\n", "which is no number such as 7 or 1.75"},
	{"fw_ver = 0123456789012345678901234567890123456789012345678901234567890123\n",
	 ":1: fw_ver has 64 characters, of at most 63"},
};

/* What is said of a file with @text, on stderr, in a process that finds no device. */
static void said_of(const char *path, char *said, size_t size)
{
	int ends[2], status, count = -1;
	size_t used = 0;
	ssize_t got;
	pid_t pid;

	ck_assert_int_eq(pipe(ends), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		must(dup2(ends[1], STDERR_FILENO) >= 0);
		must(setenv("URXE_PROFILE", path, 1) == 0);
		must(ibv_get_device_list(&count));
		must(count == 0);
		_exit(0);
	}
	close(ends[1]);
	while ((got = read(ends[0], said + used, size - 1 - used)) > 0)
		used += got;
	said[used] = '\0';
	close(ends[0]);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}

START_TEST(bad_file)
{
	char path[] = "/tmp/urxe-test-profile-XXXXXX", said[2048];
	int fd = mkstemp(path);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, bad[_i].text, strlen(bad[_i].text)), strlen(bad[_i].text));
	close(fd);
	said_of(path, said, sizeof(said));
	unlink(path);
	ck_assert_msg(strstr(said, path) && strstr(said, bad[_i].said), "%s", said);
}
END_TEST

START_TEST(no_file)
{
	char said[2048];

	said_of("/nonexistent/card.profile", said, sizeof(said));
	ck_assert_msg(strstr(said, "/nonexistent/card.profile: No such file"), "%s", said);
	said_of("card", said, sizeof(said));
	ck_assert_msg(strstr(said, "there is no profile \"card\"; there are "), "%s", said);
	for (unsigned int i = 0; i < name_count; i++)
		ck_assert_msg(strstr(said, names[i]), "%s isn't named: %s", names[i], said);
}
END_TEST

static void ck_attribute(const char *name, const char *expected)
{
	char path[256], text[256];
	FILE *file;

	snprintf(path, sizeof(path), "/sys/class/infiniband/urxe0/%s", name);
	file = fopen(path, "re");
	ck_assert_ptr_nonnull(file);
	ck_assert_ptr_nonnull(fgets(text, sizeof(text), file));
	ck_assert_str_eq(text, expected);
	fclose(file);
}

START_TEST(found_by_name)
{
	struct answers answers = {};

	ck_assert_int_eq(setenv("URXE_PROFILE", "rxe", 1), 0);
	ask(&answers);
	ck_assert_uint_eq(answers.port.max_msg_sz, profile_value("rxe", "max_msg_sz"));
	ck_attribute("hca_type", "rxe\n");
	ck_attribute("fw_ver", "0.0.0\n");
}
END_TEST

/* Each profile with each type: refused where the profile lacks it. */
START_TEST(types_of_queue_pairs)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};
	bool given = profile_text(names[_i], "qp_types");
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct ibv_context *context;
	struct ibv_pd *pd;

	use_profile(names[_i]);
	context = fixture_open();
	pd = ibv_alloc_pd(context);
	ck_assert_ptr_nonnull(pd);
	attr.send_cq = attr.recv_cq = ibv_create_cq(context, 2, NULL, NULL, 0);
	ck_assert_ptr_nonnull(attr.send_cq);
	for (unsigned int i = 0; i < sizeof(types) / sizeof(*types); i++) {
		bool has = !given || profile_value(names[_i], "qp_types") >> types[i] & 1;
		struct ibv_qp *qp;

		attr.qp_type = types[i];
		errno = 0;
		qp = ibv_create_qp(pd, &attr);
		ck_assert_msg(has == !!qp, "%s, type %d", names[_i], types[i]);
		if (qp)
			ck_assert_int_eq(ibv_destroy_qp(qp), 0);
		else
			ck_assert_int_eq(errno, EOPNOTSUPP);
	}
	ck_assert_int_eq(ibv_destroy_cq(attr.send_cq), 0);
	ck_assert_int_eq(ibv_dealloc_pd(pd), 0);
	fixture_close(context);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("profiles");
	TCase *tests = tcase_create("profiles");

	fixture_environment();
	name_count = profile_names(names);
	tcase_set_timeout(tests, 60);
	tcase_add_loop_test(tests, answers_are_the_profile, 0, name_count);
	tcase_add_loop_test(tests, types_of_queue_pairs, 0, name_count);
	tcase_add_loop_test(tests, bad_file, 0, sizeof(bad) / sizeof(*bad));
	tcase_add_test(tests, no_file);
	tcase_add_test(tests, found_by_name);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
