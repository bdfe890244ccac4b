// SPDX-License-Identifier: GPL-2.0-only
/* Flows that resume on made paths: each MUST of RFC 9959 has a test that breaks with it. */
#include "mutant_resume.h"
#include "tests.h"

#define MSS		1448U
#define RTT_US		80000U
#define NS_PER_S	1000000000ULL
#define NOW_NS		(1000 * NS_PER_S)
#define NO_LIMIT	(~0ULL)
/* Numbers near their wraps, as the first ones of a real flow may be. */
#define FIRST_BYTE	(~0U - 20 * MSS)
#define FIRST_PACKET	(~0U - 5)

/* A flow that sends whole packets over a path that delivers all of them a round trip later. */
struct flow {
	struct mutant_resume r;
	struct mutant_resume_ack ack;
};

static void begin(struct flow *flow)
{
	*flow = (struct flow){ .ack = {
		.now_us = 5000000, .una = FIRST_BYTE, .sacked = FIRST_BYTE, .next = FIRST_BYTE,
		.delivered = FIRST_PACKET, .window = 10, .slow_start = true,
	} };
	mutant_resume_init(&flow->r, &flow->ack, true);
}

static void send(struct flow *flow, u32 pkts)
{
	flow->ack.next += pkts * MSS;
	flow->ack.in_flight += pkts;
}

/* @pkts are acknowledged in order, after @us. */
static void acknowledge(struct flow *flow, u32 pkts, u32 us)
{
	flow->ack.full = flow->ack.in_flight >= flow->ack.window;
	flow->ack.now_us += us;
	flow->ack.una += pkts * MSS;
	flow->ack.sacked = flow->ack.una;
	flow->ack.delivered += pkts;
	flow->ack.in_flight -= pkts;
}

/* @pkts are acknowledged in order after @us, with their RTT. */
static void acknowledge_in(struct flow *flow, u32 pkts, u32 us, u32 rtt_us)
{
	acknowledge(flow, pkts, us);
	flow->ack.rtt_us = rtt_us;
}

static u32 acked(struct flow *flow)
{
	flow->ack.window = mutant_resume_acked(&flow->r, &flow->ack);
	return flow->ack.window;
}

/* The first window has been sent and acknowledged; what its ACKs let out is in flight. */
static void reconnoitre(struct flow *flow)
{
	begin(flow);
	send(flow, 10);
	acknowledge(flow, 2, RTT_US);
	CHECK(!mutant_resume_reconnoitred(&flow->r, &flow->ack));
	send(flow, 4);
	acknowledge(flow, 7, 0);
	CHECK(!mutant_resume_reconnoitred(&flow->r, &flow->ack));
	send(flow, 14);
	acknowledge(flow, 1, 0);
	CHECK(mutant_resume_reconnoitred(&flow->r, &flow->ack));
}

/* A jump to 200 packets with 18 in flight, all of it sent. */
static void jump(struct flow *flow)
{
	reconnoitre(flow);
	CHECK(flow->ack.in_flight == 18);
	flow->ack.window = 200;
	flow->ack.full = false;
	mutant_resume_jump(&flow->r, &flow->ack, 200, RTT_US);
	CHECK(flow->r.phase == MUTANT_RESUME_UNVALIDATED && flow->r.pipe == 18);
	CHECK(acked(flow) == 200);
	send(flow, 200 - 18);
}

static struct mutant_resume carried(u32 pkts, u32 rtt_us, bool open)
{
	return (struct mutant_resume){
		.carried = { pkts, pkts / 2 }, .least_us = rtt_us, .open = open,
	};
}

static struct mutant_saved saved(u32 pkts, u32 rtt_us)
{
	struct mutant_resume r = carried(pkts, rtt_us, false);
	struct mutant_saved s = {};

	mutant_saved_keep(&s, &r, MSS, NOW_NS);
	return s;
}

