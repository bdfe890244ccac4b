// SPDX-License-Identifier: GPL-2.0-only
/*
 * Puts packets ("ns bytes" a line) through a schedule, and prints when each leaves; -1: policed.
 * The queue has no limit.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "schedule.h"

int main(int argc, char *argv[])
{
	static char blob[1 << 24];
	struct schedule s = { 0 };
	uint64_t t_ns, last_ns = 0;
	unsigned int bytes;
	size_t size;
	FILE *file = argc == 2 ? fopen(argv[1], "rb") : NULL;

	if (!file)
		return 2;
	size = fread(blob, 1, sizeof(blob), file);
	fclose(file);
	if (!schedule_parse(&s, blob, size))
		return 3;
	while (scanf("%" SCNu64 " %u", &t_ns, &bytes) == 2) {
		if (policed(&s, t_ns, bytes)) {
			puts("-1");
			continue;
		}
		if (s.header->opportunities)
			last_ns = served_by_trace(&s, t_ns, bytes);
		else
			last_ns = served_at_rate(&s, t_ns > last_ns ? t_ns : last_ns, bytes);
		printf("%" PRIu64 "\n", last_ns);
	}
	return 0;
}
