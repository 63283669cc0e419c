/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Access flags in words, for what is said of a failure (net/cause/cause.h). Called by any thread,
 * without state.
 */
#ifndef URXE_EMU_ACCESS_H
#define URXE_EMU_ACCESS_H

/* Enough for all flags there are. */
#define ACCESS_TEXT 192

/*
 * "LOCAL_WRITE, REMOTE_READ", "no access flags" for 0; bits without a name as a number. Returns
 * @text.
 */
const char *access_text(unsigned int access, char text[ACCESS_TEXT]);

#endif
