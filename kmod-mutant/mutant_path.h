/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A flow's knowledge of its path, whichever arm runs: the RTT floor, the delivery rate, and the
 * bandwidth-delay product that follows. The window for its next arm follows, too.
 *
 * The floor is the least RTT of the last 5 to 10 s. The kernel's own minimum looks back over five
 * minutes: after a rise of the RTT it would call the longer path a queue. The floor starts anew,
 * too, when a cut of the window shows that no queue was there (mutant_path_cut()).
 *
 * A round trip ends when all data in flight at its beginning has been delivered. The faster of the
 * last two round trips gives the rate. A round trip in which the application or an arm that drains
 * the queue (BBR's ProbeRTT) held the flow back tells nothing of the path.
 *
 * Where ACKs come in turns, as on a radio link, a window of the bandwidth-delay product leaves the
 * path idle between two turns: it has to hold a turn's packets, too. The silence between turns
 * tells how many these are. A burst of the flow's own window is silent for the RTT floor at most,
 * so only a longer silence counts.
 *
 * Pure logic, tested on the host.
 */
#ifndef _MUTANT_PATH_H
#define _MUTANT_PATH_H

#ifdef __KERNEL__
#include <linux/compiler.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/types.h>

#include <uapi/linux/mutant.h>
#else
#include "kernel.h"
#endif

#define MUTANT_RTT_UNKNOWN	(~0U)
#define MUTANT_HANDOVER_MIN	4U	/* packets; as BBR's least window */

/* One round trip: packets delivered in it, how long it took, and how long ACKs kept silent. */
struct mutant_round {
	u32 pkts;
	u32 us;
	u32 silent_us;			/* mean length of the gap between ACKs at a moment of it */
};

struct mutant_path {
	u64 half_us;			/* begin of the newer half of the floor's window, µs */
	u64 round_us;			/* time when the round trip in progress began, µs */
	u64 ack_us;			/* time of the last ACK, µs */
	u64 gaps_us2;			/* sum of the squares of its gaps between ACKs, µs² */
	u32 older_us;			/* least RTT of the older half, µs */
	u32 newer_us;			/* least RTT of the newer half, µs */
	u32 exact_us;			/* least RTT that is not in whole milliseconds, µs */
	u32 round_min_us;		/* least RTT of the round trip in progress, µs */
	u32 last_min_us;		/* least RTT of the last round trip that had one, µs */
	u32 round_end;			/* `delivered` at which the round trip ends, packets */
	u32 round_begin;		/* `delivered` at which it began, packets */
	u32 rounds;			/* whole round trips since the last switch */
	u32 cut_end;			/* `delivered` when all that was in flight at the cut is */
	u32 cut_min_us;			/* least RTT since the cut, µs */
	u32 cut_long_us;		/* no queue explains an RTT above, µs; 0: no cut is open */
	bool held_back;			/* the round trip in progress tells nothing of the rate */
	bool longer;			/* the floor started anew, and no arm has been told yet */
	struct mutant_round round[2];	/* the last two that do, the newer one first */
};

/* The path's values at the last ACK of a round trip. */
struct mutant_path_ack {
	u64 now_us;
	s64 rtt_us;			/* negative: none */
	u32 delivered;			/* packets so far; may wrap */
	u32 in_flight;			/* packets */
	bool held_back;			/* held back by the application, or by an arm that drains */
};

void mutant_path_init(struct mutant_path *path, u64 now_us, u32 delivered, u32 in_flight);
void mutant_path_round_ends(struct mutant_path *path, const struct mutant_path_ack *ack);
void mutant_path_cut(struct mutant_path *path, u32 window, u32 delivered, u32 in_flight);
u32 mutant_path_bdp(const struct mutant_path *path);
u32 mutant_path_turn(const struct mutant_path *path);
u32 mutant_handover_window(const struct mutant_path *path, u32 mode, u32 window, u32 in_flight,
			   bool own_model, u32 *ssthresh);

/* The least RTT of the last 5 to 10 s, µs; MUTANT_RTT_UNKNOWN before the first. */
static __always_inline u32 mutant_path_floor_us(const struct mutant_path *path)
{
	return path->older_us < path->newer_us ? path->older_us : path->newer_us;
}

/* An exact RTT is a whole number of milliseconds once in a thousand times. */
static __always_inline bool mutant_rtt_whole_ms(u32 rtt_us)
{
	return rtt_us % 1000 == 0;
}

/*
 * Whether an RTT may be in whole milliseconds, rounded down. An ACK of retransmitted packets alone
 * has no send time, so the kernel takes its RTT from TCP's timestamps.
 */
static __always_inline bool mutant_rtt_coarse(s64 rtt_us, u32 total_retrans)
{
	return total_retrans && unlikely(mutant_rtt_whole_ms(rtt_us));
}

/* The RTT floor, µs, not rounded down; MUTANT_RTT_UNKNOWN before the first. */
static inline u32 mutant_path_exact_us(const struct mutant_path *path, u32 total_retrans)
{
	u32 floor_us = mutant_path_floor_us(path);

	if (floor_us == MUTANT_RTT_UNKNOWN || !mutant_rtt_coarse(floor_us, total_retrans))
		return floor_us;
	return path->exact_us < floor_us + 999 ? path->exact_us : floor_us + 999;
}

/*
 * Take in an ACK; whether it ends a round trip, of which mutant_path_round_ends() has to hear. The
 * arguments are as in struct mutant_path_ack.
 */
static __always_inline bool mutant_path_heard(struct mutant_path *path, u64 now_us, s64 rtt_us,
					      u32 delivered, bool held_back)
{
	u32 gap_us = now_us - path->ack_us;

	path->ack_us = now_us;
	path->gaps_us2 += (u64)gap_us * gap_us;
	if (likely(rtt_us >= 0) && (u32)rtt_us < path->round_min_us)
		path->round_min_us = rtt_us;
	if (unlikely((u32)rtt_us < path->exact_us) && rtt_us >= 0 && !mutant_rtt_whole_ms(rtt_us))
		path->exact_us = rtt_us;
	path->held_back |= held_back;
	return unlikely((s32)(delivered - path->round_end) >= 0);
}

#endif /* _MUTANT_PATH_H */
