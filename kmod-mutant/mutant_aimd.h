/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Spine's AIMD (section 3.3): an acknowledged packet adds to the window or takes from it.
 *
 * The four parameters are a control's, in its order. "For every ACK" is taken to mean every
 * acknowledged packet, so that an ACK for two counts twice, whatever the receiver or an offload
 * makes of ACKs. Pure logic.
 */
#ifndef _MUTANT_AIMD_H
#define _MUTANT_AIMD_H

#include "mutant_window.h"

enum { ALPHA_THR, ALPHA_LAT, ALPHA_TOL, ALPHA_LOSS };

/* Until the first loss the window is multiplied by 1.1 in a round trip: 0.1 for each packet. */
#define MUTANT_AIMD_START	((MUTANT_ONE + 5) / 10)

/*
 * Eq. 3. @srtt_us8 is in eighths of a microsecond, and up to seven of them too low, because the
 * kernel rounds down as it smooths; @min_rtt_us is ~0 before the first sample.
 */
static inline s32 mutant_aimd_gain(const u32 *alpha, u32 srtt_us8, u32 min_rtt_us)
{
	bool queue = ((u64)srtt_us8 + 7) * (MUTANT_ONE / 8) >=
		     (u64)min_rtt_us * (MUTANT_ONE + alpha[ALPHA_TOL]);

	return queue ? -(s32)alpha[ALPHA_LAT] : (s32)alpha[ALPHA_THR];
}

#endif /* _MUTANT_AIMD_H */
