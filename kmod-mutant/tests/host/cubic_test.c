// SPDX-License-Identifier: GPL-2.0-only
/* Cubic in fixed point against RFC 9438 in floating point. */
#include <math.h>
#include <stdlib.h>

#include "mutant_cubic.h"
#include "tests.h"

#define RTT_US	50000

static void test_cube_root(void)
{
	u32 i, wrong = 0;

	CHECK(mutant_cube_root(0) == 0 && mutant_cube_root(7) == 1 && mutant_cube_root(8) == 2);
	CHECK(mutant_cube_root(~0ULL >> 1) == (1 << 21) - 1);
	for (i = 0; i < 100000; i++) {
		u64 root = random_below(1 << 21), cube = root * root * root;

		wrong += mutant_cube_root(cube) != root;
		wrong += cube && mutant_cube_root(cube - 1) != root - 1;
	}
	CHECK(!wrong);
}

struct flow {
	struct mutant_cubic cubic;
	struct mutant_cubic_ack ack;
	u32 window, fraction;
	u32 value[MUTANT_CONTROL_VALUES];
};

static void flow_start(struct flow *f, u32 window, double beta, double c)
{
	memset(f, 0, sizeof(*f));
	f->window = window;
	f->value[CUBIC_BETA] = beta * MUTANT_ONE;
	f->value[CUBIC_C] = c * MUTANT_ONE;
	f->ack.now_us = 1000000;
	f->ack.min_rtt_us = RTT_US;
	f->ack.srtt_us = RTT_US;
	f->ack.used = true;
	f->ack.acked = 1;
}

/* Acknowledge a window's packets for a time. */
static void flow_run(struct flow *f, double seconds)
{
	u64 end = f->ack.now_us + seconds * 1e6;

	while (f->ack.now_us < end) {
		f->ack.now_us += RTT_US / f->window;
		f->window = mutant_cubic_avoid(&f->cubic, f->window, &f->fraction, &f->ack,
					       f->value);
	}
}

/* Each beta and C: back at the window before the loss after K, flat there, and beyond it later. */
static void test_curve(void)
{
	static const double constants[][2] = {
		{ 0.7, 0.4 }, { 0.5, 0.4 }, { 0.9, 0.4 }, { 0.7, 4 }, { 0.7, 0.1 },
	};
	const u32 w_max = 2000;
	u32 i;

	for (i = 0; i < sizeof(constants) / sizeof(*constants); i++) {
		double beta = constants[i][0], c = constants[i][1];
		double k = cbrt(w_max * (1 - beta) / c), t;
		struct flow f;

		flow_start(&f, w_max, beta, c);
		f.window = mutant_cubic_back_off(&f.cubic, w_max, f.value);
		CHECK(abs((int)f.window - (int)(beta * w_max)) <= 1);
		/* The curve is ahead by an RTT, and the window behind it by one. */
		for (t = k / 4; t < 1.5 * k; t += k / 4) {
			double wanted;

			flow_run(&f, k / 4);
			wanted = w_max + c * pow(t - k, 3);
			CHECK(fabs(f.window - wanted) < 0.02 * w_max);
		}
	}
}

/* At a small window and a short round trip, Reno's line is above the curve. */
static void test_reno_friendly(void)
{
	struct flow f;
	double wanted;

	flow_start(&f, 20, 0.7, 0.01);
	f.window = mutant_cubic_back_off(&f.cubic, 20, f.value);
	flow_run(&f, 2);
	wanted = 14 + 2e6 / RTT_US * 3 * 0.3 / 1.7;
	CHECK(fabs(f.window - wanted) < 3);
}

static void test_fast_convergence(void)
{
	struct flow f;

	flow_start(&f, 1000, 0.7, 0.4);
	f.window = mutant_cubic_back_off(&f.cubic, 1000, f.value);
	CHECK(f.cubic.w_max == 1000);
	mutant_cubic_back_off(&f.cubic, 800, f.value);
	CHECK(abs((int)f.cubic.w_max - 680) <= 1);
}

