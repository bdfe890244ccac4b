// SPDX-License-Identifier: GPL-2.0-only
/* The queues on the two ways of a path, by TCP's timestamps. */
#include "mutant_back.h"
#include "tests.h"

#define MS	1000U
#define S	1000000U

/* A flow on a path of 40 ms, whose receiver's clock has @hz ticks a second and another zero. */
struct ways {
	struct mutant_path path;
	struct mutant_back back;
	u64 now_us;
	u32 delivered;
	u32 hz;
	u32 there_us, back_us;		/* queues that the last round trip showed, µs */
	bool known;
};

#define RTT_US		(40 * MS)
#define ZERO_MS		4294967000U	/* the receiver's clock wraps on the way */

static struct mutant_back_ack stamps(const struct ways *w, u32 there_us, u32 back_us)
{
	u32 rtt_us = RTT_US + there_us + back_us;
	u64 sent_us = w->now_us - back_us - RTT_US / 2;

	return (struct mutant_back_ack){
		.now_us = w->now_us,
		.rtt_us = rtt_us,
		.sent_ms = ZERO_MS + sent_us * w->hz / S,
		.echo_ms = (w->now_us - rtt_us) / MS,
	};
}

static void start(struct ways *w, u32 hz)
{
	struct mutant_back_ack ack;

	*w = (struct ways){ .now_us = 100 * S, .hz = hz };
	mutant_path_init(&w->path, w->now_us, 0, 0);
	ack = stamps(w, 0, 0);
	mutant_back_init(&w->back, &ack);
}

/* Run for @us with an ACK a millisecond, 40 packets in flight, and these queues. */
static void run(struct ways *w, u32 us, u32 there_us, u32 back_us)
{
	u64 end = w->now_us + us;

	while (w->now_us < end) {
		struct mutant_back_ack ack;
		struct mutant_path_ack round = { .in_flight = 40 };

		w->now_us += MS;
		ack = stamps(w, there_us, back_us);
		round.now_us = w->now_us;
		round.rtt_us = ack.rtt_us;
		round.delivered = ++w->delivered;
		mutant_back_heard(&w->back, ack.sent_ms, ack.echo_ms);
		if (!mutant_path_heard(&w->path, w->now_us, ack.rtt_us, w->delivered, false))
			continue;
		mutant_path_round_ends(&w->path, &round);
		mutant_back_round_ends(&w->back, &w->path, &ack, &w->there_us, &w->back_us);
		w->known = w->there_us || w->back_us;
	}
}

static bool near(u32 us, u32 expected_us)
{
	return us + MS >= expected_us && us <= expected_us + MS;
}

static void test_both_ways(void)
{
	struct ways w;

	start(&w, 1000);
	run(&w, 400 * MS, 0, 0);
	CHECK(!w.known);		/* a clock shows its ticks after half a second */
	run(&w, 600 * MS, 0, 0);
	CHECK(w.known && near(w.there_us, 0) && near(w.back_us, 0));
	run(&w, S, 30 * MS, 0);
	CHECK(w.known && near(w.there_us, 30 * MS) && near(w.back_us, 0));
	run(&w, S, 0, 50 * MS);
	CHECK(w.known && near(w.there_us, 0) && near(w.back_us, 50 * MS));
	run(&w, S, 30 * MS, 50 * MS);
	CHECK(w.known && near(w.there_us, 30 * MS) && near(w.back_us, 50 * MS));
	/* The two are the RTT beyond the floor, to the microsecond. */
	CHECK(w.there_us + w.back_us == 80 * MS);
}

/* A queue that lasts becomes a part of the floor, and of the least difference with it. */
static void test_window(void)
{
	struct ways w;

	start(&w, 1000);
	run(&w, S, 0, 0);
	run(&w, 12 * S, 30 * MS, 0);
	CHECK(w.known && near(w.there_us, 0) && near(w.back_us, 0));
	run(&w, S, 30 * MS, 20 * MS);
	CHECK(w.known && near(w.there_us, 0) && near(w.back_us, 20 * MS));
	/* It goes, and the way there is as it was. */
	run(&w, S, 0, 0);
	run(&w, S, 10 * MS, 0);
	CHECK(w.known && near(w.there_us, 10 * MS) && near(w.back_us, 0));
}

/* The path seems longer, and its floor begins anew with an RTT of before. A queue there is one still. */
static void test_floor_anew(void)
{
	struct ways w;

	start(&w, 1000);
	run(&w, S, 0, 0);
	run(&w, S, 40 * MS, 0);
	w.path.half_us = w.now_us;
	w.path.older_us = MUTANT_RTT_UNKNOWN;
	w.path.newer_us = RTT_US + 40 * MS;
	run(&w, 7 * S, 70 * MS, 0);
	CHECK(w.known && near(w.there_us, 30 * MS) && near(w.back_us, 0));
}

/* A clock whose ticks are not ours tells of no queue on the way back. */
static void test_clocks(void)
{
	static const u32 hz[] = { 0, 1, 10, 100, 250, 500 };
	struct ways w;
	u32 i;

	for (i = 0; i < sizeof(hz) / sizeof(*hz); i++) {
		start(&w, hz[i]);
		run(&w, S, 0, 0);
		run(&w, 2 * S, 30 * MS, 0);
		CHECK(!w.known);
	}
	start(&w, S);			/* microseconds */
	run(&w, S, 0, 0);
	run(&w, 2 * S, 30 * MS, 0);
	CHECK(near(w.back_us, 0));
	/* Clocks drift apart, in both directions, here by a thousandth. */
	for (i = 999; i <= 1001; i++) {
		start(&w, i);
		run(&w, 60 * S, 0, 0);
		run(&w, S, 10 * MS, 40 * MS);
		CHECK(w.known && w.there_us <= 20 * MS && w.back_us <= 50 * MS);
		CHECK(w.back_us >= 30 * MS);
	}
}

/* An ACK without an RTT tells nothing, and a delayed ACK no more than the RTT has. */
static void test_delayed(void)
{
	struct mutant_back_ack ack;
	struct ways w;
	u32 there_us = 7, back_us = 7;

	start(&w, 1000);
	run(&w, S, 0, 0);
	ack = stamps(&w, 10 * MS, 20 * MS);
	ack.rtt_us = -1;
	mutant_back_round_ends(&w.back, &w.path, &ack, &there_us, &back_us);
	CHECK(there_us == 0 && back_us == 0);
	ack = stamps(&w, 10 * MS, 20 * MS);
	ack.echo_ms -= 40;		/* the ACK waited for a second packet that did not come */
	mutant_back_round_ends(&w.back, &w.path, &ack, &there_us, &back_us);
	CHECK(there_us == 30 * MS && back_us == 0);
}

void test_back(void)
{
	test_both_ways();
	test_window();
	test_floor_anew();
	test_clocks();
	test_delayed();
}