static void test_jump_window(void)
{
	struct mutant_saved s = saved(501, RTT_US);
	u32 pkts, i;

	/* Half, in packets of the new flow, and never more than was allowed. */
	CHECK(mutant_saved_jump(&s, NO_LIMIT, MSS, RTT_US, NOW_NS) == 250);
	CHECK(mutant_saved_jump(&s, NO_LIMIT, 2 * MSS, RTT_US, NOW_NS) == 125);
	CHECK(mutant_saved_jump(&s, 100 * MSS + 1, MSS, RTT_US, NOW_NS) == 100);
	for (i = 0; i < 1000; i++) {
		pkts = 40 + random_below(1000000);
		s = saved(pkts, RTT_US);
		CHECK(mutant_saved_jump(&s, NO_LIMIT, MSS, RTT_US, NOW_NS) <= pkts / 2);
	}
	/* Slow start goes on up to what was saved, where that was not a flow in slow start. */
	s = saved(500, RTT_US);
	CHECK(mutant_saved_ssthresh(&s, MSS) == 500 && mutant_saved_ssthresh(&s, 2 * MSS) == 250);
	s.open = true;
	CHECK(mutant_saved_ssthresh(&s, MSS) == 0x7fffffff);
	CHECK(!mutant_saved_jump(&(struct mutant_saved){}, NO_LIMIT, MSS, RTT_US, NOW_NS));
	CHECK(!mutant_saved_jump(&s, NO_LIMIT, 0, RTT_US, NOW_NS));
}

/* Five minutes, to the nanosecond. */
static void test_age(void)
{
	struct mutant_saved s = saved(500, RTT_US);

	CHECK(mutant_saved_jump(&s, NO_LIMIT, MSS, RTT_US, NOW_NS + 300 * NS_PER_S));
	CHECK(!mutant_saved_jump(&s, NO_LIMIT, MSS, RTT_US, NOW_NS + 300 * NS_PER_S + 1));
}

/* The RTT is more than half of the saved one, and no more than ten times. */
static void test_rtt(void)
{
	struct mutant_saved s = saved(500, RTT_US);

	CHECK(!mutant_saved_jump(&s, NO_LIMIT, MSS, RTT_US / 2, NOW_NS));
	CHECK(mutant_saved_jump(&s, NO_LIMIT, MSS, RTT_US / 2 + 1, NOW_NS));
	CHECK(mutant_saved_jump(&s, NO_LIMIT, MSS, 10 * RTT_US, NOW_NS));
	CHECK(!mutant_saved_jump(&s, NO_LIMIT, MSS, 10 * RTT_US + 1, NOW_NS));
	/* No product overflows. */
	s = saved(500, ~0U);
	CHECK(!mutant_saved_jump(&s, NO_LIMIT, MSS, ~0U / 2, NOW_NS));
	CHECK(mutant_saved_jump(&s, NO_LIMIT, MSS, ~0U, NOW_NS));
}

static void test_keep(void)
{
	struct mutant_saved s = saved(500, RTT_US);
	struct mutant_resume large = carried(600, RTT_US + 1, true);
	struct mutant_resume small = carried(100, RTT_US, true);
	struct mutant_resume least = carried(40, RTT_US, false);
	struct mutant_resume less = carried(39, RTT_US, false);
	struct mutant_resume none = carried(0, RTT_US, false);
	struct mutant_resume young = carried(39, RTT_US, true);
	u64 later_ns = NOW_NS + NS_PER_S;

	/* A flow without a queue says what the path carries at least. */
	mutant_saved_keep(&s, &small, MSS, later_ns);
	CHECK(s.window_bytes == 500ULL * MSS && s.since_ns == NOW_NS);
	mutant_saved_keep(&s, &young, MSS, later_ns);
	mutant_saved_keep(&s, &none, MSS, later_ns);
	CHECK(s.window_bytes == 500ULL * MSS && s.since_ns == NOW_NS);
	mutant_saved_keep(&s, &large, MSS, later_ns);
	CHECK(s.window_bytes == 600ULL * MSS && s.since_ns == later_ns && s.rtt_us == RTT_US + 1);
	/* What is too old counts for nothing. */
	mutant_saved_keep(&s, &small, MSS, later_ns + 300 * NS_PER_S + 1);
	CHECK(s.window_bytes == 100ULL * MSS);
	/* Four initial windows are enough, less is not. */
	mutant_saved_keep(&s, &least, MSS, later_ns);
	CHECK(s.window_bytes == 40ULL * MSS);
	mutant_saved_keep(&s, &less, MSS, later_ns);
	CHECK(!s.window_bytes);
}

