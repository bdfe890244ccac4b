// SPDX-License-Identifier: GPL-2.0-only
/* The module's pure logic on the host, under ASan and UBSan: `make -C kmod-mutant host-test`. */
#include <stdlib.h>

#include "tests.h"

unsigned int passed, failed;

/* The numbers are the same in every run. */
u32 random_below(u32 limit)
{
	static u64 state = 1;

	state = state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (state >> 33) % limit;
}

int main(void)
{
	test_fold();
	test_gaps();
	test_steps();
	test_echoes();
	test_control();
	test_laws();
	test_lives();
	test_cubic();
	test_back();
	test_path();
	test_pulses();
	test_resume();
	test_visits();
	printf("%u passed, %u failed\n", passed, failed);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
