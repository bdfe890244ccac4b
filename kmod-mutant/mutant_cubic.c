// SPDX-License-Identifier: GPL-2.0-only
/* Cubic in fixed point; mutant_cubic.h explains the whole. */
#include "mutant_cubic.h"

#define US_PER_S		1000000
#define EPOCH_US_MAX		1000000000	/* keeps the cube within 64 bits */
#define RISE_MAX		0x20000U	/* keeps the cube root's argument within 64 bits */
#define HYSTART_WINDOW		16		/* packets */
#define HYSTART_SAMPLES		8
#define HYSTART_DELAY_MIN_US	4000
#define HYSTART_DELAY_MAX_US	16000
#define HYSTART_GAP_US		2000		/* longest gap between ACKs of one train */

/* The largest number whose cube is not above @x: its bits one by one, from the highest. */
u32 mutant_cube_root(u64 x)
{
	u64 root = 0, next;
	int bit;

	/* 2^21 - 1 is the largest whose cube has 64 bits. */
	for (bit = 20; bit >= 0; bit--) {
		next = root + (1U << bit);
		if (next * next * next <= x)
			root = next;
	}
	return root;
}

/* The time in 1024ths of a second. */
static u32 mutant_cubic_ticks(u64 us)
{
	return (us < EPOCH_US_MAX ? us : EPOCH_US_MAX) * 1024 / US_PER_S;
}

/* A new curve from @window: K is the time that it takes back to w_max (RFC 9438, Eq. 2). */
static void mutant_cubic_begin_epoch(struct mutant_cubic *c, u32 window, u64 now_us, u32 constant)
{
	u32 rise = c->w_max > window ? c->w_max - window : 0;

	c->epoch_us = now_us;
	c->reno = (u64)window * MUTANT_ONE;
	c->origin = window + rise;
	if (rise > RISE_MAX)
		rise = RISE_MAX;
	c->k = mutant_cube_root(((u64)rise << 46) / constant);
}

/* W_cubic (RFC 9438, Eq. 1) at @now ticks of the epoch, times MUTANT_ONE. */
static s64 mutant_cubic_curve(const struct mutant_cubic *c, u32 now, u32 constant)
{
	u64 away = now > c->k ? now - c->k : c->k - now;
	s64 height = ((away * away >> 10) * away >> 10) * constant >> 10;
	s64 plateau = (s64)c->origin * MUTANT_ONE;

	return now > c->k ? plateau + height : plateau - height;
}

/* The growth by one acknowledged packet, times MUTANT_ONE. */
static s64 mutant_cubic_gain(struct mutant_cubic *c, u32 window, u32 fraction,
			     const struct mutant_cubic_ack *ack, const u32 *value)
{
	u32 now = mutant_cubic_ticks(ack->now_us - c->epoch_us + ack->min_rtt_us);
	u32 beta = value[CUBIC_BETA];
	s64 have = (s64)window * MUTANT_ONE + fraction, wanted, least, rise;

	wanted = mutant_cubic_curve(c, now, value[CUBIC_C]);
	/* The window is not less than Reno with this beta would have (section 4.3). */
	c->reno += (u64)ack->acked * 3 * (MUTANT_ONE - beta) * MUTANT_ONE /
		   (MUTANT_ONE + beta) / window;
	if (wanted < (s64)c->reno)
		wanted = c->reno;
	rise = (wanted - have) / window;
	least = c->w_max ? MUTANT_ONE / 100 / window : MUTANT_ONE / 20;
	if (rise < least)
		rise = least;
	return rise < MUTANT_ONE / 2 ? rise : MUTANT_ONE / 2;
}

/* Congestion avoidance: the window after @ack, with its @fraction. @window is at least 1. */
u32 mutant_cubic_avoid(struct mutant_cubic *c, u32 window, u32 *fraction,
		       const struct mutant_cubic_ack *ack, const u32 *value)
{
	u64 gap_us = ack->now_us - c->ack_us;

	c->ack_us = ack->now_us;
	if (!c->epoch_us)
		mutant_cubic_begin_epoch(c, window, ack->now_us, value[CUBIC_C]);
	else if (!ack->used || gap_us > ack->srtt_us)
		c->epoch_us += gap_us;
	if (!ack->used)
		return window;
	return mutant_window_add(window, fraction,
				 ack->acked * mutant_cubic_gain(c, window, *fraction, ack, value));
}

/* The window that a loss leaves (section 4.6), with fast convergence (section 4.7). */
u32 mutant_cubic_back_off(struct mutant_cubic *c, u32 window, const u32 *value)
{
	u32 beta = value[CUBIC_BETA];

	c->epoch_us = 0;
	if (window < c->w_max)
		c->w_max = (u64)window * (MUTANT_ONE + beta) / (2 * MUTANT_ONE);
	else
		c->w_max = window;
	return mutant_window_cut(window, beta);
}

/* The ACKs since the round began, none of them alone, fill a round trip: so do the sent packets. */
static bool mutant_cubic_train_is_long(struct mutant_cubic *c, const struct mutant_cubic_ack *ack)
{
	u32 now = ack->now_us;

	if (now - c->train_us > HYSTART_GAP_US)
		return false;
	c->train_us = now;
	return now - c->round_us > ack->min_rtt_us;
}

/* The smallest delay among the first samples of the round is clearly above the path's. */
static bool mutant_cubic_delay_rises(struct mutant_cubic *c, const struct mutant_cubic_ack *ack)
{
	u32 rise_us = ack->min_rtt_us / 8;

	if (ack->rtt_us < 0)
		return false;
	if (c->round_samples < HYSTART_SAMPLES) {
		c->round_samples++;
		if ((u32)ack->rtt_us < c->round_rtt_us)
			c->round_rtt_us = ack->rtt_us;
	}
	if (c->round_samples < HYSTART_SAMPLES)
		return false;
	if (rise_us < HYSTART_DELAY_MIN_US)
		rise_us = HYSTART_DELAY_MIN_US;
	if (rise_us > HYSTART_DELAY_MAX_US)
		rise_us = HYSTART_DELAY_MAX_US;
	return c->round_rtt_us > ack->min_rtt_us && c->round_rtt_us - ack->min_rtt_us > rise_us;
}

/* Whether the ACKs of this round of slow start say that a queue begins to build. */
bool mutant_cubic_queues(struct mutant_cubic *c, u32 window, const struct mutant_cubic_ack *ack)
{
	bool train, delay;

	if ((s32)(ack->prior_delivered - c->round_end) >= 0) {
		c->round_end = ack->delivered;
		c->round_rtt_us = ~0U;
		c->round_samples = 0;
		c->round_us = ack->now_us;
		c->train_us = ack->now_us;
	}
	train = mutant_cubic_train_is_long(c, ack);
	delay = mutant_cubic_delay_rises(c, ack);
	return window >= HYSTART_WINDOW && (train || delay);
}