/* A round trip in which the window of @pkts is delivered within @us. */
static void observe_round(struct flow *flow, u32 pkts, u32 us)
{
	u32 i, all = pkts;

	send(flow, pkts - flow->ack.in_flight);
	flow->ack.window = pkts;
	/* The round trip that the flow's first packet has begun. */
	for (i = 0; i < all; i++) {
		acknowledge_in(flow, 1, us / all, us);
		mutant_resume_observe(&flow->r, &flow->ack, RTT_US);
		send(flow, 1);
	}
}

static void test_observe(void)
{
	struct flow flow;
	u32 i;

	begin(&flow);
	flow.ack.slow_start = false;
	for (i = 0; i < 4; i++)
		observe_round(&flow, 100, RTT_US);
	CHECK(mutant_resume_carried(&flow.r) >= 95 && mutant_resume_carried(&flow.r) <= 100);
	/* Without a queue this is not all that the path carries. */
	CHECK(flow.r.open);
	/* A queue doubles the round trip: the path carries no more than before. */
	for (i = 0; i < 4; i++)
		observe_round(&flow, 200, 2 * RTT_US);
	CHECK(mutant_resume_carried(&flow.r) >= 95 && mutant_resume_carried(&flow.r) <= 101);
	CHECK(!flow.r.open);
	/* Round trips that the application held back say nothing. */
	flow.ack.limited = true;
	for (i = 0; i < 4; i++)
		observe_round(&flow, 200, RTT_US);
	CHECK(mutant_resume_carried(&flow.r) <= 101);
	flow.ack.limited = false;
	/* One ACK of them is enough, and the round trips behind it count again. */
	for (i = 0; i < 4; i++)
		observe_round(&flow, 200, RTT_US);
	CHECK(mutant_resume_carried(&flow.r) >= 190);
}

/* In slow start half of the window counts, however much has been delivered. */
static void test_observe_slow_start(void)
{
	struct flow flow;
	u32 i;

	begin(&flow);
	for (i = 0; i < 4; i++)
		observe_round(&flow, 100, RTT_US);
	CHECK(mutant_resume_carried(&flow.r) == 50 && flow.r.open);
}

static void test_reconnaissance(void)
{
	struct flow flow;

	reconnoitre(&flow);
	/* A loss or a mark ends it, and so does an arm that has found a queue. */
	flow.ack.congested = true;
	CHECK(!mutant_resume_reconnoitred(&flow.r, &flow.ack));
	CHECK(flow.r.phase == MUTANT_RESUME_NORMAL && flow.r.result == MUTANT_RESUME_NO_JUMP);
	reconnoitre(&flow);
	flow.ack.slow_start = false;
	CHECK(!mutant_resume_reconnoitred(&flow.r, &flow.ack));
	CHECK(flow.r.phase == MUTANT_RESUME_NORMAL);
	/* A flow that has sent before has no start to shorten. */
	mutant_resume_init(&flow.r, &flow.ack, false);
	CHECK(flow.r.phase == MUTANT_RESUME_NORMAL);
}

static void test_validated(void)
{
	struct flow flow;
	u32 window, i;

	jump(&flow);
	/* What was sent before the jump comes back; the window was full, so it ends. */
	acknowledge(&flow, 1, RTT_US);
	CHECK(acked(&flow) == 199 && flow.r.phase == MUTANT_RESUME_VALIDATING);
	CHECK(flow.r.pipe == 19 && flow.r.cut == MUTANT_RESUME_WHOLE);
	/* The window is held until half of it is back, 99 packets. */
	for (i = 1; i < 99; i++) {
		acknowledge_in(&flow, 1, 10, RTT_US + i);
		CHECK(acked(&flow) == 199 && flow.r.growth == MUTANT_RESUME_HELD);
		send(&flow, 1);
	}
	acknowledge_in(&flow, 1, 10, RTT_US);
	CHECK(acked(&flow) == 199 && flow.r.growth == MUTANT_RESUME_FREE);
	/* Now the arm lets it grow. */
	for (window = 200; flow.r.phase == MUTANT_RESUME_VALIDATING; window++) {
		flow.ack.window = window;
		CHECK(window < 400);
		acknowledge(&flow, 1, 10);
		CHECK(acked(&flow) == window);
		send(&flow, 2);
	}
	CHECK(flow.r.result == MUTANT_RESUME_VALIDATED);
	/* The last packet of the jump was the one that ended it. */
	CHECK(flow.ack.una == flow.r.last);
}

