// SPDX-License-Identifier: GPL-2.0-only
/* Pulses on made paths: a window, a rate and an RTT floor that say how long each round trip takes. */
#include "mutant_pulse.h"
#include "tests.h"

#define FLOOR_US	40000U

struct road {
	struct mutant_path path;
	struct mutant_pulse pulse;
	u64 now_us;
	u32 delivered;
	u32 window;
	u32 before;			/* window when the last round trip began */
	u32 rate_pps;
	u32 behind;			/* packets that the ACKs in the way back's queue stand for; 0: none */
};

/* The RTT of a window: the path's, or longer by the queue that it makes. */
static u32 rtt_us(const struct road *road)
{
	u32 window = road->behind && road->window > road->behind ? road->behind : road->window;
	u64 full_us = 1000000ULL * window / road->rate_pps;

	return full_us > FLOOR_US ? full_us : FLOOR_US;
}

/*
 * The queue that the ACK of packet @i of @window tells, 1 ms for each packet beyond the full queue
 * of ACKs. The packet was sent in the round trip before, in which the window grew from @before.
 */
static u32 there_us(const struct road *road, u32 i, u32 window)
{
	u32 then = road->before + (s64)((s32)window - (s32)road->before) * i / window;

	return road->behind && then > road->behind ? 1000 * (then - road->behind) : 0;
}

/* One round trip: the whole window is acknowledged, a packet an ACK. */
static void round_trip(struct road *road, bool held_back)
{
	u32 i, us = rtt_us(road), window = road->window;
	struct mutant_path_ack ack = { .rtt_us = us };

	for (i = 1; i <= window; i++) {
		road->window += mutant_pulse_grow(&road->pulse, 1, ~0U);
		if (mutant_pulse_full(&road->pulse, &road->path, there_us(road, i, window)))
			road->window -= mutant_pulse_filled(&road->pulse, road->window);
		ack.now_us = road->now_us + (u64)us * i / window;
		ack.delivered = ++road->delivered;
		ack.in_flight = road->window;
		if (!mutant_path_heard(&road->path, ack.now_us, us, ack.delivered, held_back))
			continue;
		mutant_path_round_ends(&road->path, &ack);
		road->window -= mutant_pulse_round_ends(&road->pulse, &road->path, held_back,
							road->window);
	}
	road->now_us += us;
	road->before = window;
}

static void start(struct road *road, u32 window, u32 rate_pps)
{
	*road = (struct road){ .now_us = 1000000, .window = window, .rate_pps = rate_pps };
	mutant_path_init(&road->path, road->now_us, 0, window);
	round_trip(road, false);
	round_trip(road, false);
	mutant_pulse_begin(&road->pulse, &road->path, road->window, MUTANT_PULSE_KIND_MORE);
}

/* A path that holds eight times the window: it is filled within twenty round trips. */
static void test_more(void)
{
	struct road road;
	u32 i;

	start(&road, 40, 8000);
	for (i = 0; i < 20; i++)
		round_trip(&road, false);
	CHECK(road.pulse.gained);
	CHECK(road.window >= 280 && road.window <= 400);
	/* It grows no further. */
	for (i = 0; i < 20; i++)
		round_trip(&road, false);
	CHECK(road.pulse.phase == MUTANT_PULSE_NONE);
	CHECK(road.window >= 280 && road.window <= 400);
}

/* A path that is full: the window grows once by a quarter, and goes back. */
static void test_no_more(void)
{
	struct road road;
	u32 most = 0, i;

	start(&road, 100, 2500);
	for (i = 0; i < 6; i++) {
		round_trip(&road, false);
		most = road.window > most ? road.window : most;
	}
	CHECK(most == 125);
	CHECK(road.window == 100);
	CHECK(!road.pulse.gained);
	CHECK(road.pulse.phase == MUTANT_PULSE_NONE);
}

