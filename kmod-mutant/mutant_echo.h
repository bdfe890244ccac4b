/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Echoes: the fate of the packets that a flow sent under each of its controls (Jury section 3.1,
 * LTP section 4).
 *
 * A policy that moves its window by 2.5 % learns from the answer only where its packets are cut at
 * the first one under the new window. Steps are too coarse for that, and counts of the packets
 * sent by then: of 16 packets one is 6 %. So a flow that takes a control only makes a mark, how
 * much it has sent. The ACK that finds all of that delivered or lost answers it, and tells when
 * the newest packet that it acknowledges was sent and when that came back. Between two such ACKs
 * lies an echo: the rate at which some packets left, and the rate at which the same packets
 * arrived.
 *
 * ACKs may come in batches: from a receiver that waits for its turn on a shared medium, or from a
 * network card that collects them. An ACK of a batch came when the batch did, whenever its packet
 * had arrived; the last one has hardly waited. So the last ACK of the batch before the one that
 * answers ends the echo, which need not wait for another ACK then, and its RTT is its lowest. The
 * mean RTT holds the waiting for a turn as well; it is told beside the lowest.
 *
 * Packets that were delivered or lost are "resolved", as all sent packets are in the end; counts
 * are running totals that wrap, as in struct tcp_sock. Marks that would be too many are not made,
 * and the echo before them goes on. The socket's lock orders everything here. Pure logic, tested on
 * the host.
 */
#ifndef _MUTANT_ECHO_H
#define _MUTANT_ECHO_H

#ifdef __KERNEL__
#include <linux/compiler.h>
#include <linux/string.h>
#include <linux/types.h>

#include <uapi/linux/mutant.h>
#else
#include "kernel.h"
#endif

/* A power of two: 3.8 s of controls, 30 ms apart, may be on their way. */
#define MUTANT_MARKS		128
#define MUTANT_MARK_MASK	(MUTANT_MARKS - 1)

/* ACKs of one batch are closer than the gap. On a fast path all are, so a batch has an end. */
#define MUTANT_BATCH_GAP_US	100
#define MUTANT_BATCH_MAX_US	1000

struct mutant_mark {
	u32 sent;			/* packets sent before the mark */
	u32 number;			/* number of the control */
};

/* The values of an ACK. */
struct mutant_ack {
	u64 now_us;
	u64 sent_us;			/* time when the newest delivered packet was sent */
	u32 delivered;			/* totals */
	u32 lost;
};

/* An echo that has ended. Records have had `echo` for longer, so its mean RTT stands beside it. */
struct mutant_heard {
	struct mutant_echo echo;
	u32 rtt_us;			/* mean RTT of its ACKs */
};

struct mutant_rtts {
	u64 us_sum;
	u32 samples;
};

struct mutant_echoes {
	u32 epoch;			/* epoch in which the marks were made */
	u32 made;
	u32 answered;
	u32 next;			/* packets resolved that answer the next mark */
	u32 rtt_us;			/* last known */
	u32 rtt_us_min;			/* RTT of the echo under way until this batch; 0: unknown */
	u32 batch_rtt_us_min;		/* RTT of the batch under way, perhaps the next echo's */
	struct mutant_rtts rtts;	/* RTTs of the echo under way until this batch */
	struct mutant_rtts batch_rtts;	/* RTTs of the batch under way */
	u64 batch_us;			/* time when the batch began */
	struct mutant_ack from;		/* the echo under way begins after it */
	struct mutant_ack before;	/* the last one of the batch before */
	struct mutant_ack last;
	/* The last answered mark stays, as the one that the next echo begins with. */
	struct mutant_mark mark[MUTANT_MARKS];
};

void mutant_echo_mark(struct mutant_echoes *e, u32 epoch, const struct mutant_mark *mark);
bool mutant_echo_answer(struct mutant_echoes *e, u32 epoch, struct mutant_heard *heard);
void mutant_echo_put(struct mutant_record *rec, const struct mutant_heard *heard);

/* 0 is an RTT that is not known. */
static __always_inline u32 mutant_rtt_us_min(u32 a, u32 b)
{
	return a && (a < b || !b) ? a : b;
}

/* Take in an ACK, with its RTT or a negative number; true if it shows that an echo has ended. */
static __always_inline bool mutant_echo_heard(struct mutant_echoes *e, u32 epoch,
					      const struct mutant_ack *ack, s64 rtt_us,
					      struct mutant_heard *heard)
{
	if (ack->now_us - e->last.now_us >= MUTANT_BATCH_GAP_US ||
	    ack->now_us - e->batch_us >= MUTANT_BATCH_MAX_US) {
		e->before = e->last;
		e->batch_us = ack->now_us;
		e->rtt_us_min = mutant_rtt_us_min(e->rtt_us_min, e->batch_rtt_us_min);
		e->batch_rtt_us_min = 0;
		e->rtts.us_sum += e->batch_rtts.us_sum;
		e->rtts.samples += e->batch_rtts.samples;
		e->batch_rtts = (struct mutant_rtts){};
	}
	if (likely(rtt_us >= 0)) {
		e->rtt_us = rtt_us;
		e->batch_rtt_us_min = mutant_rtt_us_min(e->batch_rtt_us_min, e->rtt_us);
		e->batch_rtts.us_sum += e->rtt_us;
		e->batch_rtts.samples++;
	}
	e->last = *ack;
	if (likely(e->answered == e->made || (s32)(ack->delivered + ack->lost - e->next) < 0))
		return false;
	return mutant_echo_answer(e, epoch, heard);
}

#endif /* _MUTANT_ECHO_H */
