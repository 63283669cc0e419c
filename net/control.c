/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/control.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "net/process.h"
#include "net/syscalls.h"

/* The version is of the datagrams; then the user, the PID namespace, the process. */
#define NAME "urxe-control-1-%u-%llu-%d"

static socklen_t make_address(struct sockaddr_un *address, uint64_t pid_namespace, pid_t pid)
{
	int length;

	*address = (struct sockaddr_un){.sun_family = AF_UNIX};
	/* A 0 before it makes the name an abstract one. */
	length = snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1, NAME,
			  (unsigned int)geteuid(), (unsigned long long)pid_namespace, (int)pid);
	return offsetof(struct sockaddr_un, sun_path) + 1 + length;
}

/* A datagram socket that is told whose the datagrams are, with a name; or -1 with errno. */
static int open_socket(const struct sockaddr_un *address, socklen_t length)
{
	int fd = sys_socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = 1, error;

	if (fd < 0)
		return -1;
	if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) == 0 &&
	    bind(fd, (const struct sockaddr *)address, length) == 0)
		return fd;
	error = errno;
	close(fd);
	errno = error;
	return -1;
}

static bool is_of_our_user(struct msghdr *message)
{
	struct ucred credentials;

	for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part;
	     part = CMSG_NXTHDR(message, part)) {
		if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_CREDENTIALS ||
		    part->cmsg_len != CMSG_LEN(sizeof(credentials)))
			continue;
		memcpy(&credentials, CMSG_DATA(part), sizeof(credentials));
		return credentials.uid == geteuid();
	}
	return false;
}

/* Descriptors that came with it are no concern of ours. */
static void close_descriptors(struct msghdr *message)
{
	for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part;
	     part = CMSG_NXTHDR(message, part)) {
		size_t length = part->cmsg_len - CMSG_LEN(0);
		int fd;

		if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = 0; at + sizeof(fd) <= length; at += sizeof(fd)) {
			memcpy(&fd, CMSG_DATA(part) + at, sizeof(fd));
			close(fd);
		}
	}
}

/*
 * One datagram, which ends with a 0 then. Returns its length, or -1 with errno: EPERM for another
 * user's, EMSGSIZE for one that is too long.
 */
static ssize_t receive(int fd, struct sockaddr_un *from, socklen_t *from_length, char *text,
		       size_t size, int flags)
{
	union {
		struct cmsghdr header; /* for its alignment */
		char space[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(64 * sizeof(int))];
	} control;
	struct iovec vector = {text, size - 1};
	struct msghdr message = {
		.msg_name = from,
		.msg_namelen = sizeof(*from),
		.msg_iov = &vector,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	ssize_t length = sys_recvmsg(fd, &message, flags | MSG_CMSG_CLOEXEC);

	if (length < 0)
		return -1;
	*from_length = message.msg_namelen;
	text[length] = '\0';
	close_descriptors(&message);
	errno = !is_of_our_user(&message) ? EPERM : message.msg_flags & MSG_TRUNC ? EMSGSIZE : 0;
	return errno ? -1 : length;
}

/* --- the process ------------------------------------------------------------------------- */

int control_listen(void)
{
	struct sockaddr_un address;
	socklen_t length = make_address(&address, process_namespace("pid"), getpid());

	return open_socket(&address, length);
}

bool control_receive(int fd, struct control_question *question)
{
	/* Another user may send without end. */
	for (unsigned int i = 0; i < 16; i++) {
		if (receive(fd, &question->from, &question->from_length, question->text,
			    sizeof(question->text), MSG_DONTWAIT) >= 0) {
			question->text[strcspn(question->text, "\n")] = '\0';
			return true;
		}
		if (errno != EPERM && errno != EMSGSIZE && errno != EINTR)
			return false;
	}
	return false;
}

void control_answer(int fd, const struct control_question *question, bool ok, const char *text)
{
	size_t length = strnlen(text, CONTROL_ANSWER - 1);
	char status = ok ? '+' : '-';
	struct iovec vectors[] = {{&status, 1}, {(char *)text, length}};
	const struct msghdr message = {
		.msg_name = (void *)&question->from,
		.msg_namelen = question->from_length,
		.msg_iov = vectors,
		.msg_iovlen = 2,
	};

	/* The program may be gone, or be another one that doesn't take its answers. */
	sys_sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* --- the program ------------------------------------------------------------------------- */

#define ANSWER_TIMEOUT_MS 250 /* for an answer, before the question is repeated */

/* ETIMEDOUT when there is no answer within ANSWER_TIMEOUT_MS. */
static int ask(int fd, const struct sockaddr_un *address, socklen_t length, const char *question,
	       struct control_reply *reply)
{
	char answer[CONTROL_ANSWER + 1];
	struct sockaddr_un from;
	socklen_t from_length;

	/* Connected, it takes no datagrams but those of the process. */
	if (connect(fd, (const struct sockaddr *)address, length) != 0 ||
	    send(fd, question, strlen(question), MSG_NOSIGNAL) < 0 ||
	    receive(fd, &from, &from_length, answer, sizeof(answer), 0) < 0)
		return errno == EAGAIN ? ETIMEDOUT : errno;
	reply->ok = *answer == '+';
	snprintf(reply->text, sizeof(reply->text), "%s", *answer ? answer + 1 : "");
	return 0;
}

int control_ask(pid_t pid, uint64_t pid_namespace, const char *question, unsigned int seconds,
		struct control_reply *reply)
{
	/* Without a name of its own in the address a socket is given one. */
	const struct sockaddr_un any = {.sun_family = AF_UNIX};
	const struct timeval timeout = {.tv_usec = ANSWER_TIMEOUT_MS * 1000};
	struct sockaddr_un address;
	socklen_t length = make_address(&address, pid_namespace, pid);
	int fd, error = ETIMEDOUT;

	if (strlen(question) >= CONTROL_QUESTION)
		return EMSGSIZE;
	fd = open_socket(&any, sizeof(any.sun_family));
	if (fd < 0)
		return errno;
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) != 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)) != 0)
		error = errno;
	/* Again, for a socket that the application has closed lives until its thread wakes up. */
	for (unsigned int i = 0; i < seconds * 1000 / ANSWER_TIMEOUT_MS && error == ETIMEDOUT; i++)
		error = ask(fd, &address, length, question, reply);
	close(fd);
	return error;
}
