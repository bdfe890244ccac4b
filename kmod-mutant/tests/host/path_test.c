// SPDX-License-Identifier: GPL-2.0-only
/* The RTT floor, the rate, the bandwidth-delay product, and the window of a handover. */
#include "mutant_path.h"
#include "tests.h"

#define MS	1000U
#define S	1000000U

/* A path that delivers @rate_pps packets a second, @rtt_us after they were sent. */
struct road {
	struct mutant_path path;
	u64 now_us;
	u32 delivered;
};

static void start(struct road *road)
{
	road->now_us = 100 * S;
	road->delivered = 4000000000U;	/* the counter wraps on the way */
	mutant_path_init(&road->path, road->now_us, road->delivered, 0);
}

/* Run for @us with a full path: an ACK a packet, @window packets in flight. */
static u32 run(struct road *road, u32 us, u32 rate_pps, u32 rtt_us, u32 window, bool held_back)
{
	struct mutant_path_ack ack = {
		.rtt_us = rtt_us, .in_flight = window, .held_back = held_back,
	};
	u64 end = road->now_us + us;
	u32 rounds = 0;

	while (road->now_us < end) {
		road->now_us += S / rate_pps;
		ack.now_us = road->now_us;
		ack.delivered = ++road->delivered;
		if (mutant_path_heard(&road->path, ack.now_us, ack.rtt_us, ack.delivered,
				      ack.held_back)) {
			mutant_path_round_ends(&road->path, &ack);
			rounds++;
		}
	}
	return rounds;
}

static void test_floor_and_bdp(void)
{
	struct road road;
	u32 rounds;

	start(&road);
	CHECK(mutant_path_floor_us(&road.path) == MUTANT_RTT_UNKNOWN);
	CHECK(mutant_path_bdp(&road.path) == 0);

	/* 1000 packets/s, floor 40 ms, a queue that doubles the RTT: 80 packets in flight. */
	run(&road, S, 1000, 40 * MS, 40, false);
	rounds = run(&road, 4 * S, 1000, 80 * MS, 80, false);
	CHECK(rounds >= 48 && rounds <= 51);
	CHECK(mutant_path_floor_us(&road.path) == 40 * MS);
	CHECK(mutant_path_bdp(&road.path) >= 40 && mutant_path_bdp(&road.path) <= 42);

	/* What the application holds back tells nothing of the rate. */
	run(&road, S, 100, 40 * MS, 4, true);
	CHECK(mutant_path_bdp(&road.path) >= 40);
	/* What nobody holds back does. */
	run(&road, S, 500, 80 * MS, 40, false);
	CHECK(mutant_path_bdp(&road.path) >= 19 && mutant_path_bdp(&road.path) <= 21);

	/* After 10 s, what lasts is no queue any more. */
	run(&road, 11 * S, 500, 80 * MS, 40, false);
	CHECK(mutant_path_floor_us(&road.path) == 80 * MS);
	/* A shorter path is known after a round trip. */
	run(&road, 200 * MS, 500, 20 * MS, 10, false);
	CHECK(mutant_path_floor_us(&road.path) == 20 * MS);
}

/* The window is cut to @window; what was in flight still arrives at @rate_pps with @rtt_us. */
static void cut(struct road *road, u32 window, u32 rate_pps, u32 rtt_us, u32 in_flight)
{
	mutant_path_cut(&road->path, window, road->delivered, in_flight);
	run(road, in_flight * (S / rate_pps), rate_pps, rtt_us, window, false);
}

static void test_cuts(void)
{
	struct road road;

	/* The path grew from 40 to 120 ms; a cut to a third brings no shorter RTT. */
	start(&road);
	run(&road, 2 * S, 1000, 40 * MS, 40, false);
	run(&road, S, 333, 120 * MS, 40, false);
	cut(&road, 17, 333, 120 * MS, 40);
	run(&road, 400 * MS, 111, 120 * MS, 13, false);
	CHECK(mutant_path_floor_us(&road.path) == 120 * MS);
	CHECK(road.path.longer);

	/* The same, with a cut between the last ACK of a round trip and the first of the next. */
	start(&road);
	run(&road, 2 * S, 1000, 40 * MS, 40, false);
	run(&road, S, 333, 120 * MS, 40, false);
	while (!run(&road, 1, 333, 120 * MS, 40, false))
		;
	cut(&road, 17, 333, 120 * MS, 40);
	run(&road, 400 * MS, 111, 120 * MS, 13, false);
	CHECK(mutant_path_floor_us(&road.path) == 120 * MS);

	/* The RTT is the same, but it was a queue: the floor stays. */
	start(&road);
	run(&road, 2 * S, 1000, 40 * MS, 40, false);
	run(&road, S, 1000, 120 * MS, 120, false);
	cut(&road, 44, 1000, 120 * MS, 120);
	run(&road, 400 * MS, 1000, 44 * MS, 44, false);
	CHECK(!road.path.longer);
	CHECK(mutant_path_floor_us(&road.path) == 40 * MS);

	/* No cut: a standing queue is a queue until the window of 10 s is over. */
	run(&road, S, 1000, 120 * MS, 120, false);
	CHECK(mutant_path_floor_us(&road.path) == 40 * MS);
}

