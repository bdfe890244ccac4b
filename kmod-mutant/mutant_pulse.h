/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Whether the path has more to give, asked for an arm that would not ask.
 *
 * A delay-based arm such as Vegas adds a packet in a round trip or two. Where the path has become
 * much faster, its queue stays empty, and the arm needs a minute to fill it. In a pulse the window
 * grows by a quarter within one round trip, by the clock of the ACKs, so that nothing leaves in a
 * burst. The next round trip shows the effect. If it delivered faster while the RTT hardly grew,
 * the path has more: the window stays, and the next pulse begins. If not, the window goes back to
 * its former size, give or take the arm's own changes. A loss ends a pulse at once, so that the
 * recovery finds the arm's own window.
 *
 * Where ACKs wait on a slow way back, a larger window makes the RTT longer first, and the rate
 * higher only when that queue is full. So a pulse that fills such a path goes by the queue on the
 * way there alone (mutant_back.h), and the next pulse begins at once. If an ACK shows a queue, its
 * packet was sent a round trip ago, and the window was smaller by a fifth then.
 *
 * Windows are in packets. Pure logic, tested on the host.
 */
#ifndef _MUTANT_PULSE_H
#define _MUTANT_PULSE_H

#include "mutant_path.h"

/* Below this window a quarter is hardly a packet. */
#define MUTANT_PULSE_WINDOW_MIN	8U
/* The part of the window by which a pulse makes it larger: a quarter. */
#define MUTANT_PULSE_PART	4U
/* A shorter queue on the way there is not one for certain, µs. */
#define MUTANT_PULSE_FULL_US	4000U

enum mutant_pulse_phase {
	MUTANT_PULSE_NONE,
	MUTANT_PULSE_GROWS,		/* the window grows */
	MUTANT_PULSE_SHOWS,		/* the path shows the effect of the larger window */
};

struct mutant_pulse {
	struct mutant_round before;	/* the round trip before the window grew */
	u32 before_us;			/* least RTT of that round trip, µs */
	u32 most;			/* packets that may be added */
	u32 added;			/* packets that were added */
	u32 first;			/* window when the first of these pulses began, packets */
	u8 acked;			/* packets acknowledged that have added none yet */
	u8 kind;			/* enum mutant_pulse_kind */
	u8 phase;			/* enum mutant_pulse_phase */
	bool gained;			/* the path had more, in the flow's step in progress */
};

void mutant_pulse_begin(struct mutant_pulse *pulse, const struct mutant_path *path, u32 window,
			u8 kind);
u32 mutant_pulse_round_ends(struct mutant_pulse *pulse, const struct mutant_path *path,
			    bool held_back, u32 window);

/* The packets, @room at most, by which the window grows with @acked ones more. */
static inline u32 mutant_pulse_grow(struct mutant_pulse *pulse, u32 acked, u32 room)
{
	u32 more = pulse->most - pulse->added;

	if (pulse->phase != MUTANT_PULSE_GROWS)
		return 0;
	acked += pulse->acked;
	pulse->acked = acked % MUTANT_PULSE_PART;
	if (more > acked / MUTANT_PULSE_PART)
		more = acked / MUTANT_PULSE_PART;
	if (more > room)
		more = room;
	pulse->added += more;
	return more;
}

/*
 * Whether a queue of @there_us on the way there ends the filling of the path: an eighth of the RTT
 * floor, and more than the ticks of timestamps.
 */
static inline bool mutant_pulse_full(const struct mutant_pulse *pulse,
				     const struct mutant_path *path, u32 there_us)
{
	u32 most_us = mutant_path_floor_us(path) / 8;

	return pulse->phase && pulse->kind == MUTANT_PULSE_KIND_FILL &&
	       there_us > (most_us > MUTANT_PULSE_FULL_US ? most_us : MUTANT_PULSE_FULL_US);
}

/* End the filling of a full path. Returns the packets that @window has to give back. */
static inline u32 mutant_pulse_filled(struct mutant_pulse *pulse, u32 window)
{
	u32 sent = window - window / (MUTANT_PULSE_PART + 1);
	u32 left = sent > pulse->first ? sent : pulse->first;

	pulse->phase = MUTANT_PULSE_NONE;
	pulse->added = 0;
	return window > left ? window - left : 0;
}

/* End the pulse. Returns the packets that the window has to give back. */
static inline u32 mutant_pulse_stop(struct mutant_pulse *pulse)
{
	u32 added = pulse->added;

	pulse->phase = MUTANT_PULSE_NONE;
	pulse->added = 0;
	return added;
}

#endif /* _MUTANT_PULSE_H */
