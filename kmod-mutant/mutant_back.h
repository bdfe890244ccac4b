/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How much of a flow's queue waits on the way back.
 *
 * An ACK's timestamps (RFC 7323) are two times: when the receiver sent the ACK, and when we sent
 * the packet that it acknowledges. Their difference, less its least, is the queue on the way there.
 * The rest of the RTT beyond its floor is the queue on the way back. There ACKs wait, because that
 * way is slow or full of another flow's packets. No window of ours makes this queue shorter without
 * making the flow slower.
 *
 * The two clocks have different zeros, and drift apart. So the least difference of the last 5 to
 * 10 s counts, the time of the RTT floor. A clock whose ticks are longer than a millisecond would
 * hide the queue on the way there. It is found out because it is slow.
 *
 * Pure logic, tested on the host.
 */
#ifndef _MUTANT_BACK_H
#define _MUTANT_BACK_H

#include "mutant_path.h"

struct mutant_back {
	u64 begin_us;			/* time of the first timestamp, µs */
	u64 half_us;			/* begin of the newer half of the window, µs */
	u32 begin_ms;			/* the receiver's first timestamp, ms */
	u32 older_ms;			/* least difference of the older half, ms; wraps */
	u32 newer_ms;			/* least difference of the newer half, ms; wraps */
};

/* The timestamps of an ACK. Both never change where the connection has none. */
struct mutant_back_ack {
	u64 now_us;
	s64 rtt_us;			/* negative: none */
	u32 sent_ms;			/* time when the receiver sent the ACK, its clock, ms */
	u32 echo_ms;			/* time when we sent the packet, our clock, ms */
};

void mutant_back_init(struct mutant_back *back, const struct mutant_back_ack *ack);
void mutant_back_round_ends(struct mutant_back *back, const struct mutant_path *path,
			    const struct mutant_back_ack *ack, u32 *there_us, u32 *back_us);

/* Take in an ACK's timestamps. */
static __always_inline void mutant_back_heard(struct mutant_back *back, u32 sent_ms, u32 echo_ms)
{
	u32 ms = sent_ms - echo_ms;

	if (unlikely((s32)(ms - back->newer_ms) < 0))
		back->newer_ms = ms;
}

/* The queue on the way there that an ACK tells, µs. */
static inline u32 mutant_back_there_us(const struct mutant_back *back, u32 sent_ms, u32 echo_ms)
{
	u32 least_ms = (s32)(back->older_ms - back->newer_ms) < 0 ? back->older_ms : back->newer_ms;
	s32 ms = sent_ms - echo_ms - least_ms;

	return ms > 0 ? 1000U * ms : 0;
}

#endif /* _MUTANT_BACK_H */