/* At any moment of a round trip a cut leaves packets in flight, which the whole queue holds up. */
static void test_cut_before_a_queue(void)
{
	struct road road;
	u32 us;

	for (us = 0; us < 120 * MS; us += 5 * MS) {
		start(&road);
		run(&road, 2 * S, 1000, 40 * MS, 40, false);
		run(&road, S, 1000, 120 * MS, 120, false);
		while (!run(&road, 1, 1000, 120 * MS, 120, false))
			;
		run(&road, us, 1000, 120 * MS, 120, false);
		cut(&road, 44, 1000, 120 * MS, 120);
		run(&road, 400 * MS, 1000, 44 * MS, 44, false);
		CHECK(mutant_path_floor_us(&road.path) == 40 * MS);
		CHECK(!road.path.longer);
	}
}

/* Two packets fill a path of 3 ms. A window of six holds a queue of four, and eight had six. */
static void test_cut_on_a_short_path(void)
{
	struct road road;

	start(&road);
	run(&road, S, 667, 3 * MS, 2, false);
	run(&road, S, 667, 12 * MS, 8, false);
	CHECK(mutant_path_bdp(&road.path) >= 2 && mutant_path_bdp(&road.path) <= 3);
	cut(&road, mutant_path_bdp(&road.path) + 4, 667, 12 * MS, 8);
	run(&road, 100 * MS, 667, 10 * MS, 7, false);
	CHECK(mutant_path_floor_us(&road.path) == 3 * MS);
	CHECK(!road.path.longer);

	/* It grew to 40 ms: no window of seven explains that. */
	run(&road, S, 175, 40 * MS, 7, false);
	cut(&road, 4, 175, 40 * MS, 7);
	run(&road, 200 * MS, 100, 40 * MS, 4, false);
	CHECK(mutant_path_floor_us(&road.path) == 40 * MS);
}

static u32 handed_over(struct road *road, u32 mode, u32 window, u32 in_flight, bool own_model,
		       u32 *ssthresh)
{
	return mutant_handover_window(&road->path, mode, window, in_flight, own_model, ssthresh);
}

static void test_handover(void)
{
	u32 ssthresh = 0x7fffffff, bdp;
	struct road road;

	start(&road);
	/* Nothing is known yet: nothing changes. */
	CHECK(handed_over(&road, MUTANT_HANDOVER_MODE_BDP, 500, 500, false, &ssthresh) == 500);
	CHECK(ssthresh == 0x7fffffff);
	run(&road, 2 * S, 1000, 40 * MS, 40, false);
	run(&road, S, 1000, 120 * MS, 120, false);
	bdp = mutant_path_bdp(&road.path);
	CHECK(bdp >= 40 && bdp <= 42);

	CHECK(handed_over(&road, MUTANT_HANDOVER_MODE_AS_IS, 120, 120, false, &ssthresh) == 120);
	CHECK(ssthresh == 0x7fffffff);
	/* A window arm goes on from the product, in congestion avoidance. */
	CHECK(handed_over(&road, MUTANT_HANDOVER_MODE_BDP, 120, 120, false, &ssthresh) == bdp + 4);
	CHECK(ssthresh == bdp + 4);
	/* It never gets more than the last arm had, and a lower threshold stays. */
	ssthresh = 10;
	CHECK(handed_over(&road, MUTANT_HANDOVER_MODE_BDP, 20, 20, false, &ssthresh) == 20);
	CHECK(handed_over(&road, MUTANT_HANDOVER_MODE_BDP, 120, 120, false, &ssthresh) == bdp + 4);
	CHECK(ssthresh == 10);
	/* BBR lets the queue go: 2 BDP - in flight, 4 at least; its threshold is its own. */
	ssthresh = 0x7fffffff;
	CHECK(handed_over(&road, MUTANT_HANDOVER_MODE_BDP, 120, 60, true, &ssthresh) == 2 * bdp - 60);
	CHECK(handed_over(&road, MUTANT_HANDOVER_MODE_BDP, 120, 120, true, &ssthresh) == 4);
	CHECK(handed_over(&road, MUTANT_HANDOVER_MODE_BDP, 120, 30, true, &ssthresh) == 120);
	CHECK(ssthresh == 0x7fffffff);
	/* Draining does that for every arm, and slow start brings the product back. */
	CHECK(handed_over(&road, MUTANT_HANDOVER_MODE_DRAIN, 120, 60, false, &ssthresh) ==
	      2 * bdp - 60);
	CHECK(ssthresh == bdp);
	CHECK(handed_over(&road, MUTANT_HANDOVER_MODE_DRAIN, 120, 4000000000U, false,
			  &ssthresh) == 4);
	CHECK(handed_over(&road, MUTANT_HANDOVER_MODE_DRAIN, 120, 20, false, &ssthresh) == bdp + 4);
}

