/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The files of our devices, through each call of libc that takes a path; and what a process
 * removes that finds the files of dead ones.
 */
#include <check.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <net/if.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/run_suite.h"
#include "tests/verbs/fixture.h"

#define DEVICE "/sys/class/infiniband/urxe0"
#define PORT DEVICE "/ports/1"

START_TEST(attributes)
{
	char expected[64];
	unsigned int a, b, c, d;

	ck_assert_str_eq(file_content(PORT "/state"), "4: ACTIVE\n");
	ck_assert_str_eq(file_content(PORT "/phys_state"), "5: LinkUp\n");
	ck_assert_str_eq(file_content(PORT "/link_layer"), "Ethernet\n");
	ck_assert_str_eq(file_content(PORT "/pkeys/0"), "0xffff\n");
	ck_assert_str_eq(file_content(PORT "/gid_attrs/types/0"), "RoCE v2\n");
	ck_assert_str_eq(file_content(PORT "/gid_attrs/ndevs/0"), "lo\n");
	ck_assert_str_eq(file_content(DEVICE "/node_type"), "1: CA\n");
	ck_assert_str_eq(file_content(DEVICE "/device/numa_node"), "-1\n");
	ck_assert_int_eq(sscanf(fixture_address(), "%u.%u.%u.%u", &a, &b, &c, &d), 4);
	snprintf(expected, sizeof(expected), "0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x\n", a,
		 b, c, d);
	ck_assert_str_eq(file_content(PORT "/gids/0"), expected);
	ck_assert_int_eq(access(PORT "/gids/1", F_OK), -1);
	ck_assert_int_eq(access(DEVICE "/no_such_attribute", F_OK), -1);
}
END_TEST

/* sysfs and the verbs tell the same story. */
START_TEST(agrees_with_verbs)
{
	struct ibv_context *context = fixture_open();
	uint64_t guid = be64toh(ibv_get_device_guid(context->device));
	struct ibv_port_attr attr;
	char expected[64];

	ck_assert_str_eq(context->device->ibdev_path, DEVICE);
	ck_assert_str_eq(context->device->dev_name, "uverbs0");
	ck_assert_str_eq(context->device->dev_path, "/sys/class/infiniband_verbs/uverbs0");
	ck_assert_str_eq(file_content("/sys/class/infiniband_verbs/uverbs0/ibdev"), "urxe0\n");
	snprintf(expected, sizeof(expected), "%04x:%04x:%04x:%04x\n", (unsigned int)(guid >> 48),
		 (unsigned int)(guid >> 32) & 0xffff, (unsigned int)(guid >> 16) & 0xffff,
		 (unsigned int)guid & 0xffff);
	ck_assert_str_eq(file_content(DEVICE "/node_guid"), expected);
	ck_assert_int_eq(ibv_query_port(context, 1, &attr), 0);
	snprintf(expected, sizeof(expected), "0x%08x\n", attr.port_cap_flags);
	ck_assert_str_eq(file_content(PORT "/cap_mask"), expected);
	fixture_close(context);
}
END_TEST

START_TEST(counters_are_current)
{
	static struct pair pair;
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
	unsigned long before, after;

	pair_open(&pair, IBV_QPT_RC, 0);
	before = strtoul(file_content(PORT "/hw_counters/sent_pkts"), NULL, 10);
	post_receive(&pair, 1);
	ck_assert_int_eq(ibv_post_send(pair.sender, &wr, &bad), 0);
	wait_completion(pair.send_cq);
	after = strtoul(file_content(PORT "/hw_counters/sent_pkts"), NULL, 10);
	ck_assert_uint_ge(after, before + 2); /* the message and its acknowledgement */
	ck_assert_uint_gt(strtoul(file_content(PORT "/counters/port_xmit_packets"), NULL, 10), 0);
	pair_close(&pair);
}
END_TEST

static unsigned int asked; /* what the network device's name is */

__attribute__((visibility("default"))) char *if_indextoname(unsigned int index,
							    char name[IF_NAMESIZE])
{
	char *(*real)(unsigned int, char *) =
		(char *(*)(unsigned int, char *))dlsym(RTLD_NEXT, "if_indextoname");

	asked++;
	return real(index, name);
}

