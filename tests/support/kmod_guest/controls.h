/* SPDX-License-Identifier: GPL-2.0-only */
/* Controls at random for the learned arms: most of them fit, some of them nothing at all. */
#ifndef CONTROLS_H
#define CONTROLS_H

#include <linux/mutant.h>

#include "genl.h"

/* A value up to a bound, and now and then beyond it or anything. */
static inline __u32 value_at_random(__u64 *seed, __u32 bound)
{
	switch (rnd_below(seed, 64)) {
	case 0:
		return rnd(seed);
	case 1:
		return ~0U;
	case 2:
		return bound + 1;
	default:
		return rnd_below(seed, bound + 1);
	}
}

static inline struct mutant_control control_at_random(__u64 *seed, __u64 cookie)
{
	static const __u32 windowed[] = { MUTANT_ARM_ID_LTP, MUTANT_ARM_ID_JURY, MUTANT_ARM_ID_OWL };
	const __u32 one = MUTANT_CONTROL_ONE;
	struct mutant_control c = { .cookie = cookie };

	c.law = MUTANT_CONTROL_LAW_WINDOW + rnd_below(seed, 3);
	c.arm = MUTANT_ARM_ID_SPINE;
	switch (c.law) {
	case MUTANT_CONTROL_LAW_WINDOW:
		c.arm = windowed[rnd_below(seed, 3)];
		c.value[0] = value_at_random(seed, 200);
		break;
	case MUTANT_CONTROL_LAW_AIMD:
		c.value[0] = value_at_random(seed, one / 2);
		c.value[1] = value_at_random(seed, one / 2);
		c.value[2] = value_at_random(seed, 2 * one);
		c.value[3] = value_at_random(seed, one);
		break;
	default:
		c.value[0] = one / 3 + value_at_random(seed, one / 2);
		c.value[1] = one / 50 + value_at_random(seed, 9 * one);
	}
	if (!rnd_below(seed, 16))
		c.law = rnd(seed) >> rnd_below(seed, 64);
	if (!rnd_below(seed, 16))
		c.arm = rnd(seed) >> rnd_below(seed, 64);
	if (!rnd_below(seed, 16))
		c.value[rnd_below(seed, MUTANT_CONTROL_VALUES)] = rnd(seed) >> rnd_below(seed, 64);
	return c;
}

#endif
