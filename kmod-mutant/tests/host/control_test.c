// SPDX-License-Identifier: GPL-2.0-only
/* What may be sent to a learned arm, and that no ACK ever sees half of it. */
#include <pthread.h>

#include "mutant_arms_gen.h"
#include "mutant_control.h"
#include "tests.h"

#define ROUNDS	1000

struct shared {
	struct mutant_kept kept;
	bool stop;
};

static bool fits(u32 arm, u32 law, u32 a, u32 b, u32 c, u32 d)
{
	const u32 value[] = { a, b, c, d };

	return mutant_control_fits(arm, law, value);
}

static void test_fits(void)
{
	const u32 window = MUTANT_CONTROL_LAW_WINDOW, aimd = MUTANT_CONTROL_LAW_AIMD;
	const u32 cubic = MUTANT_CONTROL_LAW_CUBIC, one = MUTANT_ONE, spine = MUTANT_ARM_ID_SPINE;
	u32 i, value[MUTANT_CONTROL_VALUES];

	CHECK(fits(MUTANT_ARM_ID_LTP, window, 10, 0, 0, 0));
	CHECK(fits(MUTANT_ARM_ID_JURY, window, 1, 0, 0, 0));
	CHECK(fits(MUTANT_ARM_ID_OWL, window, ~0U, 0, 0, 0));
	CHECK(!fits(MUTANT_ARM_ID_LTP, window, 0, 0, 0, 0));
	CHECK(!fits(MUTANT_ARM_ID_LTP, window, 10, 0, 0, 1));
	CHECK(!fits(MUTANT_ARM_ID_LTP, aimd, 0, 0, 0, 0));
	CHECK(!fits(spine, window, 10, 0, 0, 0));
	CHECK(fits(spine, aimd, 0, 0, 0, 0));
	CHECK(fits(spine, aimd, one / 2, one / 2, 2 * one, one));
	CHECK(!fits(spine, aimd, one / 2 + 1, 0, 0, 0));
	CHECK(!fits(spine, aimd, 0, one / 2 + 1, 0, 0));
	CHECK(!fits(spine, aimd, 0, 0, 2 * one + 1, 0));
	CHECK(!fits(spine, aimd, 0, 0, 0, one + 1));
	CHECK(fits(spine, cubic, one * 7 / 10, one * 4 / 10, 0, 0));
	CHECK(!fits(spine, cubic, one / 5, one, 0, 0));
	CHECK(!fits(spine, cubic, one, one, 0, 0));
	CHECK(!fits(spine, cubic, one / 2, 0, 0, 0));
	CHECK(!fits(spine, cubic, one / 2, 11 * one, 0, 0));
	CHECK(!fits(spine, cubic, one / 2, one, 1, 0));
	for (i = 0; i < 100000; i++) {
		u32 arm = random_below(24), law = random_below(8), at = random_below(4);

		memset(value, 0, sizeof(value));
		value[at] = random_below(3) ? random_below(~0U) : random_below(3 * one);
		/* Whatever does not fit anything must not reach the tables. */
		if (mutant_control_fits(arm, law, value) &&
		    (arm < MUTANT_ARM_ID_LTP || arm > MUTANT_LAST_LEARNED || !law || law > cubic)) {
			CHECK(!"fits an arm or a law that is none");
			return;
		}
	}
	CHECK(!fits(MUTANT_ARM_ID_CUBIC, cubic, one / 2, one, 0, 0));
}

static void test_window(void)
{
	u32 i;

	CHECK(mutant_control_window(30, 20, 20, ~0U) == 30);
	CHECK(mutant_control_window(1000, 20, 20, ~0U) == 40);
	CHECK(mutant_control_window(1, 20, 20, ~0U) == 10);
	CHECK(mutant_control_window(1, 2, 2, ~0U) == MUTANT_WINDOW_MIN);
	CHECK(mutant_control_window(35, 20, 20, 25) == 25);
	CHECK(mutant_control_window(2, 100, 100, 25) == 25);
	/* A timeout took the window away: what was asked for before stays within reach. */
	CHECK(mutant_control_window(100, 1, 100, ~0U) == 100);
	CHECK(mutant_control_window(~0U, ~0U, ~0U, ~0U) == MUTANT_WINDOW_MAX);
	for (i = 0; i < 100000; i++) {
		u32 low = random_below(~0U), high = low + random_below(~0U - low);
		u32 clamp = random_below(~0U), got;

		got = mutant_control_window(random_below(~0U), low, high, clamp);
		if (got < MUTANT_WINDOW_MIN || got > MUTANT_WINDOW_MAX ||
		    got > (clamp < MUTANT_WINDOW_MIN ? MUTANT_WINDOW_MIN : clamp)) {
			CHECK(!"out of what any flow may have");
			return;
		}
	}
}

/* Setting n has n in all its members. */
static void *keep_settings(void *argument)
{
	struct shared *shared = argument;
	struct mutant_setting setting;
	u32 n, i;

	for (n = 1; !READ_ONCE(shared->stop); n++) {
		setting.law = n;
		setting.since = n;
		for (i = 0; i < MUTANT_CONTROL_VALUES; i++)
			setting.value[i] = n;
		mutant_control_keep(&shared->kept, &setting);
	}
	return NULL;
}

static void test_keep_and_take(void)
{
	u32 seq = 0, taken = 0, torn = 0, older = 0, last = 0, i;
	struct mutant_setting setting = {};
	bool taking;
	static struct shared shared;
	pthread_t writer;

	CHECK(!mutant_control_take(&shared.kept, &seq, &setting));
	if (pthread_create(&writer, NULL, keep_settings, &shared)) {
		CHECK(!"no thread");
		return;
	}
	while (taken < ROUNDS) {
		taking = mutant_control_take(&shared.kept, &seq, &setting);
		taken += taking;
		/* Whole, whether it was taken now or before. */
		torn += setting.since != setting.law;
		for (i = 0; i < MUTANT_CONTROL_VALUES; i++)
			torn += setting.value[i] != setting.law;
		older += taking ? setting.law <= last : setting.law != last;
		last = setting.law;
		if (!taking)
			sched_yield();
	}
	WRITE_ONCE(shared.stop, true);
	pthread_join(writer, NULL);
	CHECK(torn == 0);
	CHECK(older == 0);
	mutant_control_take(&shared.kept, &seq, &setting);
	CHECK(!mutant_control_take(&shared.kept, &seq, &setting));
	/* The number wraps. */
	shared.kept.latch.sequence = ~1U;
	CHECK(mutant_control_take(&shared.kept, &seq, &setting));
	mutant_control_keep(&shared.kept, &setting);
	CHECK(mutant_kept_number(&shared.kept) == 0);
	CHECK(mutant_control_take(&shared.kept, &seq, &setting));
	CHECK(!mutant_control_take(&shared.kept, &seq, &setting));
}

void test_control(void)
{
	test_fits();
	test_window();
	test_keep_and_take();
}
