/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs a fuzz target on the files and directories named, without libFuzzer: so
 * the corpus is a test with any compiler, and a finding can be replayed in a
 * debugger. Each input comes in memory of its own, so that ASan knows its end.
 */
#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>

#include "input.h"

static unsigned int runs;

static void run_file(const char *path)
{
	FILE *file = fopen(path, "rb");
	struct stat status;
	uint8_t *data;

	must(file && fstat(fileno(file), &status) == 0);
	data = malloc(status.st_size ? status.st_size : 1);
	must(data && fread(data, 1, status.st_size, file) == (size_t)status.st_size);
	fclose(file);
	LLVMFuzzerTestOneInput(data, status.st_size);
	free(data);
	runs++;
}

static void run_directory(const char *path)
{
	struct dirent **entries;
	int count = scandir(path, &entries, NULL, alphasort);
	char name[4096];

	must(count >= 0);
	for (int i = 0; i < count; i++) {
		if (entries[i]->d_name[0] != '.') {
			snprintf(name, sizeof(name), "%s/%s", path, entries[i]->d_name);
			run_file(name);
		}
		free(entries[i]);
	}
	free(entries);
}

int main(int argc, char **argv)
{
	struct stat status;

	for (int i = 1; i < argc; i++) {
		must(stat(argv[i], &status) == 0);
		if (S_ISDIR(status.st_mode))
			run_directory(argv[i]);
		else
			run_file(argv[i]);
	}
	printf("%u inputs\n", runs);
	return runs ? 0 : 1;
}