/* The phase of the unvalidated window has three ends, and until then nothing grows. */
static void test_unvalidated_ends(void)
{
	struct flow flow;

	jump(&flow);
	flow.ack.window = 300;
	flow.r.jump = 300;
	acknowledge(&flow, 17, RTT_US - 1);
	CHECK(acked(&flow) == 300 && flow.r.phase == MUTANT_RESUME_UNVALIDATED);
	/* A round trip has passed. */
	acknowledge(&flow, 0, 2);
	CHECK(acked(&flow) == 183 && flow.r.phase == MUTANT_RESUME_VALIDATING);

	jump(&flow);
	flow.ack.window = 300;
	acknowledge(&flow, 18, 100);
	CHECK(acked(&flow) == 300);
	/* The first packet of the jump is acknowledged, here or in a SACK. */
	acknowledge(&flow, 1, 100);
	CHECK(acked(&flow) == 181 && flow.r.phase == MUTANT_RESUME_VALIDATING);
	jump(&flow);
	flow.ack.window = 300;
	acknowledge(&flow, 0, 100);
	flow.ack.sacked = flow.r.first + 2 * MSS;
	CHECK(acked(&flow) == 200 && flow.r.phase == MUTANT_RESUME_VALIDATING);
}

/* A path that carries 50 packets in a round trip by now, and has a queue for the others. */
static void test_queue(void)
{
	struct flow flow;
	u32 i, rtt_us = RTT_US;

	jump(&flow);
	acknowledge(&flow, 1, RTT_US);
	acked(&flow);
	CHECK(flow.r.phase == MUTANT_RESUME_VALIDATING && flow.ack.window == 199);
	for (i = 0; i < 40 && flow.r.growth == MUTANT_RESUME_HELD; i++) {
		rtt_us += 1200;
		acknowledge_in(&flow, 1, RTT_US / 50, rtt_us);
		acked(&flow);
	}
	/* An eighth of the RTT is 10 ms: that are 9 packets, and 7 more that say the same. */
	CHECK(i == 16 && flow.r.growth == MUTANT_RESUME_OVER);
	CHECK(flow.ack.window == 50 && flow.r.phase == MUTANT_RESUME_VALIDATING);
	/* It is the arm's from here on. */
	flow.ack.window = 51;
	acknowledge_in(&flow, 1, RTT_US / 50, rtt_us);
	CHECK(acked(&flow) == 51);
	CHECK(flow.r.result == MUTANT_RESUME_OPEN);
}

/* One late ACK is none, nor are seven; a path of a millisecond has 4 ms of grace. */
static void test_no_queue(void)
{
	struct flow flow;
	u32 i;

	jump(&flow);
	acknowledge(&flow, 1, RTT_US);
	acked(&flow);
	for (i = 1; i <= 48; i++) {
		acknowledge_in(&flow, 1, 10, i % 8 ? 2 * RTT_US : RTT_US);
		CHECK(acked(&flow) == 199 && flow.r.growth == MUTANT_RESUME_HELD);
	}
	jump(&flow);
	flow.r.rtt_us = 1000;
	acknowledge(&flow, 1, RTT_US);
	acked(&flow);
	for (i = 1; i <= 48; i++) {
		acknowledge_in(&flow, 1, 10, 5000);
		CHECK(acked(&flow) == 199 && flow.r.growth == MUTANT_RESUME_HELD);
	}
}

static void test_cut_short(void)
{
	struct flow flow;

	reconnoitre(&flow);
	flow.ack.window = 200;
	mutant_resume_jump(&flow.r, &flow.ack, 200, RTT_US);
	send(&flow, 42);
	flow.ack.cut = MUTANT_RESUME_CUT_BY_RECEIVER;
	acknowledge(&flow, 1, RTT_US + 1);
	CHECK(acked(&flow) == 59 && flow.r.phase == MUTANT_RESUME_VALIDATING);
	CHECK(flow.r.cut == MUTANT_RESUME_CUT_BY_RECEIVER);

	/* Nothing of the jump was sent: there is nothing to validate. */
	reconnoitre(&flow);
	flow.ack.window = 200;
	mutant_resume_jump(&flow.r, &flow.ack, 200, RTT_US);
	flow.ack.cut = MUTANT_RESUME_CUT_BY_BUFFER;
	acknowledge(&flow, 9, RTT_US + 1);
	CHECK(acked(&flow) == 27 && flow.r.phase == MUTANT_RESUME_NORMAL);
	CHECK(flow.r.cut == MUTANT_RESUME_CUT_BY_BUFFER);
}

