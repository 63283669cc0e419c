/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The channel into a running process: `urxe ctl` asks, the progress thread of a process with open
 * devices answers (verbs/control.h). A question is a datagram with a line of text, the answer one
 * with a status and text.
 *
 * Both have Unix sockets with abstract names, which leave nothing behind however a process ends. As
 * files of net/observe are, they are found in the network namespace alone. Any user can bind and
 * send to such names: the kernel says with each datagram whose it is, and those of other users are
 * dropped.
 *
 * No state, no locks. The socket is the caller's, one thread at a time.
 */
#ifndef URXE_NET_CONTROL_H
#define URXE_NET_CONTROL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#define CONTROL_QUESTION 4096 /* with the 0 at its end */
#define CONTROL_ANSWER 16384

/* --- the process ------------------------------------------------------------------------- */

/* A socket by which this process is found, or -1 with errno. */
int control_listen(void);

struct control_question {
	struct sockaddr_un from;
	socklen_t from_length;
	char text[CONTROL_QUESTION];
};

/* The next question of our user, without its line end. False: there is none. Never waits. */
bool control_receive(int fd, struct control_question *question);

/* @ok: what was asked for was done. Never waits; what is longer than CONTROL_ANSWER is cut off. */
void control_answer(int fd, const struct control_question *question, bool ok, const char *text);

/* --- the program ------------------------------------------------------------------------- */

struct control_reply {
	bool ok;
	char text[CONTROL_ANSWER];
};

/*
 * Ask process @pid of the PID namespace @pid_namespace (process_namespace()), and wait for the
 * answer for so many @seconds. Returns 0 or an errno: ECONNREFUSED where no process listens,
 * ETIMEDOUT, EPERM if another user's process has the name, EMSGSIZE.
 */
int control_ask(pid_t pid, uint64_t pid_namespace, const char *question, unsigned int seconds,
		struct control_reply *reply);

#endif
