/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One run: the peer if there is one, the program, and their end. Each is a process group of its own
 * and ours to reap with all that they start, so nothing of a run is there in the next one.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/clock.h"
#include "urxe/command.h"
#include "urxe/fuzz.h"
#include "urxe/launch.h"

#define READY_SECONDS 5	  /* for a peer to listen; then the program is started anyway */
#define READY_MS 5	  /* between two looks whether it does */
#define GRACE_SECONDS 0.2 /* for a peer to end by itself */

static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

/* Those that end us, and SIGCHLD: blocked, they wait for sigtimedwait(). */
static void fill_signals(sigset_t *signals)
{
	sigemptyset(signals);
	sigaddset(signals, SIGCHLD);
	for (unsigned int i = 0; i < sizeof(ending) / sizeof(*ending); i++)
		sigaddset(signals, ending[i]);
}

void fuzz_run_begin(void)
{
	const struct sigaction usual = {.sa_handler = SIG_DFL};
	sigset_t signals;

	fill_signals(&signals);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	/* While it is ignored, as a parent may have left it, the kernel keeps no child's status. */
	sigaction(SIGCHLD, &usual, NULL);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
}

int fuzz_crash_signal(int status)
{
	static const int crashes[] = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};

	if (WIFSIGNALED(status))
		return WTERMSIG(status);
	for (unsigned int i = 0; i < sizeof(crashes) / sizeof(*crashes); i++) {
		if (WEXITSTATUS(status) == 128 + crashes[i])
			return crashes[i];
	}
	return 0;
}

