// SPDX-License-Identifier: GPL-2.0-only
/* The echoes against what was sent and when. */
#include <stdlib.h>

#include "mutant_echo.h"
#include "tests.h"

#define PACKETS		200000
#define CONTROLS	4000

static struct mutant_echoes echoes;
static struct mutant_record record;

static void mark(u32 epoch, u32 number, u32 sent)
{
	const struct mutant_mark made = { .sent = sent, .number = number };

	mutant_echo_mark(&echoes, epoch, &made);
}

/* What the kernel tells of an ACK. */
struct heard {
	struct mutant_ack ack;
	s64 rtt_us;
};

/* The next ACK delivers @acked packets, of which the newest left at @sent_us. */
static bool ack(u32 epoch, struct heard *heard, u64 now_us, u64 sent_us, u32 acked,
		struct mutant_heard *told)
{
	heard->ack.now_us = now_us;
	heard->ack.sent_us = sent_us;
	heard->ack.delivered += acked;
	return mutant_echo_heard(&echoes, epoch, &heard->ack, heard->rtt_us, told);
}

/* An echo is the batches from the one before the ACK of its mark to the one before the next mark's. */
static void test_one_echo(void)
{
	struct heard heard = { .rtt_us = 4000 };
	struct mutant_heard told;

	memset(&echoes, 0, sizeof(echoes));
	mark(0, 7, 10);
	mark(0, 8, 30);
	CHECK(!ack(0, &heard, 9000, 0, 5, &told));
	heard.rtt_us = 10000;
	CHECK(!ack(0, &heard, 10000, 9000, 5, &told));
	heard.ack.lost = 4;
	heard.rtt_us = 7000;
	CHECK(!ack(0, &heard, 10200, 9300, 6, &told));
	/* Two ACKs of one batch. */
	heard.rtt_us = 6000;
	CHECK(!ack(0, &heard, 10400, 9350, 4, &told));
	heard.rtt_us = -1;
	CHECK(!ack(0, &heard, 10450, 9400, 3, &told));
	/* What answers is no part of the echo, and neither is its RTT. */
	heard.rtt_us = 10;
	CHECK(ack(0, &heard, 10900, 9500, 5, &told));
	CHECK(told.echo.number == 7 && told.echo.delivered == 18 && told.echo.lost == 4);
	CHECK(told.echo.sending_us == 9400 && told.echo.acking_us == 1450);
	/* The mean is over those with an RTT, and the lowest beside it. */
	CHECK(told.echo.rtt_us_min == 6000 && told.rtt_us == (10000 + 7000 + 6000) / 3);
	/* They are part of the next one. */
	heard.rtt_us = 500;
	mark(0, 9, 40);
	CHECK(ack(0, &heard, 11500, 9900, 9, &told));
	CHECK(told.echo.number == 8 && told.echo.delivered == 5 && told.echo.acking_us == 450);
	CHECK(told.echo.rtt_us_min == 10 && told.rtt_us == 10);
}

/* The batch goes on after the ACK that answers: the echo ended before it. */
static void test_an_answer_within_a_batch(void)
{
	struct heard heard = { .rtt_us = 3000 };
	struct mutant_heard told;

	memset(&echoes, 0, sizeof(echoes));
	mark(0, 1, 10);
	mark(0, 2, 20);
	CHECK(!ack(0, &heard, 1000, 100, 8, &told));
	CHECK(!ack(0, &heard, 5000, 200, 2, &told));
	heard.rtt_us = 2000;
	CHECK(!ack(0, &heard, 5050, 300, 5, &told));
	heard.rtt_us = 1000;
	CHECK(!ack(0, &heard, 9000, 400, 3, &told));
	CHECK(ack(0, &heard, 9050, 500, 5, &told));
	CHECK(told.echo.number == 1 && told.echo.delivered == 7 && told.echo.acking_us == 4050);
	CHECK(told.echo.sending_us == 200 && told.echo.rtt_us_min == 2000);
	/* Its two ACKs had 3000 and 2000. */
	CHECK(told.rtt_us == (3000 + 2000) / 2);
}

/* An echo of which no ACK carried an RTT has the last one known. */
static void test_no_rtt(void)
{
	struct heard heard = { .rtt_us = 5000 };
	struct mutant_heard told;

	memset(&echoes, 0, sizeof(echoes));
	mark(0, 1, 10);
	mark(0, 2, 20);
	CHECK(!ack(0, &heard, 9000, 8000, 9, &told));
	heard.rtt_us = -1;
	CHECK(!ack(0, &heard, 10000, 9000, 1, &told));
	CHECK(!ack(0, &heard, 11000, 9500, 9, &told));
	CHECK(ack(0, &heard, 12000, 9600, 1, &told));
	CHECK(told.echo.number == 1 && told.echo.rtt_us_min == 5000 && told.rtt_us == 5000);
}

