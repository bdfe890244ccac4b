/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A way back that waits for its turn, in the module `labjitter` alone.
 *
 * A receiver on a shared medium, such as Wi-Fi, sends its acknowledgements in batches, one at each
 * of its turns. The longest time between two is the last __u64 of the schedule, in ns. In `lablink`
 * all this is nothing.
 */
#ifndef LABLINK_JITTER_H
#define LABLINK_JITTER_H

#ifdef LABLINK_JITTER
#include <linux/prandom.h>

#include "turns.h"

/* The link's lock orders these. */
static struct turns turns;
static struct rnd_state turns_random;

static u32 jitter_draw(void *from)
{
	return prandom_u32_state(from);
}

/* How many of a schedule's bytes are not jitter's. */
static size_t jitter_taken(size_t size)
{
	return size < sizeof(u64) ? 0 : size - sizeof(u64);
}

/* A schedule begins, whose bytes end at `end`. */
static void jitter_begin(const void *end, u64 seed)
{
	u64 longest_ns;

	memcpy(&longest_ns, end - sizeof(longest_ns), sizeof(longest_ns));
	turns.longest_ns = min_t(u64, longest_ns, U32_MAX);
	turns.next_ns = 0;
	/* Not the losses' numbers. */
	prandom_seed_state(&turns_random, seed + 1);
}

static u64 jitter_leaves(u64 now_ns)
{
	return next_turn(&turns, now_ns, jitter_draw, &turns_random);
}
#else
static inline size_t jitter_taken(size_t size)
{
	return size;
}

static inline void jitter_begin(const void *end, u64 seed)
{
}

static inline u64 jitter_leaves(u64 now_ns)
{
	return now_ns;
}
#endif

#endif
