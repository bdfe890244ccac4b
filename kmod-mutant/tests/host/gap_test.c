// SPDX-License-Identifier: GPL-2.0-only
/* The gaps between ACKs against counts that are made without shifts, and in the fold of a flow. */
#include "mutant_fold.h"
#include "tests.h"

/* Where each range ends, µs; the last has no end. */
static const u64 ends_us[] = {
	64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144, 524288,
	1048576, ~0ULL,
};

static u32 range_of(u64 gap_us)
{
	u32 range = 0;

	while (gap_us >= ends_us[range] && ends_us[range] != ~0ULL)
		range++;
	return range;
}

static void test_ranges(void)
{
	u32 i, wrong = 0;

	CHECK(ARRAY_SIZE(ends_us) == ARRAY_SIZE(((struct mutant_record *)0)->ack_gaps));
	for (i = 0; i < ARRAY_SIZE(ends_us); i++) {
		CHECK(mutant_gap_range(ends_us[i] - 1) == i);
		CHECK(mutant_gap_range(i ? ends_us[i - 1] : 0) == i);
	}
	for (i = 0; i < 100000; i++) {
		u64 gap_us = (u64)random_below(~0U) >> random_below(32);

		wrong += mutant_gap_range(gap_us) != range_of(gap_us);
		gap_us <<= random_below(33);
		wrong += mutant_gap_range(gap_us) != range_of(gap_us);
	}
	CHECK(!wrong);
}

/* A flow as the module holds it, without the socket. */
static struct mutant_step steps[2];
static struct mutant_epochs epochs;
static struct mutant_counters counters;
static struct mutant_sample sample;
static u32 number;

static void ack(u64 gap_us, bool idle)
{
	struct mutant_step *step = &steps[number & 1];

	if (step->number != number)
		mutant_step_open(step, &steps[~number & 1], number);
	sample.now_us += gap_us;
	sample.idle = idle;
	mutant_fold(step, &epochs, &counters, &sample);
}

/* Whether the step in progress, which ends now, has just these counts. */
static bool counts(u32 first, u32 count, u32 second, u32 other)
{
	struct mutant_record rec;
	u32 i, sum = 0;

	mutant_step_read(&steps[number++ & 1], &rec);
	for (i = 0; i < ARRAY_SIZE(rec.ack_gaps); i++)
		sum += rec.ack_gaps[i];
	return rec.ack_gaps[first] == count && rec.ack_gaps[second] == other && sum == count + other;
}

static void start(void)
{
	memset(steps, 0, sizeof(steps));
	memset(&counters, 0, sizeof(counters));
	memset(&sample, 0, sizeof(sample));
	mutant_epochs_init(&epochs, 1);
	number = 1;
	sample.now_us = 5000000;
	sample.rtt_us = 20000;
}

/* ACKs that come in turns: most are close, and the silence between two turns has its own range. */
static void test_turns(void)
{
	u32 turn, i;

	start();
	/* The first ACK of all has none before it. */
	ack(900, false);
	for (turn = 0; turn < 10; turn++)
		for (i = 0; i < 80; i++)
			ack(i ? 10 : 25000, false);
	CHECK(counts(0, 790, 9, 10));
	/* A gap belongs to the step in which it ends. */
	ack(25000, false);
	CHECK(counts(0, 0, 9, 1));
}

/* A flow that had nothing in flight or to send was not kept waiting by its path. */
static void test_pauses(void)
{
	start();
	ack(100, false);
	ack(100, true);
	ack(3000000, false);
	ack(100, true);
	ack(3000000, true);
	ack(3000000, false);
	CHECK(counts(1, 2, 15, 0));
	/* But if something was, it was. */
	ack(3000000, true);
	CHECK(counts(1, 0, 15, 1));
}

void test_gaps(void)
{
	test_ranges();
	test_turns();
	test_pauses();
}
