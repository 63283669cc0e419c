/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/libpcap.h"

#include "net/library.h"

/* The name of libpcap's own build, and Debian's, which dlerror() says when neither is there. */
static const char *const files[] = {"libpcap.so.1", "libpcap.so.0.8", NULL};

#define NAME(name) "pcap_" #name,
static const char *const functions[] = {LIBPCAP_FUNCTIONS(NAME) NULL};

static const struct library library = {files, functions};

bool libpcap_load(struct libpcap *libpcap)
{
	return library_load(&library, (void **)libpcap);
}
