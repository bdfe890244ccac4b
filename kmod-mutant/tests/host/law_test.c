// SPDX-License-Identifier: GPL-2.0-only
/* The window's and Spine's laws against what their papers say, in plain arithmetic. */
#include <math.h>

#include "mutant_aimd.h"
#include "mutant_marks.h"
#include "tests.h"

static void test_jump_and_glide(void)
{
	u32 i;

	CHECK(mutant_window_jump(20, 30) == 30);
	CHECK(mutant_window_jump(20, 12) == 12);
	CHECK(mutant_window_jump(20, 50) == 40);
	CHECK(mutant_window_jump(20, 3) == 10);
	CHECK(mutant_window_glide(20, 20, 5) == 20);
	CHECK(mutant_window_glide(10, 20, 5) == 15);
	CHECK(mutant_window_glide(18, 20, 5) == 20);
	CHECK(mutant_window_glide(40, 20, 10) == 35);
	CHECK(mutant_window_glide(22, 20, 10) == 20);
	for (i = 0; i < 100000; i++) {
		u32 window = 1 + random_below(MUTANT_WINDOW_MAX);
		u32 target = MUTANT_WINDOW_MIN + random_below(MUTANT_WINDOW_MAX - 1);
		u32 jumped = mutant_window_jump(window, target);
		u32 glided = mutant_window_glide(window, target, random_below(~0U));
		u32 low = window < target ? window : target, high = window ^ target ^ low;

		if (jumped < low || jumped > high || jumped > 2 * window || jumped < window / 2 ||
		    glided < low || glided > high) {
			CHECK(!"beyond the target, or too far at once");
			return;
		}
	}
}

/* Small amounts, either way, add up to what they are, without a fraction lost. */
static void test_fractions_add_up(void)
{
	u32 window = 1000, fraction = 0, i;
	double model = 1000;

	for (i = 0; i < 100000; i++) {
		s64 amount = (s64)random_below(MUTANT_ONE) - MUTANT_ONE / 2;

		window = mutant_window_add(window, &fraction, amount);
		model += (double)amount / MUTANT_ONE;
	}
	CHECK(fabs(window + (double)fraction / MUTANT_ONE - model) * 1e6 < 1);
	CHECK(mutant_window_add(2, &fraction, -MUTANT_ONE) == MUTANT_WINDOW_MIN && !fraction);
	CHECK(mutant_window_add(1, &fraction, 0) == MUTANT_WINDOW_MIN);
	CHECK(mutant_window_add(~0U, &fraction, 1LL << 50) == MUTANT_WINDOW_MAX && !fraction);
	CHECK(mutant_window_cut(100, MUTANT_ONE * 7 / 10) == 69);
	CHECK(mutant_window_cut(100, MUTANT_ONE) == 100);
	CHECK(mutant_window_cut(100, 0) == MUTANT_WINDOW_MIN);
}

/* A smoothed RTT of seconds is no pace for a path that answers in 100 ms again. */
static void test_pace_follows_the_path(void)
{
	CHECK(mutant_window_rtt(3000000, 100000) == 100000);
	CHECK(mutant_window_rtt(100000, 60000) == 100000);
	CHECK(mutant_window_rtt(100000, 300000) == 100000);
	CHECK(mutant_window_rtt(100000, -1) == 100000);
	CHECK(mutant_window_rtt(100000, 0) == 100000);
}

/* A pause keeps the window for five minutes, and leaves a new connection's after that. */
static void test_idle_times(void)
{
	CHECK(mutant_window_after_idle(100, 0) == 100);
	CHECK(mutant_window_after_idle(100, 300) == 100);
	CHECK(mutant_window_after_idle(100, 301) == 10);
	CHECK(mutant_window_after_idle(100, ~0U) == 10);
	CHECK(mutant_window_after_idle(7, ~0U) == 7);
}

/* A loss in what a pause left unproven halves it at least. Later ones are left to the law. */
static void test_retreat(void)
{
	CHECK(mutant_window_retreat(100, 100, 1100, 1000) == 50);
	CHECK(mutant_window_retreat(30, 100, 1100, 1000) == 30);
	CHECK(mutant_window_retreat(3, 3, 1100, 1000) == 2);
	CHECK(mutant_window_retreat(100, 100, 1100, 1100) == 100);
	CHECK(mutant_window_retreat(100, 100, 0, 0x80000001) == 100);
	CHECK(mutant_window_retreat(100, 100, 51, ~0U - 48) == 50);
}

