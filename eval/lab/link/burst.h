/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Losses in bursts: pure arithmetic, which the tests also compile for user space.
 *
 * Gilbert (1960) and Elliott (1963): the path is good or bad. Before each packet it may change, and
 * each state has a probability of its own that the packet is lost.
 */
#ifndef LABLINK_BURST_H
#define LABLINK_BURST_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdbool.h>
#include <stdint.h>
typedef uint64_t u64;
typedef uint32_t u32;
#endif

#include "labpaths.h"

/* Whether the path loses its next packet; `bad` is its state. `random` draws from all u32. */
static inline bool burst_loses(bool *bad, const struct labpaths_path *path, u32 (*random)(void *from),
			       void *from)
{
	u64 loss;

	if (!path->to_bad && !path->loss_good)
		return false;
	if (random(from) < (*bad ? path->to_good : path->to_bad))
		*bad = !*bad;
	loss = *bad ? path->loss_bad : path->loss_good;
	return random(from) < loss;
}

#endif