/*
 * Packets that leave at the rate of their control come back one by one or three together; each echo
 * tells the rate within what the ends of its ACKs leave open, and which control it was.
 */
static void test_against_packets(void)
{
	static u32 sent_us[PACKETS], control[PACKETS], gap_us[CONTROLS];
	u32 made = 0, ended = 0, wrong = 0, sent, resolved, before_us, in_flight = 50, before = ~0U;
	struct heard heard = { .rtt_us = 1000 };
	struct mutant_heard told;

	memset(&echoes, 0, sizeof(echoes));
	for (sent = 0, resolved = 0; sent < PACKETS && made < CONTROLS; sent++) {
		u32 acked, last = resolved;

		if (!random_below(30)) {
			gap_us[made] = 500 + random_below(1000);
			mark(0, made++, sent);
		}
		before_us = sent ? sent_us[sent - 1] : 0;
		sent_us[sent] = before_us + (made ? gap_us[made - 1] : 700);
		control[sent] = made - 1;
		if (sent < in_flight + resolved + random_below(3))
			continue;
		acked = sent - in_flight - resolved;
		resolved = sent - in_flight;
		if (acked && !random_below(50))
			heard.ack.lost++;
		heard.ack.delivered = resolved - heard.ack.lost;
		heard.ack.now_us = sent_us[sent];
		heard.ack.sent_us = resolved ? sent_us[resolved - 1] : 0;
		if (!mutant_echo_heard(&echoes, 0, &heard.ack, heard.rtt_us, &told))
			continue;
		ended++;
		wrong += before != ~0U && told.echo.number <= before;
		/* What is counted and what is timed are the same packets. */
		wrong += abs((int)(told.echo.sending_us - (told.echo.delivered + told.echo.lost) *
				   gap_us[told.echo.number])) > 4 * 1000;
		wrong += told.echo.rtt_us_min != 1000;
		/* A control that sent a batch or less may have the packets of the one before. */
		wrong += last && control[last - 1] + 1 < told.echo.number;
		before = told.echo.number;
	}
	CHECK(!wrong);
	CHECK(ended > made * 3 / 4);
}

/*
 * A link that is never idle passes a packet each 500 µs, and the receiver acknowledges them at its
 * turns, up to 12 ms apart. Each echo tells the link's rate, and an RTT that hardly waited.
 */
static void test_batches(void)
{
	const u32 packet_us = 500, path_us = 40000;
	u32 number = 0, packet = 0, batch = 0, ended = 0, wrong = 0;
	u64 mean_us = 0;
	struct heard heard = { .rtt_us = 0 };
	struct mutant_heard told;
	u64 turn_us = path_us;

	memset(&echoes, 0, sizeof(echoes));
	while (number < 1000) {
		/* All that arrived since the last turn, an ACK each, 10 µs of work apart. */
		turn_us += 500 + random_below(11500);
		for (batch = 0; path_us + (packet + 1) * packet_us <= turn_us; batch++) {
			u64 arrived_us = path_us + ++packet * packet_us;

			heard.rtt_us = path_us + turn_us - arrived_us;
			if (!(packet % 60))
				mark(0, number++, packet + 80);
			if (!ack(0, &heard, turn_us + 10 * batch, arrived_us - path_us, 1, &told))
				continue;
			ended++;
			/* A packet may not quite have arrived at a turn. */
			wrong += abs((int)(told.echo.delivered * packet_us - told.echo.acking_us)) >
				 (int)packet_us + 10 * 30;
			wrong += told.echo.rtt_us_min > path_us + packet_us;
			/* The mean has the waiting for a turn in it, up to the longest. */
			wrong += told.rtt_us < told.echo.rtt_us_min || told.rtt_us > path_us + 12000;
			mean_us += told.rtt_us;
		}
	}
	CHECK(!wrong);
	CHECK(ended > 900);
	/* A packet waits for the half of a turn, 500 to 12,000 µs, longer ones having more packets. */
	CHECK(mean_us / ended > path_us + 3000 && mean_us / ended < path_us + 5500);
}

/* ACKs without gaps are cut all the same. */
static void test_a_batch_without_an_end(void)
{
	struct heard heard = { .rtt_us = 50 };
	struct mutant_heard told;
	u32 i, ended = 0;

	memset(&echoes, 0, sizeof(echoes));
	mark(0, 1, 100);
	mark(0, 2, 200);
	for (i = 1; i <= 400 && !ended; i++)
		ended = ack(0, &heard, 10000 + 20 * i, 20 * i, 1, &told);
	CHECK(ended && told.echo.number == 1 && i == 201);
	CHECK(told.echo.delivered >= 50 && told.echo.delivered <= 150);
	CHECK(told.echo.acking_us == 20 * told.echo.delivered);
}

