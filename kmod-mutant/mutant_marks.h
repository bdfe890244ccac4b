/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How the learned arms answer congestion marks (ECN), whatever their laws want.
 *
 * The kernel enters the same state (CWR) for a drop in a local queue, and for a tail that a probe
 * found lost. Only packets delivered with a mark tell: without ECN there are none.
 *
 * A policy may not know of marks, and a queue that marks drops nothing: without an answer the flow
 * would fill it to the last packet. So marks set a cap. A round trip with marks lowers it to four
 * fifths of the window, about as RFC 8511 has it; one without raises it by a sixteenth, a packet at
 * least. A cap at twice the window is forgotten. Windows are in packets. Pure logic.
 */
#ifndef _MUTANT_MARKS_H
#define _MUTANT_MARKS_H

#include "mutant_window.h"

struct mutant_marks {
	u32 cap;			/* packets; 0: none */
	u32 round_end;			/* packets delivered when the round trip ends */
	u32 seen;			/* packets delivered with a mark, as of the last ACK */
};

/* The part of a window that a round trip with marks leaves. */
static inline u32 mutant_marks_cut(u32 window)
{
	u32 left = window / 5 * 4 + window % 5 * 4 / 5;

	return left < MUTANT_WINDOW_MIN ? MUTANT_WINDOW_MIN : left;
}

/* The kernel has entered its reduction for marks, which it does once a round trip. */
static inline void mutant_marks_heard(struct mutant_marks *marks, u32 window, u32 delivered,
				      u32 in_flight)
{
	marks->cap = mutant_marks_cut(marks->cap && marks->cap < window ? marks->cap : window);
	marks->round_end = delivered + in_flight;
}

/* The part of the window @wanted that an ACK leaves. */
static inline u32 mutant_marks_capped(struct mutant_marks *marks, u32 wanted, u32 delivered,
				      u32 in_flight)
{
	if (likely(!marks->cap))
		return wanted;
	if ((s32)(delivered - marks->round_end) >= 0) {
		marks->cap += marks->cap / 16 ? marks->cap / 16 : 1;
		marks->round_end = delivered + in_flight;
		if (marks->cap / 2 >= wanted)
			marks->cap = 0;
	}
	return marks->cap && marks->cap < wanted ? marks->cap : wanted;
}

#endif /* _MUTANT_MARKS_H */
