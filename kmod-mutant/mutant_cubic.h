/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Cubic with its two constants set by a control: beta, the share of the window that a loss leaves,
 * and C, in packets per second cubed (Spine section 7.5.2: Spine-X).
 *
 * The rules are RFC 9438's, and Linux's own. The window grows by a packet in a hundred
 * windows or more, and fast before the first loss. Slow start ends when the delay rises,
 * or when the ACKs of a round come in one train as long as the round trip (HyStart, for a
 * sender that paces). Time without use does not count (RFC 9438, section 5.8). Pure
 * logic.
 */
#ifndef _MUTANT_CUBIC_H
#define _MUTANT_CUBIC_H

#include "mutant_window.h"

enum { CUBIC_BETA, CUBIC_C };

struct mutant_cubic {
	u64 epoch_us;			/* begin of the curve; 0 until the next ACK begins it */
	u64 ack_us;			/* the previous ACK */
	u64 reno;			/* window that Reno would have, times MUTANT_ONE */
	u32 w_max;			/* window before the last cut, packets; 0 before any */
	u32 origin;			/* the curve's plateau, packets */
	u32 k;				/* time from the epoch to the plateau, s / 1024 */
	u32 round_end;			/* packets delivered when the round trip ends */
	u32 round_rtt_us;		/* smallest RTT of the round */
	u32 round_samples;
	u32 round_us;			/* time when the round began */
	u32 train_us;			/* the last ACK close behind the one before it */
};

/* Cubic takes this from an ACK. */
struct mutant_cubic_ack {
	u64 now_us;
	u32 acked;			/* packets */
	u32 delivered;			/* delivered in all, with these */
	u32 prior_delivered;		/* delivered when the acknowledged packet was sent */
	s32 rtt_us;			/* RTT of this ACK; negative: none */
	u32 min_rtt_us;
	u32 srtt_us;
	bool used;			/* the window was full, by the packets in flight */
};

u32 mutant_cubic_avoid(struct mutant_cubic *c, u32 window, u32 *fraction,
		       const struct mutant_cubic_ack *ack, const u32 *value);
u32 mutant_cubic_back_off(struct mutant_cubic *c, u32 window, const u32 *value);
bool mutant_cubic_queues(struct mutant_cubic *c, u32 window, const struct mutant_cubic_ack *ack);
u32 mutant_cube_root(u64 x);

#endif /* _MUTANT_CUBIC_H */
