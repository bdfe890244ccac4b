// SPDX-License-Identifier: GPL-2.0-only
/* What a flow tells of its whole life, and the ring in which that waits. */
#include "mutant_life.h"
#include "mutant_ring.h"
#include "tests.h"

#define MS	1000U
#define S	1000000U

/* A flow whose clock wraps on the way. */
static struct mutant_life life;
static u32 now_us;

static void start(u32 handshake_us)
{
	now_us = -30 * MS;
	mutant_life_begin(&life, now_us, handshake_us, true);
}

/* An ACK after @us. */
static void hear(u32 us, s64 rtt_us, bool idle)
{
	const struct mutant_life_ack ack = {
		.now_us = now_us += us, .rtt_us = rtt_us, .rto_us = 200 * MS, .idle = idle,
	};

	mutant_life_acked(&life, &ack);
}

static void test_busy(void)
{
	start(20 * MS);
	CHECK(life.busy_us == 20 * MS);
	/* 5 s of silence; then two round trips that follow each other. */
	hear(5 * S, 20 * MS, false);
	CHECK(life.busy_us == 40 * MS);
	hear(25 * MS, 25 * MS, true);
	CHECK(life.busy_us == 65 * MS);
	/* Silence again, and one round trip. */
	hear(S, 30 * MS, true);
	CHECK(life.busy_us == 95 * MS);
	CHECK(life.rtt_samples == 3 && life.rtt_us_sum == 75 * MS);
	/* A packet that was sent twice: the wait for the timeout, but not the silence. */
	hear(10 * S, -1, true);
	CHECK(life.busy_us == 295 * MS);
	CHECK(life.rtt_samples == 3);
	/* An ACK sooner than its RTT says: no time is counted twice. */
	hear(3 * MS, 40 * MS, false);
	CHECK(life.busy_us == 298 * MS);
	/* A timeout in the midst of data, however long. */
	hear(3 * S, -1, true);
	CHECK(life.busy_us == 298 * MS + 3 * S);
}

static void test_end(void)
{
	start(0);
	mutant_life_end(&life, now_us + 9 * S);
	CHECK(life.busy_us == 0);
	start(0);
	hear(S, 20 * MS, false);
	mutant_life_end(&life, now_us + 2 * S);
	CHECK(life.busy_us == 20 * MS + 2 * S);
}

static void test_rate(void)
{
	start(0);
	mutant_life_rate(&life, 5, 0);
	CHECK(life.rate_us == 0);
	mutant_life_rate(&life, 10, 10 * MS);
	mutant_life_rate(&life, 19, 20 * MS);
	CHECK(life.rate_pkts == 10 && life.rate_us == 10 * MS);
	mutant_life_rate(&life, 21, 20 * MS);
	CHECK(life.rate_pkts == 21 && life.rate_us == 20 * MS);
	/* Products beyond 32 bits. */
	mutant_life_rate(&life, 4000000000U, S);
	mutant_life_rate(&life, 3999999999U, S);
	CHECK(life.rate_pkts == 4000000000U);
}

static void test_window(void)
{
	u32 i;

	start(0);
	for (i = 10; i <= 40; i += 10)
		mutant_life_window(&life, i, true);
	CHECK(life.window == 40 && !life.settled);
	/* The ACK that ends it finds the window cut already, or larger than before. */
	mutant_life_window(&life, 20, false);
	CHECK(life.window == 40 && life.settled);
	start(0);
	mutant_life_window(&life, 50, false);
	CHECK(life.window == 50 && life.settled);
}

static void test_shares(void)
{
	struct mutant_shares shares = {};
	struct mutant_outcome one = {}, many = {}, none = {};
	const u32 left[] = { 7, 3, 9 };
	u32 i;

	start(0);
	hear(S, 100 * MS, false);
	mutant_life_shares(&life, NULL, 3, &one);
	CHECK(one.share_arm[0] == 3 && one.share[0] == 65535 && !one.share_arm[1]);
	/* 100 ms of arm 3, 300 ms of 2, 200 ms each of 7, 3 again, 9 and 5 (the last is on). */
	mutant_life_left(&life, &shares, 3);
	hear(300 * MS, -1, false);
	mutant_life_left(&life, &shares, 2);
	for (i = 0; i < 3; i++) {
		hear(200 * MS, -1, false);
		mutant_life_left(&life, &shares, left[i]);
	}
	hear(200 * MS, -1, false);
	mutant_life_shares(&life, &shares, 5, &many);
	CHECK(many.share_arm[0] == 2 && many.share_arm[1] == 3);
	CHECK(many.share[0] == 65535 / 4 && many.share[1] == 65535 / 4);
	CHECK(many.share_arm[2] == 5 && many.share_arm[3] == 7);
	CHECK(many.share[2] == 65535 / 6 && many.share[3] == 65535 / 6);
	/* A flow that was never busy. */
	start(0);
	mutant_life_shares(&life, NULL, 4, &none);
	CHECK(none.share_arm[0] == 4 && none.share[0] == 65535);
}

/* Against a queue that a test can read: places are taken and freed in order, guests have half. */
static void test_ring(void)
{
	struct mutant_ring ring = { .size = 7 }, nothing = {};
	u32 place, queue[7], first = 0, count = 0, guests = 0, i;

	CHECK(!mutant_ring_put(&nothing, false, &place));
	for (i = 0; i < 20000; i++) {
		if (random_below(2)) {
			bool guest = random_below(2), room = count < 7 && !(guest && guests == 3);

			CHECK(mutant_ring_put(&ring, guest, &place) == room);
			if (!room)
				continue;
			CHECK(place == (first + count) % 7);
			queue[place] = guest;
			count++;
			guests += guest;
		} else if (count) {
			CHECK(ring.first == first);
			mutant_ring_drop(&ring, queue[first]);
			guests -= queue[first];
			first = (first + 1) % 7;
			count--;
		}
		CHECK(ring.count == count && ring.guests == guests);
	}
}

void test_lives(void)
{
	test_busy();
	test_end();
	test_rate();
	test_window();
	test_shares();
	test_ring();
}
