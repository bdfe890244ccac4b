/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * At the end a flow tells of its whole life, measured or not: busy time, RTTs, largest delivery
 * rate, the window at the end of slow start, and its arms.
 *
 * Busy is a flow that has something in flight or waiting to be sent. The kernel's own chronograph
 * counts jiffies, which are as long as a round trip may be. So the time from one ACK to the next is
 * added up in µs. If the flow was idle after the last ACK, its time begins when it sent this ACK's
 * data. A handshake counts, and so does the wait for a timeout.
 *
 * Pure logic, tested on the host.
 */
#ifndef _MUTANT_LIFE_H
#define _MUTANT_LIFE_H

#ifdef __KERNEL__
#include <linux/compiler.h>
#include <linux/types.h>

#include <uapi/linux/mutant.h>
#else
#include "kernel.h"
#endif

struct mutant_life {
	u64 busy_us;			/* up to the last ACK */
	u64 rtt_us_sum;
	u32 rtt_samples;
	u32 acked_us;			/* time when the last ACK came; wraps */
	u32 rate_pkts;			/* the largest rate sample: packets … */
	u32 rate_us;			/* … in this time; 0: no sample yet */
	u32 window;			/* the largest until slow start ended, packets */
	bool idle;			/* true if the last ACK left nothing to send or in flight */
	bool settled;			/* slow start has ended */
};

/* An ACK's values of it. */
struct mutant_life_ack {
	s64 rtt_us;			/* negative: the ACK carried no valid RTT */
	u32 now_us;			/* wraps */
	u32 rto_us;			/* the retransmission timeout, with its backoff */
	u32 rate_pkts;			/* the last delivery rate sample */
	u32 rate_us;
	bool idle;
};

/* How long a flow that has switched was busy under each arm. */
struct mutant_shares {
	u64 busy_us[MUTANT_ARMS_MAX + 1];	/* busy time by arm, up to the last switch */
	u64 counted_us;			/* the life's busy time that is in one of these */
};

void mutant_life_begin(struct mutant_life *life, u32 now_us, u32 handshake_us, bool idle);
void mutant_life_end(struct mutant_life *life, u32 now_us);
void mutant_life_left(const struct mutant_life *life, struct mutant_shares *shares, u32 arm);
void mutant_life_shares(const struct mutant_life *life, const struct mutant_shares *shares,
			u32 arm, struct mutant_outcome *outcome);

/* The largest delivery rate; no division, for every ACK asks. */
static __always_inline void mutant_life_rate(struct mutant_life *life, u32 pkts, u32 us)
{
	if (!us)
		return;
	if (!life->rate_us || (u64)pkts * life->rate_us > (u64)life->rate_pkts * us) {
		life->rate_pkts = pkts;
		life->rate_us = us;
	}
}

static __always_inline void mutant_life_acked(struct mutant_life *life,
					      const struct mutant_life_ack *ack)
{
	u32 took_us = ack->now_us - life->acked_us;

	if (life->idle) {
		/* A packet that was sent twice has no RTT; it waited for a timeout at most. */
		u32 most_us = ack->rtt_us < 0 ? ack->rto_us : (u32)ack->rtt_us;

		if (took_us > most_us)
			took_us = most_us;
	}
	life->busy_us += took_us;
	life->acked_us = ack->now_us;
	life->idle = ack->idle;
	if (likely(ack->rtt_us >= 0)) {
		life->rtt_us_sum += (u32)ack->rtt_us;
		life->rtt_samples++;
	}
	mutant_life_rate(life, ack->rate_pkts, ack->rate_us);
}

/* The window at an ACK until slow start has ended, the first one after it included. */
static inline void mutant_life_window(struct mutant_life *life, u32 window, bool slow_start)
{
	if (window > life->window)
		life->window = window;
	life->settled = !slow_start;
}

#endif /* _MUTANT_LIFE_H */
