/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/cause/place.h"

#include <dlfcn.h>
#include <dwarf.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "net/cause/libdw.h"

/* libdw has an array of 230 KB there for the lines of a file; and the thread's TLS is on it. */
#define HELPER_STACK (1u << 22)

static struct libdw libdw; /* written before libdw_is_here */
static bool libdw_is_here;

struct visit {
	const uintptr_t *frames;
	unsigned int count;
	place_visit visit;
	void *argument;
	unsigned int visited;
	bool finished;
};

void places_prepare(void)
{
	if (!libdw_is_here)
		libdw_is_here = libdw_load(&libdw);
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* A return address is behind the call, maybe in the next line. */
static uintptr_t call_address(uintptr_t frame)
{
	return frame - 1;
}

/* --- objects ---------------------------------------------------------------------- */

/* dladdr() would wait for the dynamic linker's lock. */
static const struct link_map *find_object(uintptr_t address)
{
	struct dl_find_object found;

	return _dl_find_object((void *)address, &found) == 0 ? found.dlfo_link_map : NULL;
}

static bool is_program(const struct link_map *object)
{
	return !*object->l_name;
}

static struct place place_in_object(uintptr_t address)
{
	const struct link_map *object = find_object(address);

	if (!object)
		return (struct place){.object = "?", .offset = address};
	return (struct place){
		.object = is_program(object) ? program_invocation_short_name
					     : base_name(object->l_name),
		.offset = address - object->l_addr,
		.is_ours = !is_program(object) && object == find_object((uintptr_t)places_visit),
	};
}

struct place place_find(uintptr_t frame)
{
	return place_in_object(call_address(frame));
}

/* --- debug information -------------------------------------------------------------- */

/* The line in the source is in a header whose inline functions are what applications call. */
static bool is_verbs_header(const char *path)
{
	static const char *const headers[] = {"/infiniband/verbs.h", "/rdma/rdma_verbs.h",
					      "/rdma/rdma_cma.h"};
	size_t length = strlen(path);

	for (unsigned int i = 0; i < sizeof(headers) / sizeof(*headers); i++) {
		size_t end = strlen(headers[i]);

		if (length >= end && strcmp(path + length - end, headers[i]) == 0)
			return true;
	}
	return false;
}

/* Without debug information: names that begin so are those of verbs' headers. */
static bool is_verbs_name(const char *function)
{
	static const char *const beginnings[] = {"ibv_",
						 "__ibv_",
						 "rdma_post_",
						 "rdma_reg_",
						 "rdma_dereg_mr",
						 "rdma_get_send_comp",
						 "rdma_get_recv_comp"};

	for (unsigned int i = 0; function && i < sizeof(beginnings) / sizeof(*beginnings); i++) {
		if (strncmp(function, beginnings[i], strlen(beginnings[i])) == 0)
			return true;
	}
	return false;
}

/* libdw ends the process, unless told so: it may not return. */
static __attribute__((noreturn)) void leave_libdw(void)
{
	pthread_exit(NULL);
}

/* The compilation unit of @address, or NULL. Not all compilers write an index of them. */
static Dwarf_Die *find_unit(Dwfl_Module *module, uintptr_t address, Dwarf_Addr *bias)
{
	Dwarf_Die *unit = libdw.dwfl_module_addrdie(module, address, bias);

	if (unit)
		return unit;
	while ((unit = libdw.dwfl_module_nextcu(module, unit, bias))) {
		if (libdw.dwarf_haspc(unit, address - *bias) > 0)
			break;
	}
	return unit;
}

/* DW_AT_call_*: where an inlined function is called. */
static Dwarf_Word call_attribute(Dwarf_Die *die, unsigned int name)
{
	Dwarf_Attribute attribute;
	Dwarf_Word value;

	if (!libdw.dwarf_attr_integrate(die, name, &attribute) ||
	    libdw.dwarf_formudata(&attribute, &value) != 0)
		return 0;
	return value;
}

/*
 * @path and @place->line are where the code of @scopes is, the innermost first. While that is in
 * an inlined function of verbs, its call is the place. Returns the path.
 */
static const char *leave_inlined(struct place *place, const char *path, Dwarf_Die *unit,
				 Dwarf_Die *scopes, int count)
{
	Dwarf_Files *files;

	if (libdw.dwarf_getsrcfiles(unit, &files, NULL) != 0)
		return path;
	for (int i = 0; i < count && path; i++) {
		int tag = libdw.dwarf_tag(&scopes[i]);

		if (tag != DW_TAG_inlined_subroutine && tag != DW_TAG_subprogram)
			continue;
		place->function = libdw.dwarf_diename(&scopes[i]);
		if (tag == DW_TAG_subprogram || !is_verbs_header(path))
			break;
		place->line = call_attribute(&scopes[i], DW_AT_call_line);
		path = libdw.dwarf_filesrc(files, call_attribute(&scopes[i], DW_AT_call_file), NULL,
					   NULL);
	}
	return path;
}

/* @address: as in the unit. Returns the path of the source file. */
static const char *find_line(struct place *place, Dwarf_Die *unit, Dwarf_Addr address)
{
	Dwarf_Line *line = libdw.dwarf_getsrc_die(unit, address);
	const char *path = line ? libdw.dwarf_linesrc(line, NULL, NULL) : NULL;
	Dwarf_Die *scopes = NULL, *parents = NULL;
	int count;

	if (!path || libdw.dwarf_lineno(line, &place->line) != 0)
		return NULL;
	/*
	 * The scopes around an inlined one are those of its definition; its parents' the caller's.
	 */
	if (libdw.dwarf_getscopes(unit, address, &scopes) > 0) {
		count = libdw.dwarf_getscopes_die(&scopes[0], &parents);
		path = leave_inlined(place, path, unit, parents, count);
	}
	free(parents);
	free(scopes);
	return path;
}

/* Returns false for a function of verbs' headers, whose caller is in the next frame. */
static bool look_up(Dwfl *dwfl, uintptr_t address, struct place *place)
{
	Dwfl_Module *module = libdw.dwfl_addrmodule(dwfl, address);
	const char *path;
	Dwarf_Addr bias;
	Dwarf_Die *unit;

	if (!module)
		return true;
	place->function = libdw.dwfl_module_addrname(module, address);
	unit = find_unit(module, address, &bias);
	if (!unit)
		return !is_verbs_name(place->function);
	libdw.dwarf_new_oom_handler(libdw.dwarf_cu_getdwarf(unit->cu), leave_libdw);
	path = find_line(place, unit, address - bias);
	if (!path)
		return !is_verbs_name(place->function);
	place->file = base_name(path);
	return !is_verbs_header(path);
}

static const struct link_map *frame_object(const struct visit *visit, unsigned int frame)
{
	return find_object(call_address(visit->frames[frame]));
}

/* Each once: libdw forgets an object that is reported again. */
static void report_objects(Dwfl *dwfl, const struct visit *visit)
{
	for (unsigned int i = 0; i < visit->count; i++) {
		const struct link_map *object = frame_object(visit, i);
		unsigned int first = 0;
		const char *path;

		while (frame_object(visit, first) != object)
			first++;
		if (!object || first < i)
			continue;
		path = is_program(object) ? "/proc/thread-self/exe" : object->l_name;
		libdw.dwfl_report_elf(dwfl, path, path, -1, object->l_addr, true);
	}
	libdw.dwfl_report_end(dwfl, NULL, NULL);
}

/* --- visits ----------------------------------------------------------------------- */

/* @dwfl: NULL without debug information. From where an earlier attempt ended. */
static void visit_all(struct visit *visit, Dwfl *dwfl)
{
	while (!visit->finished && visit->visited < visit->count) {
		uintptr_t address = call_address(visit->frames[visit->visited]);
		struct place place = place_in_object(address);
		bool wanted = !dwfl || place.is_ours || look_up(dwfl, address, &place);

		visit->visited++;
		if (wanted)
			visit->finished = !visit->visit(visit->argument, &place);
	}
	visit->finished = true;
}

static void *visit_with_libdw(void *argument)
{
	/* Not the standard one, which may ask servers of the network. */
	const Dwfl_Callbacks callbacks = {.find_debuginfo = libdw.dwfl_build_id_find_debuginfo};
	struct visit *visit = argument;
	Dwfl *dwfl = libdw.dwfl_begin(&callbacks);

	if (!dwfl)
		return NULL;
	report_objects(dwfl, visit);
	visit_all(visit, dwfl);
	libdw.dwfl_end(dwfl);
	return NULL;
}

/* A thread with all signals blocked: the application's handlers are for its own threads. */
static void run_aside(void *(*function)(void *), void *argument)
{
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all;
	int cancel;

	sigfillset(&all);
	if (pthread_attr_init(&attr) != 0)
		return;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	if (pthread_attr_setstacksize(&attr, HELPER_STACK) == 0 &&
	    pthread_attr_setsigmask_np(&attr, &all) == 0 &&
	    pthread_create(&thread, &attr, function, argument) == 0)
		pthread_join(thread, NULL);
	pthread_setcancelstate(cancel, NULL);
	pthread_attr_destroy(&attr);
}

void places_visit(const uintptr_t *frames, unsigned int count, place_visit function, void *argument)
{
	struct visit visit = {frames, count, function, argument};
	int error = errno;

	if (libdw_is_here)
		run_aside(visit_with_libdw, &visit);
	/* Without libdw, a thread or memory: objects and offsets. */
	visit_all(&visit, NULL);
	errno = error;
}

/* --- inline functions ------------------------------------------------------------- */

#define FRAMES_KNOWN 1024

static bool note_place(void *argument, const struct place *place)
{
	*(bool *)argument = true;
	return false;
}

/*
 * A frame, shifted, and the answer; where it is known, or is to be noted. NULL: the table is full.
 */
static _Atomic uintptr_t *find_answer(uintptr_t frame)
{
	static _Atomic uintptr_t known[FRAMES_KNOWN];

	for (unsigned int i = 0; i < FRAMES_KNOWN; i++) {
		_Atomic uintptr_t *answer = &known[(frame + i) % FRAMES_KNOWN];
		uintptr_t value = atomic_load_explicit(answer, memory_order_relaxed);

		if (!value || value >> 1 == frame)
			return answer;
	}
	return NULL;
}

/* Debug information is read once for a frame: at exit there may be thousands of objects of few. */
bool place_is_inline(uintptr_t frame)
{
	_Atomic uintptr_t *answer = find_answer(frame);
	uintptr_t value = answer ? atomic_load_explicit(answer, memory_order_relaxed) : 0;
	bool visited = false;

	if (value >> 1 == frame)
		return value & 1;
	places_visit(&frame, 1, note_place, &visited);
	/* If another thread has noted something there meanwhile, the next call notes this. */
	if (answer && !value)
		atomic_compare_exchange_strong(answer, &value, frame << 1 | !visited);
	return !visited;
}
