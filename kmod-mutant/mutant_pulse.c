// SPDX-License-Identifier: GPL-2.0-only
/* A pulse's begin, and a round trip's verdict on it; mutant_pulse.h explains the whole. */
#include "mutant_pulse.h"

/* A path with more delivers at this rate or faster, percent: it was asked for 125. */
#define FASTER	112U
/* Its least RTT stays below this, percent of the one before: a queue would make it 125. */
#define LATER	108U

void mutant_pulse_begin(struct mutant_pulse *pulse, const struct mutant_path *path, u32 window,
			u8 kind)
{
	if (window < MUTANT_PULSE_WINDOW_MIN || !path->round[0].us ||
	    path->last_min_us == MUTANT_RTT_UNKNOWN)
		return;
	pulse->before = path->round[0];
	pulse->before_us = path->last_min_us;
	pulse->most = window / MUTANT_PULSE_PART;
	pulse->added = 0;
	pulse->first = window;
	pulse->acked = 0;
	pulse->kind = kind;
	pulse->phase = MUTANT_PULSE_GROWS;
}

static bool mutant_pulse_shows_more(const struct mutant_pulse *pulse,
				    const struct mutant_path *path)
{
	const struct mutant_round *before = &pulse->before, *now = &path->round[0];

	return 100ULL * now->pkts * before->us >= (u64)FASTER * before->pkts * now->us &&
	       100ULL * path->last_min_us < (u64)LATER * pulse->before_us;
}

/* A round trip of @path has ended. Returns the packets that @window has to give back. */
u32 mutant_pulse_round_ends(struct mutant_pulse *pulse, const struct mutant_path *path,
			    bool held_back, u32 window)
{
	u32 first;

	if (pulse->phase == MUTANT_PULSE_NONE)
		return 0;
	/* An application that has too little to send shows nothing of the path. */
	if (held_back)
		return mutant_pulse_stop(pulse);
	if (pulse->kind == MUTANT_PULSE_KIND_MORE) {
		if (pulse->phase == MUTANT_PULSE_GROWS) {
			pulse->phase = MUTANT_PULSE_SHOWS;
			return 0;
		}
		if (!mutant_pulse_shows_more(pulse, path))
			return mutant_pulse_stop(pulse);
	}
	pulse->gained = true;
	first = pulse->first;
	mutant_pulse_begin(pulse, path, window, pulse->kind);
	pulse->first = first;
	return 0;
}
