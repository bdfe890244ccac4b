// SPDX-License-Identifier: Apache-2.0
/* burst_driver PACKETS TO_BAD TO_GOOD LOSS_BAD LOSS_GOOD: a mark for each packet, `x` where it is lost. */
#include <stdio.h>
#include <stdlib.h>

#include "burst.h"

static u32 draw(void *from)
{
	u64 *state = from;

	*state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
	return *state >> 32;
}

int main(int argc, char *argv[])
{
	struct labpaths_path path = {};
	bool bad = false;
	u64 state = 1;

	if (argc != 6)
		return 2;
	path.to_bad = strtoull(argv[2], NULL, 10);
	path.to_good = strtoull(argv[3], NULL, 10);
	path.loss_bad = strtoull(argv[4], NULL, 10);
	path.loss_good = strtoull(argv[5], NULL, 10);
	for (long left = atol(argv[1]); left; left--)
		putchar(burst_loses(&bad, &path, draw, &state) ? 'x' : '.');
	return 0;
}
