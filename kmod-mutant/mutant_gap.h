/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The gaps between a flow's ACKs, which sums hide: 80 ACKs that come together every 25 ms have the
 * same mean gap as 80 ACKs spread evenly.
 *
 * A gap is counted in a range, and each range reaches to twice the end of the one before. Gaps are
 * counted, and not the time in them, for a reader can have both views of a count. As they are, the
 * counts show the gap before most ACKs. Times the gap, they show the gap into which a moment of the
 * flow falls, which is the silence between two turns. A gap is known to a factor of two either way.
 *
 * Where the ACK before left nothing in flight or to send, the application paused, and that is no
 * gap of the path. Pure logic, tested on the host.
 */
#ifndef _MUTANT_GAP_H
#define _MUTANT_GAP_H

#ifdef __KERNEL__
#include <linux/bitops.h>
#include <linux/types.h>

#include <uapi/linux/mutant.h>
#else
#include "kernel.h"
#endif

/* The range of a gap. */
static __always_inline u32 mutant_gap_range(u64 gap_us)
{
	u32 range = fls64(gap_us / MUTANT_ACK_GAP_US);

	return range < MUTANT_ACK_GAPS ? range : MUTANT_ACK_GAPS - 1;
}

/* Count a gap in @gaps, a count for each range. */
static __always_inline void mutant_gap_count(u32 *gaps, u64 gap_us)
{
	gaps[mutant_gap_range(gap_us)]++;
}

#endif /* _MUTANT_GAP_H */