/* UCX reads the type of each entry that a table of GIDs may have: a thousand files. */
START_TEST(network_device_is_asked_for_what_it_says)
{
	char path[128];

	file_content(PORT "/state"); /* the first path makes all the files */
	asked = 0;
	for (unsigned int i = 0; i < 8; i++) {
		snprintf(path, sizeof(path), PORT "/gid_attrs/types/%u", i);
		ck_assert_int_eq(access(path, F_OK), i == 0 ? 0 : -1);
	}
	file_content(DEVICE "/node_guid");
	file_content(PORT "/hw_counters/sent_pkts");
	ck_assert_uint_eq(asked, 0);
	file_content(PORT "/state");
	ck_assert_uint_gt(asked, 0);
}
END_TEST

START_TEST(every_call)
{
	char text[PATH_MAX], *resolved;
	struct stat status;
	struct statx extended;
	int folder, fd;

	fd = open(PORT "/state", O_RDONLY);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(read(fd, text, 3), 3);
	close(fd);
	fd = openat(AT_FDCWD, PORT "//state", O_RDONLY);
	ck_assert_int_ge(fd, 0);
	close(fd);
	folder = open(PORT, O_RDONLY | O_DIRECTORY);
	ck_assert_int_ge(folder, 0);
	fd = openat(folder, "state", O_RDONLY);
	ck_assert_int_ge(fd, 0);
	close(fd);
	ck_assert_int_eq(fstatat(folder, PORT "/rate", &status, 0), 0);
	ck_assert(S_ISREG(status.st_mode));
	close(folder);
	ck_assert_int_eq(stat(DEVICE, &status), 0);
	ck_assert(S_ISDIR(status.st_mode));
	ck_assert_int_eq(lstat(PORT "/state", &status), 0);
	ck_assert_int_eq(statx(AT_FDCWD, DEVICE, 0, STATX_TYPE, &extended), 0);
	ck_assert_int_eq(access(DEVICE, R_OK), 0);
	ck_assert_int_eq(faccessat(AT_FDCWD, DEVICE, R_OK, 0), 0);
	ck_assert_int_eq(access("/sys/class/infiniband_verbs/uverbs0/ibdev", R_OK), 0);
	ck_assert_int_gt(readlink(DEVICE "/device/net/lo", text, sizeof(text)), 0);

	/* A path that is resolved stays one that the program may show, and open. */
	ck_assert_ptr_nonnull(realpath(PORT "/../1/state", text));
	ck_assert_str_eq(text, PORT "/state");
	resolved = canonicalize_file_name(PORT "/../1/state");
	ck_assert_ptr_nonnull(resolved);
	ck_assert_str_eq(resolved, PORT "/state");
	free(resolved);
}
END_TEST

/* For providers of rdma-core; no installed header has it. */
int ibv_read_sysfs_file(const char *directory, const char *file, char *buffer, size_t size);

START_TEST(a_line_for_providers)
{
	FILE *other = tmpfile();
	char text[32], name[16];

	ck_assert_int_eq(ibv_read_sysfs_file(PORT, "state", text, sizeof(text)), 9);
	ck_assert_str_eq(text, "4: ACTIVE");
	ck_assert_int_eq(ibv_read_sysfs_file(PORT, "state", text, 9), -1);
	ck_assert_int_eq(ibv_read_sysfs_file(PORT, "nothing", text, sizeof(text)), -1);

	ck_assert_ptr_nonnull(other);
	snprintf(name, sizeof(name), "%d", fileno(other));
	memset(text, 'x', sizeof(text));
	ck_assert_int_eq(ibv_read_sysfs_file("/proc/self/fd", name, text, sizeof(text)), 0);
	ck_assert(fputs("no newline", other) >= 0 && fflush(other) == 0);
	ck_assert_int_eq(ibv_read_sysfs_file("/proc/self/fd", name, text, sizeof(text)), 10);
	ck_assert_str_eq(text, "no newline");
	ck_assert_int_eq(ibv_read_sysfs_file("/proc/self/fd", name, text, 10), -1);
	fclose(other);
}
END_TEST

