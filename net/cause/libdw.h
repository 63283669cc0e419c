/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libdw's functions (elfutils), as far as they find the lines of code addresses. It is loaded when
 * explanations are asked for (net/library.h). Called by net/cause/place. No locks.
 */
#ifndef URXE_NET_CAUSE_LIBDW_H
#define URXE_NET_CAUSE_LIBDW_H

#include <elfutils/libdwfl.h>
#include <stdbool.h>

/* clang-format off */
#define LIBDW_FUNCTIONS(function) \
	function(dwfl_begin) \
	function(dwfl_end) \
	function(dwfl_report_elf) \
	function(dwfl_report_end) \
	function(dwfl_build_id_find_debuginfo) \
	function(dwfl_addrmodule) \
	function(dwfl_module_addrname) \
	function(dwfl_module_addrdie) \
	function(dwfl_module_nextcu) \
	function(dwarf_haspc) \
	function(dwarf_getsrc_die) \
	function(dwarf_linesrc) \
	function(dwarf_lineno) \
	function(dwarf_getscopes) \
	function(dwarf_getscopes_die) \
	function(dwarf_getsrcfiles) \
	function(dwarf_filesrc) \
	function(dwarf_tag) \
	function(dwarf_diename) \
	function(dwarf_attr_integrate) \
	function(dwarf_formudata) \
	function(dwarf_cu_getdwarf) \
	function(dwarf_new_oom_handler)
/* clang-format on */

struct libdw {
#define LIBDW_MEMBER(name) __typeof__(name) *name;
	LIBDW_FUNCTIONS(LIBDW_MEMBER)
#undef LIBDW_MEMBER
};

/* Returns false when there is no libdw; dlerror() says why. */
bool libdw_load(struct libdw *libdw);

#endif