/* A pause, and time with the window half empty, are not on the curve. */
static void test_idle_time_does_not_count(void)
{
	struct flow f, g;

	flow_start(&f, 500, 0.7, 0.4);
	f.window = mutant_cubic_back_off(&f.cubic, 500, f.value);
	flow_run(&f, 2);
	g = f;
	g.ack.now_us += 60000000;
	g.ack.used = false;
	flow_run(&g, 1);
	CHECK(g.window == f.window);
	g.ack.used = true;
	flow_run(&f, 1);
	flow_run(&g, 1);
	CHECK(abs((int)f.window - (int)g.window) <= 2);
}

/* Whatever comes: within the limits, and never up by more than half of what was acknowledged. */
static void test_limits(void)
{
	u32 i, wrong = 0;
	struct flow f;

	flow_start(&f, 10, 0.7, 0.4);
	for (i = 0; i < 300000; i++) {
		u32 before = f.window;

		f.ack.now_us += random_below(random_below(100) ? 100000 : ~0U);
		f.ack.acked = 1 + random_below(random_below(10) ? 10 : 100000);
		f.ack.min_rtt_us = random_below(2000000);
		f.ack.srtt_us = f.ack.min_rtt_us + random_below(1000000);
		f.ack.used = random_below(10);
		f.value[CUBIC_BETA] = MUTANT_ONE * 3 / 10 + random_below(MUTANT_ONE / 2);
		f.value[CUBIC_C] = MUTANT_ONE / 100 + random_below(9 * MUTANT_ONE);
		f.window = mutant_cubic_avoid(&f.cubic, f.window, &f.fraction, &f.ack, f.value);
		wrong += f.window < before || f.window > MUTANT_WINDOW_MAX ||
			 f.window - before > f.ack.acked / 2 + 1;
		if (!random_below(50))
			f.window = mutant_cubic_back_off(&f.cubic, f.window, f.value);
		if (!random_below(1000))
			f.window = 1 + random_below(MUTANT_WINDOW_MAX - 1);
	}
	CHECK(!wrong);
}

/* The round in which slow start ends, of ACKs that come @gap_us apart; 0 if it does not. */
static u32 leaves_in(u32 window, u32 gap_us, u32 late_us, u32 delayed_round)
{
	struct mutant_cubic_ack ack = { .acked = 1, .now_us = 1000000, .min_rtt_us = RTT_US };
	struct mutant_cubic c = {};
	u32 i, round;

	for (round = 1; round <= 5; round++) {
		ack.now_us += RTT_US;
		for (i = 0; i < 20; i++) {
			ack.delivered++;
			ack.prior_delivered = ack.delivered > 20 ? ack.delivered - 20 : 0;
			ack.now_us += gap_us;
			/* One packet of every round is late, whatever the others are. */
			ack.rtt_us = RTT_US + (i == 3 || round >= delayed_round ? late_us : 1000);
			if (mutant_cubic_queues(&c, window, &ack))
				return round;
		}
	}
	return 0;
}

/* Slow start ends with a delayed round, not a late packet; or with a train as long as the RTT. */
static void test_hystart(void)
{
	CHECK(leaves_in(20, 100, 8000, 5) == 5);
	CHECK(leaves_in(20, 100, 8000, 6) == 0);
	CHECK(leaves_in(20, 100, 6000, 5) == 0);
	CHECK(leaves_in(15, 100, 8000, 1) == 0);
	/* Close together they end before the round trip does; further apart they are no train. */
	CHECK(leaves_in(20, 2000, 1000, 6) == 0);
	CHECK(leaves_in(20, 2700, 1000, 6) == 0);
}

static void test_ack_train(void)
{
	struct mutant_cubic_ack ack = { .acked = 1, .rtt_us = RTT_US, .min_rtt_us = RTT_US };
	struct mutant_cubic c = {};
	u32 i;

	for (i = 1; i < 100; i++) {
		ack.now_us += 1000;
		ack.delivered = i;
		ack.prior_delivered = 0;
		if (mutant_cubic_queues(&c, 100, &ack))
			break;
	}
	CHECK(i == 1 + RTT_US / 1000 + 1);
}

void test_cubic(void)
{
	test_cube_root();
	test_curve();
	test_reno_friendly();
	test_fast_convergence();
	test_idle_time_does_not_count();
	test_limits();
	test_hystart();
	test_ack_train();
}