/* What the arm itself adds or takes meanwhile stays. */
static void test_arm_moves(void)
{
	struct road road;

	start(&road, 100, 2500);
	round_trip(&road, false);
	CHECK(road.window == 125);
	road.window += 3;
	round_trip(&road, false);
	round_trip(&road, false);
	CHECK(road.window == 103);
}

static void test_ends_early(void)
{
	struct road road;

	/* A loss. */
	start(&road, 100, 8000);
	road.window += mutant_pulse_grow(&road.pulse, 40, ~0U);
	CHECK(road.window == 110);
	CHECK(mutant_pulse_stop(&road.pulse) == 10);
	CHECK(mutant_pulse_grow(&road.pulse, 40, ~0U) == 0);
	CHECK(mutant_pulse_stop(&road.pulse) == 0);

	/* An application that has too little to send. */
	start(&road, 100, 8000);
	round_trip(&road, true);
	CHECK(road.window == 100);
	CHECK(road.pulse.phase == MUTANT_PULSE_NONE);
	CHECK(!road.pulse.gained);

	/* A window of which a quarter is hardly a packet. */
	start(&road, 7, 8000);
	CHECK(road.pulse.phase == MUTANT_PULSE_NONE);
}

/* However the ACKs come, a pulse adds a quarter at most, and gives back just that. */
static void test_bounds(void)
{
	struct road road;
	u32 i, before;

	for (i = 0; i < 1000; i++) {
		start(&road, 8 + random_below(2000), 100 + random_below(100000));
		before = road.window;
		while (random_below(8))
			road.window += mutant_pulse_grow(&road.pulse, random_below(before), ~0U);
		CHECK(road.window <= before + before / 4);
		CHECK(road.window - mutant_pulse_stop(&road.pulse) == before);
	}
}

/* What a clamp leaves no room for was not added, and is not given back. */
static void test_clamp(void)
{
	struct road road;

	start(&road, 100, 8000);
	CHECK(mutant_pulse_grow(&road.pulse, 40, 3) == 3);
	CHECK(mutant_pulse_grow(&road.pulse, 40, 0) == 0);
	CHECK(mutant_pulse_stop(&road.pulse) == 3);
}

/* A full queue of ACKs stands for @behind packets, of which its slow way back carries 1000 a second. */
static void start_filling(struct road *road, u32 window, u32 behind)
{
	start(road, window, 1000);
	mutant_pulse_stop(&road->pulse);
	road->behind = behind;
	mutant_pulse_begin(&road->pulse, &road->path, road->window, MUTANT_PULSE_KIND_FILL);
}

/* The window grows by a quarter in each round trip, beyond the queue of ACKs, and hardly further. */
static void test_fill(void)
{
	struct road road;
	u32 i, behind, most;

	for (behind = 100; behind < 3000; behind += 70) {
		start_filling(&road, 50, behind);
		for (i = most = 0; i < 25; i++) {
			round_trip(&road, false);
			most = road.window > most ? road.window : most;
		}
		CHECK(road.pulse.gained);
		CHECK(road.pulse.phase == MUTANT_PULSE_NONE);
		CHECK(most > behind && most <= behind + behind / 3 + 100);
		CHECK(road.window >= behind && road.window <= behind + behind / 16 + 8);
	}
}

/* Where the way there is full already, the window stays as it was. */
static void test_fill_full(void)
{
	struct road road;
	u32 i;

	start_filling(&road, 200, 100);
	for (i = 0; i < 3; i++)
		round_trip(&road, false);
	CHECK(road.window == 200);
	CHECK(!road.pulse.gained);

	/* An application that has too little to send. */
	start_filling(&road, 50, 1600);
	round_trip(&road, true);
	CHECK(road.window == 50);
	CHECK(!road.pulse.gained);
}

void test_pulses(void)
{
	test_fill();
	test_fill_full();
	test_clamp();
	test_more();
	test_no_more();
	test_arm_moves();
	test_ends_early();
	test_bounds();
}