/* Spine Eq. 3, and its slow start over one round trip. */
static void test_aimd(void)
{
	const u32 alpha[] = { MUTANT_ONE / 4, MUTANT_ONE / 8, MUTANT_ONE / 2, MUTANT_ONE };
	u32 window = 100, fraction = 0, i, wrong = 0;

	CHECK(mutant_aimd_gain(alpha, 8 * 29999, 20000) == MUTANT_ONE / 4);
	CHECK(mutant_aimd_gain(alpha, 8 * 30000, 20000) == -MUTANT_ONE / 8);
	CHECK(mutant_aimd_gain(alpha, 8 * 30000, ~0U) == MUTANT_ONE / 4);
	/* At the smallest RTT itself nothing is tolerated where alpha_tol is 0. */
	CHECK(mutant_aimd_gain((const u32[]){ 1, 1, 0, 0 }, 8 * 20000 - 7, 20000) == -1);
	for (i = 0; i < 100000; i++) {
		u32 tol = random_below(2 * MUTANT_ONE + 1), rtt = random_below(5000000);
		u32 least = 1 + random_below(2000000);
		const u32 some[] = { 1, 1, tol, 0 };
		bool queue = mutant_aimd_gain(some, 8 * rtt, least) < 0;
		double ratio = (double)rtt / least, bound = 1 + (double)tol / MUTANT_ONE;

		wrong += fabs(ratio - bound) * least > 1 && queue != (ratio > bound);
	}
	CHECK(!wrong);
	for (i = 0; i < 100; i++)
		window = mutant_window_add(window, &fraction, MUTANT_AIMD_START);
	CHECK(window == 110);
}

static void test_marks(void)
{
	struct mutant_marks marks = {};
	u32 delivered = 0, i;

	CHECK(mutant_marks_capped(&marks, 500, 0, 100) == 500);
	/* A mark takes a fifth, of the cap or of a smaller window. */
	/* A fifth less, however small the window. */
	CHECK(mutant_marks_cut(100) == 80 && mutant_marks_cut(9) == 7 && mutant_marks_cut(3) == 2);
	CHECK(mutant_marks_cut(2) == 2 && mutant_marks_cut(~0U) == 3435973836U);
	mutant_marks_heard(&marks, 100, delivered, 100);
	CHECK(mutant_marks_capped(&marks, 500, delivered, 100) == 80);
	mutant_marks_heard(&marks, 80, delivered, 80);
	CHECK(mutant_marks_capped(&marks, 500, delivered, 80) == 64);
	mutant_marks_heard(&marks, 40, delivered, 40);
	CHECK(mutant_marks_capped(&marks, 500, delivered, 40) == 32);
	/* A round trip without any gives a sixteenth back, once. */
	delivered += 39;
	CHECK(mutant_marks_capped(&marks, 500, delivered, 32) == 32);
	delivered++;
	CHECK(mutant_marks_capped(&marks, 500, delivered, 32) == 34);
	CHECK(mutant_marks_capped(&marks, 500, delivered, 34) == 34);
	/* No window below 2, and small ones grow too. */
	for (i = 0; i < 20; i++)
		mutant_marks_heard(&marks, 2, delivered, 2);
	CHECK(mutant_marks_capped(&marks, 500, delivered, 2) == 2);
	delivered += 2;
	CHECK(mutant_marks_capped(&marks, 500, delivered, 2) == 3);
	/* At twice what is wanted the cap is gone. */
	for (i = 0; i < 100 && marks.cap; i++)
		mutant_marks_capped(&marks, 10, delivered += 20, 10);
	CHECK(!marks.cap && mutant_marks_capped(&marks, 500, delivered, 10) == 500);
}

void test_laws(void)
{
	test_marks();
	test_jump_and_glide();
	test_fractions_add_up();
	test_pace_follows_the_path();
	test_idle_times();
	test_retreat();
	test_aimd();
}