/* What _FORTIFY_SOURCE makes of a call whose flags or sizes the compiler doesn't know. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int folder, const char *path, int flags);
int __openat64_2(int folder, const char *path, int flags);
ssize_t __readlink_chk(const char *path, char *buffer, size_t size, size_t available);
ssize_t __readlinkat_chk(int folder, const char *path, char *buffer, size_t size, size_t available);
char *__realpath_chk(const char *path, char *resolved, size_t size);

static void check_opened(int fd)
{
	ck_assert_int_ge(fd, 0);
	close(fd);
}

START_TEST(fortified_calls)
{
	static const char link[] = DEVICE "/device/net/lo";
	char text[PATH_MAX];

	check_opened(__open_2(PORT "/state", O_RDONLY));
	check_opened(__open64_2(PORT "/state", O_RDONLY));
	check_opened(__openat_2(AT_FDCWD, PORT "/state", O_RDONLY));
	check_opened(__openat64_2(AT_FDCWD, PORT "/state", O_RDONLY));
	ck_assert_int_gt(__readlink_chk(link, text, sizeof(text), sizeof(text)), 0);
	ck_assert_int_gt(__readlinkat_chk(AT_FDCWD, link, text, sizeof(text), sizeof(text)), 0);
	ck_assert_ptr_nonnull(__realpath_chk(PORT "/../1/state", text, sizeof(text)));
	ck_assert_str_eq(text, PORT "/state");
}
END_TEST

START_TEST(character_device)
{
	struct stat status;

	/* UCX skips a device without it, PSM3 one whose name isn't the kernel's. */
	ck_assert_int_eq(stat("/dev/infiniband/uverbs0", &status), 0);
	ck_assert(S_ISCHR(status.st_mode));
	ck_assert_int_eq(access("/dev/infiniband/uverbs0", R_OK | W_OK), 0);
	ck_assert_int_eq(stat("/dev/infiniband/uverbs9", &status), -1);
	ck_assert_int_eq(errno, ENOENT);
}
END_TEST

static int only_ours(const struct dirent *entry)
{
	return strcmp(entry->d_name, "urxe0") == 0;
}

START_TEST(listing)
{
	DIR *directory = opendir("/sys/class/infiniband");
	struct dirent *entry, **list;
	int found = 0, others = 0;

	ck_assert_ptr_nonnull(directory);
	while ((entry = readdir(directory))) {
		if (only_ours(entry))
			found++;
		else if (entry->d_name[0] != '.')
			others++;
	}
	closedir(directory);
	ck_assert_int_eq(found, 1);
	ck_assert_int_eq(others, 0);
	ck_assert_int_eq(scandir("/sys/class/infiniband", &list, only_ours, NULL), 1);
	free(list[0]);
	free(list);
}
END_TEST

/* What cp copies is the file that lstat() was about. */
START_TEST(same_file)
{
	struct stat named, opened;
	int fd;

	ck_assert_int_eq(lstat(PORT "/rate", &named), 0);
	fd = open(PORT "/rate", O_RDONLY | O_NOFOLLOW);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fstat(fd, &opened), 0);
	close(fd);
	ck_assert_uint_eq(opened.st_ino, named.st_ino);
	ck_assert_uint_eq(opened.st_dev, named.st_dev);
}
END_TEST

/* What "ls -la" asks of a folder. */
START_TEST(dots)
{
	static const char *const paths[] = {
		"/sys/class/infiniband/.",	   "/sys/class/infiniband/..",
		"/sys/class/infiniband_verbs//..", "/dev/infiniband/.",
		"/sys/class/infiniband/urxe0/.",   PORT "/..",
	};
	struct stat status;

	for (unsigned int i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		ck_assert_msg(lstat(paths[i], &status) == 0, "%s: %s", paths[i], strerror(errno));
		ck_assert(S_ISDIR(status.st_mode));
	}
}
END_TEST

