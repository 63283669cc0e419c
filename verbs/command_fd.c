/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/command_fd.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "net/file_limit.h"
#include "net/log.h"
#include "net/syscalls.h"
#include "verbs/context.h"
#include "verbs/device.h"
#include "verbs/devices.h"

/* What is in the file; nothing can change it. */
struct signature {
	char magic[16];
	char device[IBV_SYSFS_NAME_MAX];
	__be64 guid; /* by which it is known from one of the same name with other addresses */
};

#define MAGIC "urxe command fd"
#define SEALS (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U
#endif

_Static_assert(sizeof(MAGIC) == sizeof(((struct signature *)0)->magic), "with its end");

/*
 * As one that is never executed, which the sysctl vm.memfd_noexec may demand. Linux before 6.3
 * doesn't know of that.
 */
static int make_file(void)
{
	int fd = memfd_create("urxe", MFD_CLOEXEC | MFD_NOEXEC_SEAL);

	if (fd < 0 && errno == EINVAL)
		fd = memfd_create("urxe", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	return descriptor_above_standard(fd);
}

/* Which system call it was: the cause that the caller reports doesn't say. */
static int file_failed(const struct device *device)
{
	int error = errno;

	if (!is_descriptor_error(error))
		log_warn("%s can't be opened: memfd_create(): %s", device->ibv.name,
			 strerror(error));
	errno = error;
	return -1;
}

int command_fd_open(const struct device *device)
{
	struct signature signature = {.magic = MAGIC, .guid = device->guid};
	int fd = make_file();
	ssize_t written;
	int error;

	if (fd < 0)
		return file_failed(device);
	memcpy(signature.device, device->ibv.name, sizeof(signature.device));
	written = file_limit_pwrite(fd, &signature, sizeof(signature), 0);
	/* A process that may write no files has a context all the same, which can't be imported. */
	if (written < 0 && errno == EFBIG)
		return fd;
	if (written == sizeof(signature) && fcntl(fd, F_ADD_SEALS, SEALS) == 0)
		return fd;
	error = written >= 0 && written < (ssize_t)sizeof(signature) ? ENOSPC : errno;
	sys_close(fd);
	/* Its space is memory; and to callers ENOSPC says that there is no port left. */
	errno = error == ENOSPC ? ENOMEM : error;
	return -1;
}

static bool read_signature(int fd, struct signature *signature)
{
	struct stat status;
	int seals;

	/* Reading from something else might have consequences. */
	if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) ||
	    status.st_size != sizeof(*signature))
		return false;
	/* It may have more of them, as vm.memfd_noexec adds one. */
	seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0 || (seals & SEALS) != SEALS)
		return false;
	return sys_pread(fd, signature, sizeof(*signature), 0) == sizeof(*signature) &&
	       memcmp(signature->magic, MAGIC, sizeof(MAGIC)) == 0;
}

bool command_fd_is_ours(int fd)
{
	int error = errno;
	struct signature signature;
	bool ours = read_signature(fd, &signature);

	errno = error;
	return ours;
}

struct device *command_fd_device(int fd)
{
	struct signature signature;
	struct device *devices;
	unsigned int count = devices_all(&devices);

	if (!read_signature(fd, &signature))
		count = 0;
	for (unsigned int i = 0; i < count; i++) {
		if (devices[i].guid == signature.guid &&
		    strncmp(devices[i].ibv.name, signature.device, sizeof(signature.device)) == 0)
			return &devices[i];
	}
	errno = ENODEV;
	return NULL;
}
