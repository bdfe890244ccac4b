/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Windows with fractions of a packet, and the window law: a window that user space
 * sets (LTP section 5, Jury Eq. 8).
 *
 * A control is obeyed by the next ACK, though never by more than half or twice the window at once.
 * After a timeout, or where the flow came from another arm, the ACKs' clock moves the window to its
 * target. It goes up as in slow start, and down half as fast, so that a round trip doubles or
 * halves the window at most. Losses do not cut it: the policies see them in their measures. Windows
 * are in packets. Pure logic.
 */
#ifndef _MUTANT_WINDOW_H
#define _MUTANT_WINDOW_H

#include "mutant_control.h"

/* A window that nobody has used for longer tells nothing of the path (RFC 7661, section 4.3). */
#define MUTANT_WINDOW_KEPT_S	300U

/*
 * Add @amount, in fractions of a packet, to a window and the @fraction that it is above whole
 * packets. A part beyond a limit is lost.
 */
static inline u32 mutant_window_add(u32 window, u32 *fraction, s64 amount)
{
	s64 sum = (s64)window * MUTANT_ONE + *fraction + amount;

	*fraction = 0;
	if (sum <= (s64)MUTANT_WINDOW_MIN * MUTANT_ONE)
		return MUTANT_WINDOW_MIN;
	if (sum >= (s64)MUTANT_WINDOW_MAX * MUTANT_ONE)
		return MUTANT_WINDOW_MAX;
	*fraction = sum % MUTANT_ONE;
	return sum / MUTANT_ONE;
}

/* The window that a loss leaves of another, @share of it. */
static inline u32 mutant_window_cut(u32 window, u32 share)
{
	u64 left = (u64)window * share / MUTANT_ONE;

	return left < MUTANT_WINDOW_MIN ? MUTANT_WINDOW_MIN : (u32)left;
}

/* The window when a new control asks for @target. */
static inline u32 mutant_window_jump(u32 window, u32 target)
{
	if (target > window)
		return target - window > window ? 2 * window : target;
	return target < window / 2 ? window / 2 : target;
}

/* The window after @acked packets more on the way to @target. */
static inline u32 mutant_window_glide(u32 window, u32 target, u32 acked)
{
	if (window < target)
		return target - window > acked ? window + acked : target;
	return window - target > acked / 2 ? window - acked / 2 : target;
}

/*
 * The window after @idle_s seconds without a packet (RFC 7661). Its pace makes no burst of it, so
 * it is kept, unproven, until it is too old.
 */
static inline u32 mutant_window_after_idle(u32 window, u32 idle_s)
{
	if (idle_s <= MUTANT_WINDOW_KEPT_S || window < MUTANT_WINDOW_START)
		return window;
	return MUTANT_WINDOW_START;
}

/*
 * The window that a loss leaves of @window, where the law leaves @left: at most half while a pause
 * has left it unproven, until @proven packets are delivered. 0: it is not unproven.
 */
static inline u32 mutant_window_retreat(u32 left, u32 window, u32 proven, u32 delivered)
{
	u32 half = mutant_window_cut(window, MUTANT_ONE / 2);

	if (!proven || (s32)(proven - delivered) <= 0)
		return left;
	return left < half ? left : half;
}

/*
 * The RTT in which to send a window, in the unit of both: the smoothed one, but the last one where
 * that is far below. After a queue of seconds two packets hardly renew the smoothed one, and would
 * keep that pace for ten seconds.
 */
static inline u32 mutant_window_rtt(u32 smoothed, s64 last)
{
	return last > 0 && last < smoothed / 2 ? last : smoothed;
}

#endif /* _MUTANT_WINDOW_H */