/* What a shell does with "cd /sys/class/infiniband; echo *", as the script ibstatus. */
START_TEST(working_directory)
{
	int home = open(".", O_RDONLY | O_DIRECTORY);
	struct dirent **list;

	ck_assert_int_ge(home, 0);
	ck_assert_int_eq(chdir("/sys/class/infiniband"), 0);
	ck_assert_int_eq(scandir(".", &list, only_ours, NULL), 1);
	free(list[0]);
	free(list);
	ck_assert_int_eq(access("urxe0/ports/1/state", R_OK), 0);
	ck_assert_int_eq(chdir(PORT), 0);
	ck_assert_int_eq(access("state", R_OK), 0);
	ck_assert_int_eq(fchdir(home), 0);
	close(home);
}
END_TEST

START_TEST(other_paths_are_untouched)
{
	char text[PATH_MAX];

	ck_assert_int_eq(access("/sys/class/infiniband/mlx5_99", F_OK), -1);
	ck_assert_int_eq(access("/sys/class/infiniband_other", F_OK), -1);
	ck_assert_int_eq(access("/sys/class/infiniband/urxe00", F_OK), -1);
	ck_assert_int_eq(open("", O_RDONLY), -1);
	ck_assert_ptr_nonnull(realpath("/proc/self/..", text));
	ck_assert_str_eq(text, "/proc");
	ck_assert_str_eq(file_content("/proc/self/comm"), "test_verbs_sysf\n");
}
END_TEST

/* --- what dead processes left ------------------------------------------------------------ */

static char folder[] = "/tmp/urxe-sysfs-XXXXXX";

static void setup_folder(void)
{
	ck_assert_ptr_nonnull(mkdtemp(folder));
	setenv("XDG_RUNTIME_DIR", folder, 1);
}

static void teardown_folder(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -rf %s", folder);
	ck_assert_int_eq(system(command), 0);
}

static const char *in_folder(const char *name)
{
	static char paths[8][PATH_MAX];
	static unsigned int next;
	char *path = paths[next++ % 8];

	snprintf(path, PATH_MAX, "%s/%s", folder, name);
	return path;
}

static void make_file(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	ck_assert_ptr_nonnull(file);
	fputs(text, file);
	fclose(file);
}

static bool is_there(const char *path)
{
	struct stat status;

	return lstat(path, &status) == 0;
}

/* The name of a process's files; "": there are none. */
static const char *find_files(void)
{
	static char name[64];
	DIR *directory = opendir(folder);
	struct dirent *entry;

	*name = '\0';
	while ((entry = readdir(directory))) {
		if (strncmp(entry->d_name, "urxe-", 5) == 0)
			snprintf(name, sizeof(name), "%.60s", entry->d_name);
	}
	closedir(directory);
	return name;
}

/* Those that a child has made, which is killed. */
static const char *abandon(void)
{
	const char *name;
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		file_content(PORT "/state");
		raise(SIGKILL);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFSIGNALED(status));
	name = find_files();
	ck_assert_str_ne(name, "");
	return name;
}

static void look_at_exit(void)
{
	if (access(PORT "/state", F_OK) != 0)
		_exit(1);
}

/* A handler that was registered before the files were made runs after those of then. */
START_TEST(files_are_removed_last)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		atexit(look_at_exit);
		file_content(PORT "/state");
		exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	ck_assert_str_eq(find_files(), "");
}
END_TEST

START_TEST(files_of_the_dead_are_removed)
{
	const char *name = abandon();

	ck_assert(is_there(in_folder(name)));
	file_content(PORT "/state");
	ck_assert(!is_there(in_folder(name)));
}
END_TEST

/* One whose files are in use stays, and is removed at its process's end. */
START_TEST(files_of_the_living_stay)
{
	int ready[2], status;
	char byte;
	pid_t pid;

	ck_assert_int_eq(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		close(ready[1]);
		file_content(PORT "/state");
		raise(SIGSTOP);
		file_content(PORT "/state");
		exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, WUNTRACED), pid);
	ck_assert(WIFSTOPPED(status));
	file_content(PORT "/state");
	ck_assert_int_eq(kill(pid, SIGCONT), 0);
	close(ready[1]);
	ck_assert_int_eq(read(ready[0], &byte, 1), 0);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
