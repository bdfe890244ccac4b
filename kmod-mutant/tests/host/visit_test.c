// SPDX-License-Identifier: GPL-2.0-only
/* When visits begin, and the lots that they draw. */
#include "mutant_visit.h"
#include "tests.h"

#define S	1000U

static void test_begins(void)
{
	struct mutant_visit visit = {};
	u64 now = 5;

	CHECK(mutant_visit_enter(&visit, now));
	CHECK(visit.number == 1 && visit.open == 1);
	/* While flows are open, and for a second after the last, others belong to the visit. */
	CHECK(!mutant_visit_enter(&visit, now + 30 * S));
	mutant_visit_leave(&visit, now + 31 * S);
	CHECK(!mutant_visit_enter(&visit, now + 33 * S));
	mutant_visit_leave(&visit, now + 34 * S);
	mutant_visit_leave(&visit, now + 35 * S);
	CHECK(visit.open == 0);
	CHECK(!mutant_visit_enter(&visit, now + 36 * S - 1));
	mutant_visit_leave(&visit, now + 37 * S);
	CHECK(mutant_visit_enter(&visit, now + 38 * S));
	CHECK(visit.number == 2);
	/* A minute is the most, whoever is open. */
	CHECK(!mutant_visit_enter(&visit, now + 98 * S - 1));
	CHECK(mutant_visit_enter(&visit, now + 98 * S));
	CHECK(visit.number == 3 && visit.open == 3);
	/* Who leaves later was born in an earlier visit, and holds the new one open all the same. */
	mutant_visit_leave(&visit, now + 99 * S);
	mutant_visit_leave(&visit, now + 99 * S);
	CHECK(!mutant_visit_enter(&visit, now + 110 * S));
	/* One that is over takes no more flows. */
	visit.over = true;
	CHECK(mutant_visit_enter(&visit, now + 111 * S));
	CHECK(!mutant_visit_enter(&visit, now + 112 * S));
	CHECK(visit.number == 4);
}

static u32 draw(u64 seed, u64 high, u32 number, const struct mutant_start_arm *choice, u32 weights)
{
	const struct mutant_lot lot = {
		.seed = seed, .high = high, .length = 2 << 16 | 24, .number = number,
	};

	return mutant_lot_place(choice, mutant_lot_draw(&lot, weights));
}

/* Each arm comes as often as its weight says, by visits, by prefixes and by seeds. */
static void test_lots(void)
{
	const struct mutant_start_arm choice[MUTANT_START_ARMS] = {
		{ .arm = 3, .weight = 1 }, { .arm = 1, .weight = 60 }, { .arm = 2, .weight = 39 },
	};
	u32 by[3][MUTANT_START_ARMS] = {}, i, k;

	for (i = 1; i <= 100000; i++) {
		by[0][draw(7, 0xc0000200ULL << 32, i, choice, 100)]++;
		by[1][draw(7, (u64)i << 40, 1, choice, 100)]++;
		by[2][draw(i, 0xc0000200ULL << 32, 1, choice, 100)]++;
	}
	for (k = 0; k < 3; k++) {
		/* Four standard deviations. */
		CHECK(by[k][0] > 1000 - 130 && by[k][0] < 1000 + 130);
		CHECK(by[k][1] > 60000 - 620 && by[k][1] < 60000 + 620);
		CHECK(by[k][2] > 39000 - 620 && by[k][2] < 39000 + 620);
		CHECK(by[k][3] == 0);
	}
	CHECK(draw(7, 5, 9, choice, 100) == draw(7, 5, 9, choice, 100));
}

static void test_places(void)
{
	const struct mutant_start_arm one[MUTANT_START_ARMS] = { { .arm = 3, .weight = 1 } };
	const struct mutant_start_arm four[MUTANT_START_ARMS] = {
		{ .weight = 2 }, { .weight = 1 }, { .weight = 3 }, { .weight = 65529 },
	};
	const u32 expected[] = { 0, 0, 1, 2, 2, 2, 3 };
	u32 i;

	CHECK(draw(1, 2, 3, one, 1) == 0);
	for (i = 0; i < ARRAY_SIZE(expected); i++)
		CHECK(mutant_lot_place(four, i) == expected[i]);
	CHECK(mutant_lot_place(four, 65534) == 3);
}

void test_visits(void)
{
	test_begins();
	test_lots();
	test_places();
}