static void test_another_arm(void)
{
	struct heard heard = { .rtt_us = 50 };
	struct mutant_heard told;

	memset(&echoes, 0, sizeof(echoes));
	mark(0, 1, 10);
	mark(0, 2, 20);
	CHECK(!ack(0, &heard, 1000, 500, 10, &told));
	/* Nobody's ACKs, though they resolve the second mark. */
	CHECK(!ack(2, &heard, 2000, 500, 10, &told));
	CHECK(!ack(2, &heard, 3000, 500, 0, &told));
	mark(2, 50, 30);
	mark(2, 51, 40);
	CHECK(!ack(2, &heard, 4000, 600, 9, &told));
	CHECK(!ack(2, &heard, 5000, 800, 1, &told));
	CHECK(!ack(2, &heard, 6000, 900, 9, &told));
	CHECK(ack(2, &heard, 7000, 950, 1, &told));
	CHECK(told.echo.number == 50 && told.echo.delivered == 10);
	CHECK(told.echo.acking_us == 2000 && told.echo.sending_us == 300);
}

static void test_too_many_marks(void)
{
	struct heard heard = { .rtt_us = 50 };
	struct mutant_heard told;
	u32 i, ended = 0;

	memset(&echoes, 0, sizeof(echoes));
	for (i = 0; i < 3 * MUTANT_MARKS; i++)
		mark(0, i, 10 * (i + 1));
	for (i = 1; i <= 3 * MUTANT_MARKS; i++) {
		if (!ack(0, &heard, 700 * i, 600 * i, 10, &told))
			continue;
		CHECK(told.echo.number == ended && told.echo.delivered == 10 && told.echo.acking_us == 700);
		ended++;
	}
	/* Before the first one came no ACK. */
	CHECK(ended == MUTANT_MARK_MASK - 1);
	/* The control before the first mark that was not made goes on until the next one. */
	mark(0, 1000, heard.ack.delivered);
	CHECK(ack(0, &heard, 700 * i, 600 * i, 0, &told));
	CHECK(told.echo.number == MUTANT_MARK_MASK - 1);
	CHECK(told.echo.delivered == 10 * (2 * MUTANT_MARKS + 2));
}

/* Several marks by one ACK, controls under which nothing was sent, and ACKs of nothing newer. */
static void test_empty_echoes(void)
{
	struct heard heard = { .rtt_us = 50 };
	struct mutant_heard told;

	memset(&echoes, 0, sizeof(echoes));
	mark(0, 1, 10);
	mark(0, 2, 10);
	mark(0, 3, 10);
	CHECK(!ack(0, &heard, 1000, 500, 10, &told));
	mark(0, 4, 20);
	mark(0, 5, 25);
	CHECK(!ack(0, &heard, 8000, 7000, 5, &told));
	CHECK(ack(0, &heard, 9000, 8000, 15, &told));
	CHECK(told.echo.number == 3 && told.echo.delivered == 15 && told.echo.acking_us == 8000);
	/* Two marks in one batch: nothing came in between. */
	mark(0, 6, 35);
	CHECK(!ack(0, &heard, 9050, 8100, 5, &told));
	mark(0, 7, 38);
	CHECK(ack(0, &heard, 9500, 8100, 3, &told));
	CHECK(told.echo.number == 6 && told.echo.delivered == 20);
	/* Nothing newer came back. */
	mark(0, 8, 40);
	CHECK(!ack(0, &heard, 9900, 8100, 0, &told));
	CHECK(!ack(0, &heard, 10300, 8100, 2, &told));
}

static void test_record(void)
{
	struct mutant_heard told = {};

	memset(&record, 0, sizeof(record));
	for (told.echo.number = 1; told.echo.number <= 5; told.echo.number++) {
		told.rtt_us = 100 * told.echo.number;
		mutant_echo_put(&record, &told);
	}
	CHECK(record.echo[0].number == 4 && record.echo[1].number == 5);
	CHECK(record.echo_rtt_us[0] == 400 && record.echo_rtt_us[1] == 500);
}

void test_echoes(void)
{
	test_one_echo();
	test_an_answer_within_a_batch();
	test_no_rtt();
	test_against_packets();
	test_batches();
	test_a_batch_without_an_end();
	test_another_arm();
	test_too_many_marks();
	test_empty_echoes();
	test_record();
}