static void test_retreat(void)
{
	struct flow flow;
	u32 window, i;

	jump(&flow);
	acknowledge(&flow, 58, RTT_US);
	acked(&flow);
	CHECK(flow.r.phase == MUTANT_RESUME_VALIDATING && flow.r.pipe == 76);
	flow.ack.window = 260;
	acknowledge(&flow, 10, 10);
	flow.ack.congested = true;
	flow.ack.recovering = true;
	window = acked(&flow);
	CHECK(flow.r.phase == MUTANT_RESUME_RETREAT && flow.r.result == MUTANT_RESUME_RETREATED);
	CHECK(window == 43);
	/* It does not grow, whatever comes. */
	for (i = 0; i < 100; i++) {
		flow.ack.window = 43 + random_below(3);
		acknowledge(&flow, 1, 10);
		CHECK(acked(&flow) == 43 && flow.r.phase == MUTANT_RESUME_RETREAT);
	}
	/* A loss more changes nothing. */
	CHECK(mutant_resume_retreat(&flow.r, &flow.ack) == 43);
	/* The last packet of the jump is acknowledged, but the kernel is in recovery still. */
	acknowledge(&flow, 32, 10);
	CHECK(flow.ack.una == flow.r.last);
	CHECK(acked(&flow) == 43 && flow.r.phase == MUTANT_RESUME_RETREAT);
	flow.ack.recovering = false;
	CHECK(acked(&flow) == 43 && flow.r.phase == MUTANT_RESUME_NORMAL);
	/* All of the jump has arrived in the end: the pipe is no more than that. */
	CHECK(mutant_resume_ssthresh(&flow.r) == 100);
	CHECK(flow.r.result == MUTANT_RESUME_RETREATED);
}

/* Congestion before anything of the jump has come back was there before; the flow retreats. */
static void test_retreat_at_once(void)
{
	struct flow flow;

	jump(&flow);
	acknowledge(&flow, 4, 1000);
	CHECK(mutant_resume_retreat(&flow.r, &flow.ack) == 11);
	CHECK(flow.r.last == flow.ack.next);
	/* The window may be smaller than that by now. */
	jump(&flow);
	flow.ack.window = 5;
	CHECK(mutant_resume_retreat(&flow.r, &flow.ack) == 5);
}

/* A timeout ends all of it; what it has left of the window stays. */
static void test_timeout(void)
{
	struct flow flow;

	jump(&flow);
	acknowledge(&flow, 4, 1000);
	flow.ack.congested = true;
	flow.ack.recovering = true;
	flow.ack.timeout = true;
	flow.ack.window = 1;
	CHECK(acked(&flow) == 1 && flow.r.phase == MUTANT_RESUME_NORMAL);
	CHECK(flow.r.result == MUTANT_RESUME_RETREATED && mutant_resume_ssthresh(&flow.r) == 11);
}

/* Whatever ACKs say, no phase after the jump gives more than the jump, or grows by itself. */
static void test_any_acks(void)
{
	struct flow flow;
	u32 i, j, before;

	for (i = 0; i < 2000; i++) {
		jump(&flow);
		for (j = 0; j < 30 && mutant_resume_jumping(&flow.r); j++) {
			before = flow.ack.window;
			acknowledge(&flow, random_below(20), random_below(40000));
			flow.ack.congested |= !random_below(20);
			flow.ack.recovering = flow.ack.congested && random_below(3);
			flow.ack.timeout = !random_below(50);
			acked(&flow);
			CHECK(flow.ack.window <= before && flow.ack.window > 0);
			CHECK(flow.r.pipe <= 200);
			if (flow.r.phase == MUTANT_RESUME_RETREAT)
				CHECK(flow.ack.window <= flow.r.pipe / 2);
			if (flow.ack.in_flight < 20)
				send(&flow, 20);
		}
	}
}

void test_resume(void)
{
	test_jump_window();
	test_age();
	test_rtt();
	test_keep();
	test_observe();
	test_observe_slow_start();
	test_reconnaissance();
	test_validated();
	test_unvalidated_ends();
	test_queue();
	test_no_queue();
	test_cut_short();
	test_retreat();
	test_retreat_at_once();
	test_timeout();
	test_any_acks();
}