/* Run for @us with ACKs in turns: @pkts of them at once, and then nothing for @silent_us. */
static void run_turns(struct road *road, u32 us, u32 pkts, u32 silent_us, u32 rtt_us)
{
	struct mutant_path_ack ack = { .rtt_us = rtt_us, .in_flight = pkts };
	u64 end = road->now_us + us;
	u32 i;

	while (road->now_us < end) {
		road->now_us += silent_us;
		ack.now_us = road->now_us;
		for (i = 0; i < pkts; i++) {
			ack.delivered = ++road->delivered;
			if (mutant_path_heard(&road->path, ack.now_us, ack.rtt_us, ack.delivered,
					      false))
				mutant_path_round_ends(&road->path, &ack);
		}
	}
}

static void test_turns(void)
{
	u32 ssthresh = 0x7fffffff, bdp;
	struct road road;

	start(&road);
	CHECK(mutant_path_turn(&road.path) == 0);
	/* 8000 packets/s, evenly, on a path of 2 ms: a queue makes no turns. */
	run(&road, S, 8000, 2 * MS, 16, false);
	run(&road, S, 8000, 12 * MS, 96, false);
	CHECK(mutant_path_turn(&road.path) == 0);
	/* As many in turns of 10 ms: 80 packets come at once. */
	run_turns(&road, S, 80, 10 * MS, 12 * MS);
	bdp = mutant_path_bdp(&road.path);
	CHECK(bdp >= 16 && bdp <= 17);
	CHECK(mutant_path_turn(&road.path) >= 76 && mutant_path_turn(&road.path) <= 80);
	CHECK(handed_over(&road, MUTANT_HANDOVER_MODE_BDP, 200, 120, false, &ssthresh) ==
	      bdp + mutant_path_turn(&road.path) + 4);
	/* A burst of the flow's own ten packets is silent for the RTT, and no turn. */
	start(&road);
	run_turns(&road, S, 10, 40 * MS, 40 * MS);
	CHECK(mutant_path_turn(&road.path) == 0);
	/* A slow link's delayed ACKs are none. */
	start(&road);
	run(&road, S, 100, 7 * MS, 2, false);
	run_turns(&road, S, 2, 20 * MS, 20 * MS);
	CHECK(mutant_path_turn(&road.path) == 0);
	/* What the application holds back tells nothing. */
	run_turns(&road, S, 80, 10 * MS, 12 * MS);
	bdp = mutant_path_turn(&road.path);
	run(&road, S, 10, 7 * MS, 2, true);
	CHECK(mutant_path_turn(&road.path) == bdp);
}

static void test_coarse_rtts(void)
{
	/* 4.4 ms by the timestamps of a retransmitted packet is 4 ms. */
	CHECK(mutant_rtt_coarse(4 * MS, 1));
	CHECK(mutant_rtt_coarse(120 * MS, 1));
	CHECK(!mutant_rtt_coarse(4400, 1));
	/* Without a retransmission there is no such RTT. */
	CHECK(!mutant_rtt_coarse(4 * MS, 0));
	CHECK(!mutant_rtt_coarse(-1, 1));
}

static void test_exact_floor(void)
{
	struct road road;

	start(&road);
	CHECK(mutant_path_exact_us(&road.path, 1) == MUTANT_RTT_UNKNOWN);
	run(&road, S, 1000, 6400, 6, false);
	run(&road, 100 * MS, 1000, 4 * MS, 6, false);
	CHECK(mutant_path_floor_us(&road.path) == 4 * MS);
	CHECK(mutant_path_exact_us(&road.path, 0) == 4 * MS);
	/* 6.4 ms cannot be 4 ms in whole milliseconds, so a queue stood. */
	CHECK(mutant_path_exact_us(&road.path, 1) == 4999);
	run(&road, S, 1000, 4400, 6, false);
	CHECK(mutant_path_exact_us(&road.path, 1) == 4400);
	/* It goes with the floor, when the path becomes longer. */
	run(&road, 11 * S, 1000, 9 * MS, 9, false);
	CHECK(mutant_path_floor_us(&road.path) == 9 * MS);
	CHECK(mutant_path_exact_us(&road.path, 1) == 9999);
}

void test_path(void)
{
	test_coarse_rtts();
	test_exact_floor();
	test_floor_and_bdp();
	test_cuts();
	test_cut_before_a_queue();
	test_cut_on_a_short_path();
	test_handover();
	test_turns();
}
