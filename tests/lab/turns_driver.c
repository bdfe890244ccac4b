// SPDX-License-Identifier: GPL-2.0-only
/*
 * Puts moments ("ns", one a line) through the turns of a shared medium, whose random numbers a file has.
 * Prints the turn after each, and how many random numbers were drawn so far.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "turns.h"

struct numbers {
	FILE *file;
	unsigned int drawn;
};

static u32 draw(void *from)
{
	struct numbers *numbers = from;
	u32 number;

	if (fscanf(numbers->file, "%" SCNu32, &number) != 1)
		exit(3);
	numbers->drawn++;
	return number;
}

int main(int argc, char *argv[])
{
	struct numbers numbers = { argc == 3 ? fopen(argv[2], "r") : NULL, 0 };
	struct turns turns = { argc == 3 ? strtoull(argv[1], NULL, 10) : 0, 0 };
	u64 t_ns;

	if (!numbers.file)
		return 2;
	while (scanf("%" SCNu64, &t_ns) == 1) {
		u64 turn_ns = next_turn(&turns, t_ns, draw, &numbers);

		printf("%" PRIu64 " %u\n", turn_ns, numbers.drawn);
	}
	fclose(numbers.file);
	return 0;
}
