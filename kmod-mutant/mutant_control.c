// SPDX-License-Identifier: GPL-2.0-only
/* Checking, keeping and taking controls; mutant_control.h explains the whole. */
#include "mutant_arms_gen.h"
#include "mutant_control.h"

#define PERCENT(n)	((n) * MUTANT_ONE / 100)

struct mutant_range {
	u32 min;
	u32 max;
};

/* Spine section 3.3 bounds the alphas; the bounds of beta and C keep Cubic's character. */
static const struct mutant_range mutant_control_bounds[][MUTANT_CONTROL_VALUES] = {
	[MUTANT_CONTROL_LAW_WINDOW] = { { 1, ~0U }, { 0, ~0U } },
	[MUTANT_CONTROL_LAW_AIMD] = {
		{ 0, PERCENT(50) }, { 0, PERCENT(50) }, { 0, PERCENT(200) }, { 0, PERCENT(100) },
	},
	[MUTANT_CONTROL_LAW_CUBIC] = {
		{ PERCENT(30), PERCENT(95) }, { PERCENT(1), PERCENT(1000) },
	},
};

static bool mutant_arm_executes(u32 arm, u32 law)
{
	return arm < ARRAY_SIZE(mutant_arm_laws) && law < ARRAY_SIZE(mutant_control_bounds) &&
	       mutant_arm_laws[arm] & 1U << law;
}

/* Whether @arm executes @law, and every value is within the bounds of that law. */
bool mutant_control_fits(u32 arm, u32 law, const u32 *value)
{
	u32 i;

	if (!mutant_arm_executes(arm, law))
		return false;
	for (i = 0; i < MUTANT_CONTROL_VALUES; i++)
		if (value[i] < mutant_control_bounds[law][i].min ||
		    value[i] > mutant_control_bounds[law][i].max)
			return false;
	return true;
}

/*
 * The part of the window @wanted that a flow with a window between @low and @high may have. It is
 * half to twice its own, never more than @clamp, and within any flow's limits.
 */
u32 mutant_control_window(u32 wanted, u32 low, u32 high, u32 clamp)
{
	u32 most = high > clamp / 2 ? clamp : 2 * high;

	if (most > MUTANT_WINDOW_MAX)
		most = MUTANT_WINDOW_MAX;
	if (wanted < low / 2)
		wanted = low / 2;
	if (wanted > most)
		wanted = most;
	return wanted < MUTANT_WINDOW_MIN ? MUTANT_WINDOW_MIN : wanted;
}

/* Keep a setting. Only one caller at a time may do so. */
void mutant_control_keep(struct mutant_kept *kept, const struct mutant_setting *setting)
{
	write_seqcount_latch_begin(&kept->latch);
	kept->setting[0] = *setting;
	write_seqcount_latch(&kept->latch);
	kept->setting[1] = *setting;
	write_seqcount_latch_end(&kept->latch);
}

/* Copy the last control, unless it is the one that has @number: then false. */
bool mutant_control_take(const struct mutant_kept *kept, u32 *number,
			 struct mutant_setting *setting)
{
	struct mutant_setting copy;
	u32 seq;

	do {
		seq = read_seqcount_latch(&kept->latch);
		if (likely(seq >> 1 == *number))
			return false;
		copy = kept->setting[seq & 1];
	} while (read_seqcount_latch_retry(&kept->latch, seq));
	*setting = copy;
	*number = seq >> 1;
	return true;
}
