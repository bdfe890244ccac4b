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

/* The next ACK delivers @acked packets, of which the newest left at @sent_us. */
static bool ack(u32 epoch, struct mutant_heard *heard, u64 now_us, u64 sent_us, u32 acked,
		struct mutant_echo *echo)
{
	heard->now_us = now_us;
	heard->sent_us = sent_us;
	heard->acked = acked;
	heard->delivered += acked;
	return mutant_echo_heard(&echoes, epoch, heard, echo);
}

static void test_one_echo(void)
{
	struct mutant_heard heard = { .rtt_us = 50 };
	struct mutant_echo echo;

	memset(&echoes, 0, sizeof(echoes));
	mark(0, 7, 10);
	mark(0, 8, 30);
	CHECK(!ack(0, &heard, 990, 0, 9, &echo));
	CHECK(!ack(0, &heard, 1000, 900, 1, &echo));
	heard.lost = 4;
	heard.rtt_us = 60;
	CHECK(!ack(0, &heard, 1020, 930, 12, &echo));
	heard.rtt_us = -1;
	CHECK(ack(0, &heard, 1070, 940, 4, &echo));
	CHECK(echo.number == 7 && echo.delivered == 16 && echo.lost == 4);
	CHECK(echo.sending_us == 40 && echo.acking_us == 70 && echo.rtt_us_sum == 16 * 60);
}

/*
 * Packets that leave at the rate of their control come back one by one or three together; each echo
 * tells the rate within what the ends of its ACKs leave open, and which control it was.
 */
static void test_against_packets(void)
{
	static u32 sent_us[PACKETS], control[PACKETS], gap_us[CONTROLS];
	u32 made = 0, ended = 0, wrong = 0, sent, resolved, in_flight = 50, before = ~0U;
	struct mutant_heard heard = { .rtt_us = 1000 };
	struct mutant_echo echo;

	memset(&echoes, 0, sizeof(echoes));
	for (sent = 0, resolved = 0; sent < PACKETS && made < CONTROLS; sent++) {
		if (!random_below(30)) {
			gap_us[made] = 500 + random_below(1000);
			mark(0, made++, sent);
		}
		sent_us[sent] = (sent ? sent_us[sent - 1] : 0) + (made ? gap_us[made - 1] : 700);
		control[sent] = made - 1;
		if (sent < in_flight + resolved + random_below(3))
			continue;
		heard.acked = sent - in_flight - resolved;
		resolved = sent - in_flight;
		if (heard.acked && !random_below(50)) {
			heard.lost++;
			heard.acked--;
		}
		heard.delivered = resolved - heard.lost;
		heard.now_us = sent_us[sent];
		heard.sent_us = resolved ? sent_us[resolved - 1] : 0;
		if (!mutant_echo_heard(&echoes, 0, &heard, &echo))
			continue;
		ended++;
		wrong += before != ~0U && echo.number <= before;
		/* What is counted and what is timed are the same packets. */
		wrong += abs((int)(echo.sending_us - (echo.delivered + echo.lost) * gap_us[echo.number])) >
			 4 * 1000;
		wrong += echo.rtt_us_sum != echo.delivered * 1000ULL;
		wrong += control[resolved - 1] < echo.number;
		before = echo.number;
	}
	CHECK(!wrong);
	CHECK(ended > made * 3 / 4);
}

static void test_another_arm(void)
{
	struct mutant_heard heard = { .rtt_us = 50 };
	struct mutant_echo echo;

	memset(&echoes, 0, sizeof(echoes));
	mark(0, 1, 10);
	mark(0, 2, 20);
	CHECK(!ack(0, &heard, 1000, 500, 10, &echo));
	/* Nobody's ACK, though it resolves the second mark. */
	CHECK(!ack(2, &heard, 1000, 500, 10, &echo));
	mark(2, 50, 30);
	mark(2, 51, 40);
	CHECK(!ack(2, &heard, 3000, 600, 10, &echo));
	CHECK(ack(2, &heard, 4000, 800, 10, &echo));
	CHECK(echo.number == 50 && echo.delivered == 10);
	CHECK(echo.acking_us == 1000 && echo.sending_us == 200);
}

static void test_too_many_marks(void)
{
	struct mutant_heard heard = { .rtt_us = 50 };
	struct mutant_echo echo;
	u32 i, ended = 0;

	memset(&echoes, 0, sizeof(echoes));
	for (i = 0; i < 3 * MUTANT_MARKS; i++)
		mark(0, i, 10 * (i + 1));
	for (i = 1; i <= 3 * MUTANT_MARKS; i++) {
		if (!ack(0, &heard, 700 * i, 600 * i, 10, &echo))
			continue;
		CHECK(echo.number == ended && echo.delivered == 10 && echo.acking_us == 700);
		ended++;
	}
	CHECK(ended == MUTANT_MARK_MASK - 1);
	/* The control before the first mark that was not made goes on until the next one. */
	mark(0, 1000, heard.delivered);
	heard.acked = 0;
	CHECK(mutant_echo_heard(&echoes, 0, &heard, &echo));
	CHECK(echo.number == MUTANT_MARK_MASK - 1 && echo.delivered == 10 * (2 * MUTANT_MARKS + 1));
}

/* Several marks by one ACK, controls under which nothing was sent, and ACKs of nothing newer. */
static void test_empty_echoes(void)
{
	struct mutant_heard heard = { .rtt_us = 50 };
	struct mutant_echo echo;

	memset(&echoes, 0, sizeof(echoes));
	mark(0, 1, 10);
	mark(0, 2, 10);
	mark(0, 3, 10);
	CHECK(!ack(0, &heard, 1000, 500, 10, &echo));
	mark(0, 4, 20);
	mark(0, 5, 25);
	CHECK(ack(0, &heard, 9000, 8000, 20, &echo));
	CHECK(echo.number == 3 && echo.delivered == 20 && echo.acking_us == 8000);
	mark(0, 6, 35);
	CHECK(!ack(0, &heard, 9500, 8000, 5, &echo));
}

static void test_record(void)
{
	struct mutant_echo echo = { .number = 1 };

	memset(&record, 0, sizeof(record));
	for (echo.number = 1; echo.number <= 5; echo.number++)
		mutant_echo_put(&record, &echo);
	CHECK(record.echo[0].number == 4 && record.echo[1].number == 5);
}

void test_echoes(void)
{
	test_one_echo();
	test_against_packets();
	test_another_arm();
	test_too_many_marks();
	test_empty_echoes();
	test_record();
}