END_TEST

/* Directories that only look like ours, with a lock that nothing holds. */
START_TEST(what_is_not_ours_stays)
{
	static const char *const files[] = {"lock", "manifest", "precious", "sys/precious"};
	char name[64], path[128];

	snprintf(name, sizeof(name), "urxe-%u-backup", (unsigned int)geteuid());
	ck_assert_int_eq(mkdir(in_folder(name), 0700), 0);
	snprintf(path, sizeof(path), "%s/sys", name);
	ck_assert_int_eq(mkdir(in_folder(path), 0700), 0);
	for (unsigned int i = 0; i < sizeof(files) / sizeof(*files); i++) {
		snprintf(path, sizeof(path), "%s/%s", name, files[i]);
		make_file(in_folder(path), "/precious\n/sys/precious\n");
	}
	file_content(PORT "/state");
	for (unsigned int i = 0; i < sizeof(files) / sizeof(*files); i++) {
		snprintf(path, sizeof(path), "%s/%s", name, files[i]);
		ck_assert(is_there(in_folder(path)));
	}
}
END_TEST

/* In a dead process's files: one that it didn't make, links to elsewhere, a hostile list. */
START_TEST(removing_follows_nothing)
{
	const char *name = abandon();
	char path[256], away[256];
	FILE *manifest;

	snprintf(path, sizeof(path), "%s/precious", name);
	make_file(in_folder(path), "");
	make_file(in_folder("outside"), "");
	ck_assert_int_eq(mkdir(in_folder("elsewhere"), 0700), 0);
	make_file(in_folder("elsewhere/state"), "");
	snprintf(path, sizeof(path), "%s" PORT, name);
	snprintf(away, sizeof(away), "%s/moved", name);
	ck_assert_int_eq(rename(in_folder(path), in_folder(away)), 0);
	ck_assert_int_eq(symlink(in_folder("elsewhere"), in_folder(path)), 0);
	snprintf(path, sizeof(path), "%s/manifest", name);
	manifest = fopen(in_folder(path), "a");
	ck_assert_ptr_nonnull(manifest);
	fprintf(manifest, "/../outside\n/sys/../../outside\n%s\noutside\n\n", in_folder("outside"));
	fclose(manifest);

	file_content(PORT "/state");
	ck_assert(is_there(in_folder("outside")));
	ck_assert(is_there(in_folder("elsewhere/state")));
	snprintf(path, sizeof(path), "%s/precious", name);
	ck_assert(is_there(in_folder(path)));
	snprintf(path, sizeof(path), "%s/dev", name);
	ck_assert(!is_there(in_folder(path)));
}
END_TEST

int main(void)
{
	TCase *removing = tcase_create("removing");
	Suite *suite = suite_create("sysfs");
	TCase *tests = tcase_create("sysfs");

	fixture_environment();
	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, attributes);
	tcase_add_test(tests, agrees_with_verbs);
	tcase_add_test(tests, counters_are_current);
	tcase_add_test(tests, network_device_is_asked_for_what_it_says);
	tcase_add_test(tests, every_call);
	tcase_add_test(tests, a_line_for_providers);
	tcase_add_test(tests, fortified_calls);
	tcase_add_test(tests, character_device);
	tcase_add_test(tests, listing);
	tcase_add_test(tests, same_file);
	tcase_add_test(tests, dots);
	tcase_add_test(tests, working_directory);
	tcase_add_test(tests, other_paths_are_untouched);
	suite_add_tcase(suite, tests);
	tcase_set_timeout(removing, 60);
	tcase_add_checked_fixture(removing, setup_folder, teardown_folder);
	tcase_add_test(removing, files_are_removed_last);
	tcase_add_test(removing, files_of_the_dead_are_removed);
	tcase_add_test(removing, files_of_the_living_stay);
	tcase_add_test(removing, what_is_not_ours_stays);
	tcase_add_test(removing, removing_follows_nothing);
	suite_add_tcase(suite, removing);
	return run_suite(suite);
}
