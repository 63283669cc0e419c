/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * System calls by number. The C library's functions of these names are cancellation points: a
 * thread that is cancelled in one would end with the locks that it holds. On hardware posting and
 * polling make no system call. Or they are librspreload.so's, where it is loaded. Parameters and
 * errno as in the manual; but a socket or an epoll is never stdin, stdout or stderr
 * (descriptor_above_standard()).
 */
#ifndef URXE_NET_SYSCALLS_H
#define URXE_NET_SYSCALLS_H

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "net/descriptor.h"

/* Where librspreload.so is loaded, socket() makes an rsocket. */
static inline int sys_socket(int domain, int type, int protocol)
{
	return descriptor_above_standard(syscall(SYS_socket, domain, type, protocol));
}

static inline int sys_connect(int fd, const void *to, socklen_t to_length)
{
	return syscall(SYS_connect, fd, to, to_length);
}

static inline ssize_t sys_sendmsg(int fd, const struct msghdr *message, int flags)
{
	return syscall(SYS_sendmsg, fd, message, flags);
}

static inline int sys_sendmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags)
{
	return syscall(SYS_sendmmsg, fd, messages, count, flags);
}

static inline ssize_t sys_recvmsg(int fd, struct msghdr *message, int flags)
{
	return syscall(SYS_recvmsg, fd, message, flags);
}

/* Without a timeout, which isn't what its name says. */
static inline int sys_recvmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags)
{
	return syscall(SYS_recvmmsg, fd, messages, count, flags, NULL);
}

static inline ssize_t sys_send(int fd, const void *data, size_t length, int flags)
{
	return syscall(SYS_sendto, fd, data, length, flags, NULL, 0);
}

static inline ssize_t sys_sendto(int fd, const void *data, size_t length, int flags, const void *to,
				 socklen_t to_length)
{
	return syscall(SYS_sendto, fd, data, length, flags, to, to_length);
}

static inline ssize_t sys_recv(int fd, void *data, size_t length, int flags)
{
	return syscall(SYS_recvfrom, fd, data, length, flags, NULL, NULL);
}

static inline ssize_t sys_recvfrom(int fd, void *data, size_t length, int flags, void *from,
				   socklen_t *from_length)
{
	return syscall(SYS_recvfrom, fd, data, length, flags, from, from_length);
}

static inline ssize_t sys_vmsplice(int fd, const struct iovec *parts, unsigned int count,
				   unsigned int flags)
{
	return syscall(SYS_vmsplice, fd, parts, count, flags);
}

static inline ssize_t sys_splice(int from, int to, size_t length, unsigned int flags)
{
	return syscall(SYS_splice, from, NULL, to, NULL, length, flags);
}

static inline ssize_t sys_write(int fd, const void *data, size_t length)
{
	return syscall(SYS_write, fd, data, length);
}

static inline ssize_t sys_writev(int fd, const struct iovec *parts, int count)
{
	return syscall(SYS_writev, fd, parts, count);
}

static inline ssize_t sys_read(int fd, void *data, size_t length)
{
	return syscall(SYS_read, fd, data, length);
}

static inline ssize_t sys_pread(int fd, void *data, size_t length, off_t offset)
{
	return syscall(SYS_pread64, fd, data, length, offset);
}

static inline ssize_t sys_pwrite(int fd, const void *data, size_t length, off_t offset)
{
	return syscall(SYS_pwrite64, fd, data, length, offset);
}

static inline int sys_open(const char *path, int flags)
{
	return syscall(SYS_openat, AT_FDCWD, path, flags, 0);
}

/* open() with O_CREAT, which takes a mode. */
static inline int sys_create(const char *path, int flags, mode_t mode)
{
	return syscall(SYS_openat, AT_FDCWD, path, flags | O_CREAT, mode);
}

/* Not by number: ThreadSanitizer has to see that another thread may get the descriptor's. */
static inline int sys_close(int fd)
{
	int state, result;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	result = close(fd);
	pthread_setcancelstate(state, NULL);
	return result;
}

static inline int sys_fallocate(int fd, int mode, off_t offset, off_t length)
{
	return syscall(SYS_fallocate, fd, mode, offset, length);
}

/* Where a newer librspreload.so is loaded, epoll_create1() makes an object of rsockets. */
static inline int sys_epoll_create(int flags)
{
	return descriptor_above_standard(syscall(SYS_epoll_create1, flags));
}

static inline int sys_epoll_ctl(int epoll_fd, int operation, int fd, struct epoll_event *event)
{
	return syscall(SYS_epoll_ctl, epoll_fd, operation, fd, event);
}

/* epoll_wait() that doesn't wait. */
static inline int sys_epoll_look(int fd, struct epoll_event *events, int max)
{
	return syscall(SYS_epoll_pwait, fd, events, max, 0, NULL, 0);
}

/* poll() that doesn't wait. */
static inline int sys_poll_look(struct pollfd *fds, nfds_t count)
{
	const struct timespec none = {};

	return syscall(SYS_ppoll, fds, count, &none, NULL, 0);
}

/* Sleep while *@word is @value, for @timeout at the most. */
static inline int sys_futex_wait(const void *word, uint32_t value, const struct timespec *timeout)
{
	return syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, timeout, NULL, 0);
}

/* Wake all that do. */
static inline int sys_futex_wake(const void *word)
{
	return syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static inline int sys_nanosleep(const struct timespec *time)
{
	return syscall(SYS_nanosleep, time, NULL);
}

#endif