const char *fuzz_variable(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

void fuzz_set_variable(const char *name, const char *value)
{
	if ((value ? setenv(name, value, 1) : unsetenv(name)) != 0)
		die("out of memory");
}

/* --- starting ----------------------------------------------------------------------------- */

struct start {
	char **argv;
	const char *node, *devices; /* one of them is NULL */
	const char *faults, *session;
	const char *counts; /* a file, or NULL */
	const char *check;
	const char *output;
};

static _Noreturn void become(const struct fuzz *fuzz, const struct start *start)
{
	static const struct rlimit no_core = {};
	int output = open(start->output, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	int input = open("/dev/null", O_RDONLY | O_CLOEXEC);
	sigset_t none;

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setrlimit(RLIMIT_CORE, &no_core);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (output < 0 || input < 0)
		die("%s: %s", start->output, strerror(errno));
	dup2(input, STDIN_FILENO);
	dup2(output, STDOUT_FILENO);
	dup2(output, STDERR_FILENO);
	fuzz_set_variable("URXE_NODE", start->node);
	fuzz_set_variable("URXE_DEVICES", start->devices);
	fuzz_set_variable("URXE_FAULTS", start->faults);
	fuzz_set_variable("URXE_STAT", start->session);
	fuzz_set_variable("URXE_CALLS", start->counts);
	fuzz_set_variable("URXE_CHECK", start->check);
	launch_checked(start->argv, fuzz->library);
}

static pid_t start(const struct fuzz *fuzz, const struct start *start)
{
	pid_t pid = fork();

	if (pid < 0)
		die("can't start a process: %s", strerror(errno));
	if (pid == 0)
		become(fuzz, start);
	setpgid(pid, pid); /* whichever of the two is first */
	return pid;
}

/* --- waiting ------------------------------------------------------------------------------ */

/* Until a child ends, a signal ends us, or the time is over. */
static void sleep_for(struct fuzz *fuzz, uint64_t nanoseconds)
{
	struct timespec time = clock_timespec(nanoseconds);
	sigset_t signals;
	int number;

	fill_signals(&signals);
	number = sigtimedwait(&signals, NULL, &time);
	if (number > 0 && number != SIGCHLD)
		fuzz->interrupted = number;
}

/* Whether it has ended. It isn't reaped: its number stays that of its group. */
static bool has_ended(pid_t pid, int *status)
{
	siginfo_t info = {};

	if (waitid(P_PID, pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != pid)
		return false;
	*status = info.si_code == CLD_EXITED ? W_EXITCODE(info.si_status, 0)
					     : W_EXITCODE(0, info.si_status);
	return true;
}

/* False: it goes on. */
static bool wait_for(struct fuzz *fuzz, pid_t pid, double seconds, int *status)
{
	uint64_t end = clock_now() + seconds * NS_PER_S;

	for (;;) {
		uint64_t now = clock_now();

		if (has_ended(pid, status))
			return true;
		if (now >= end || fuzz->interrupted)
			return false;
		sleep_for(fuzz, end - now);
	}
}

/* Returns false if it has ended instead. */
static bool wait_until_ready(struct fuzz *fuzz, pid_t peer, int *status)
{
	uint64_t end = clock_now() + READY_SECONDS * NS_PER_S;

	while (clock_now() < end && !fuzz->interrupted && !fuzz_is_listening(peer)) {
		if (has_ended(peer, status))
			return false;
		sleep_for(fuzz, READY_MS * NS_PER_MS);
	}
	return true;
}

/* --- ending ------------------------------------------------------------------------------- */

/* Kill all children that there are. Returns whether there was one. */
static bool kill_children(void)
{
	char path[64];
	bool any = false;
	FILE *file;
	int pid;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)gettid());
	file = fopen(path, "re");
	while (file && fscanf(file, "%d", &pid) == 1) {
		kill(pid, SIGKILL);
		any = true;
	}
	if (file)
		fclose(file);
	return any;
}

/* Those that have left the group become our children when their parents end. */
static void clean_up(pid_t program, pid_t peer)
{
	kill(-program, SIGKILL);
	if (peer)
		kill(-peer, SIGKILL);
	while (kill_children())
		waitpid(-1, NULL, 0);
	/* Without the kernel's list of children. */
	waitpid(program, NULL, 0);
	if (peer)
		waitpid(peer, NULL, 0);
}

/* --- one run ------------------------------------------------------------------------------ */

/* A new file for what is written. In the folder may be those of another session. */
static char *create_output(struct fuzz *fuzz)
{
	int file;

	for (;;) {
		char *path;

		if (asprintf(&path, "%s/%u.txt", fuzz->outputs, fuzz->runs++) < 0)
			die("out of memory");
		file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (file >= 0)
			close(file);
		/* What else is against it the process says that opens it. */
		if (file >= 0 || errno != EEXIST) {
			fuzz->unwritable = file < 0;
			return path;
		}
		free(path);
	}
}

char *fuzz_join_faults(const struct fuzz *fuzz, const char *fault)
{
	char *both = NULL;

	if (asprintf(&both, "%s%s%s", fuzz->faults ?: "", fuzz->faults && fault ? ";" : "",
		     fault ?: "") < 0)
		die("out of memory");
	return both;
}

static pid_t start_peer(struct fuzz *fuzz, struct fuzz_run *run)
{
	char *argv[] = {"sh", "-c", (char *)fuzz->peer, NULL};
	struct start peer = {.argv = argv, .node = fuzz->peer_node, .output = run->output};
	pid_t pid = start(fuzz, &peer);

	if (!wait_until_ready(fuzz, pid, &run->peer_status))
		run->peer_ended = true;
	return pid;
}

struct fuzz_run fuzz_run(struct fuzz *fuzz, const struct fuzz_how *how)
{
	struct fuzz_run run = {.output = create_output(fuzz)};
	char *faults = fuzz_join_faults(fuzz, how->fault), *counts;
	struct start program = {.argv = fuzz->program,
				.node = fuzz->node,
				.devices = fuzz->devices,
				.faults = *faults ? faults : NULL,
				.session = how->session};
	pid_t peer = 0, pid;
	uint64_t begin;

	if (asprintf(&counts, "%s/counts", fuzz->directory) < 0)
		die("out of memory");
	program.counts = counts;
	program.check = how->checked ? fuzz->check : NULL;
	program.output = run.output;
	call_counts_clear(fuzz->counts);
	if (fuzz->peer)
		peer = start_peer(fuzz, &run);
	begin = clock_now();
	pid = start(fuzz, &program);
	run.hung = !wait_for(fuzz, pid, how->seconds, &run.status);
	run.seconds = (clock_now() - begin) / (double)NS_PER_S;
	run.last = call_counts_last(fuzz->counts);
	if (peer && !run.peer_ended)
		run.peer_ended = wait_for(fuzz, peer, fuzz->usage.peer_ends ? GRACE_SECONDS : 0,
					  &run.peer_status);
	clean_up(pid, peer);
	free(counts);
	free(faults);
	return run;
}

void fuzz_run_free(struct fuzz_run *run)
{
	if (run->output)
		unlink(run->output);
	free(run->output);
	free(run->report);
	run->output = run->report = NULL;
}
