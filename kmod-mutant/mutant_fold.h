/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How the samples of a flow's ACKs become one record per step, and which arm gets the credit.
 *
 * Pure logic: no kernel function is called here, so that the same source is tested on the host. The
 * code that runs for every ACK is inline and touches only the flow's own memory.
 *
 * Credit: a congestion control's decision shows one round trip later. So a sample belongs to the
 * arm that was active when the acknowledged data was *sent*, at ACK time - RTT. The arm that
 * happens to be active when the ACK arrives gets none of it. An epoch is the time between two
 * switches. The starts of the last MUTANT_EPOCHS epochs are kept: 1.27 s of switches at 10 ms
 * steps, so that a path of 800 ms is covered.
 */
#ifndef _MUTANT_FOLD_H
#define _MUTANT_FOLD_H

#ifdef __KERNEL__
#include <linux/compiler.h>
#include <linux/string.h>
#include <linux/types.h>

#include <uapi/linux/mutant.h>
#else
#include "kernel.h"
#endif

#include "mutant_gap.h"

#define MUTANT_EPOCHS		128	/* a power of two */

struct mutant_epoch {
	u64 start_us : 56;
	u64 arm : 8;			/* id */
};

/*
 * The flow's recent epochs, a ring indexed by an epoch's number. Most flows never switch: the ring
 * is a single epoch until mutant_epochs_extend() gives it MUTANT_EPOCHS.
 */
struct mutant_epochs {
	u64 newest;			/* number of the epoch in progress = switches so far */
	u64 at;				/* epoch that the last sample belonged to */
	u64 at_us;			/* time when that epoch began, µs */
	u64 at_span_us;			/* time from there to the next epoch, µs; 0: look for it */
	u64 ack_us;			/* time of the previous ACK; 0 before the first */
	bool idle;			/* true before the first ACK, and where the flow paused */
	struct mutant_epoch *ring;
	u32 mask;			/* epochs in the ring, less one */
	struct mutant_epoch first;
};

/* One step being filled. In `rec`, a minimum is ~0 until its first sample. */
struct mutant_step {
	u32 number;			/* the step that this buffer was last opened for */
	struct mutant_credit *credit;	/* slot that the last sample went to; NULL: look for it */
	struct mutant_record rec;
};

/* The values of an ACK. The counters are running totals that may wrap, as in struct tcp_sock. */
struct mutant_sample {
	u64 now_us;
	s64 rtt_us;			/* negative: the ACK carried no valid RTT */
	u64 acked_bytes;
	u64 rate;			/* last delivery rate sample, bytes per second */
	u32 delivered;
	u32 delivered_ce;
	u32 lost;
	u32 retrans;
	u32 floor_us;			/* RTT floor before an ACK that tells of losses; else 0 */
	u32 srtt_us;
	u32 flags;
	bool idle;			/* the ACK left nothing in flight or to send */
};

/* How a flow stands. It is read when a record is wanted, and not at every ACK. */
struct mutant_state {
	u64 rate;			/* last delivery rate sample, bytes per second */
	u64 pacing_rate;
	u32 snd_cwnd;
	u32 ssthresh;
	u32 srtt_us;
	u32 mdev_us;
	u32 min_rtt_us;
	u32 advmss;
	u32 mss;
	u32 in_flight;
	u32 lost_out;
	u32 retrans_out;
	u32 reord_seen;
	u32 reordering;
	u8 ca_state;
};

/* The counters at the previous ACK. */
struct mutant_counters {
	u64 acked_bytes;
	u32 delivered;
	u32 delivered_ce;
	u32 lost;
	u32 retrans;
};

void mutant_epochs_init(struct mutant_epochs *e, u8 arm);
void mutant_epochs_extend(struct mutant_epochs *e, struct mutant_epoch *ring);
void mutant_epoch_begin(struct mutant_epochs *e, u8 arm, u64 now_us);
struct mutant_credit *mutant_credit_search(struct mutant_step *step, struct mutant_epochs *e,
					   u64 sent_us);
void mutant_step_open(struct mutant_step *step, const struct mutant_step *previous, u32 number);
void mutant_step_read(const struct mutant_step *step, struct mutant_record *rec);

static __always_inline u64 mutant_epoch_oldest(const struct mutant_epochs *e)
{
	return e->newest <= e->mask ? 0 : e->newest - e->mask;
}

static __always_inline struct mutant_epoch *mutant_epoch_of(const struct mutant_epochs *e,
							    u64 number)
{
	return &e->ring[number & e->mask];
}

static __always_inline void mutant_stat_add(struct mutant_stat *stat, u64 value)
{
	if (value < stat->min)
		stat->min = value;
	if (value > stat->max)
		stat->max = value;
	stat->sum += value;
}

/*
 * The slot to credit for data sent at @sent_us, or NULL if the ring has forgotten who was active.
 * Nearly every ACK is for data of the same epoch as the ACK before it.
 */
static __always_inline struct mutant_credit *
mutant_credit_find(struct mutant_step *step, struct mutant_epochs *e, u64 sent_us)
{
	if (likely(step->credit && sent_us - e->at_us < e->at_span_us))
		return step->credit;
	return mutant_credit_search(step, e, sent_us);
}

/* The record's values that are no sums. */
static inline void mutant_state_tell(const struct mutant_state *s, struct mutant_record *rec)
{
	rec->delivery_rate = s->rate;
	rec->pacing_rate = s->pacing_rate;
	rec->snd_cwnd = s->snd_cwnd;
	rec->ssthresh = s->ssthresh;
	rec->min_rtt_us = s->min_rtt_us;
	rec->srtt_us = s->srtt_us;
	rec->mdev_us = s->mdev_us;
	rec->advmss = s->advmss;
	rec->mss = s->mss;
	rec->in_flight = s->in_flight;
	rec->lost_out = s->lost_out;
	rec->retrans_out = s->retrans_out;
	rec->reord_seen = s->reord_seen;
	rec->reordering = s->reordering;
	rec->ca_state = s->ca_state;
}

/* The values that few ACKs bring. */
static inline void mutant_fold_losses(struct mutant_record *rec, struct mutant_credit *credit,
				      struct mutant_counters *last, const struct mutant_sample *s)
{
	u32 lost = s->lost - last->lost, retrans = s->retrans - last->retrans;
	u32 ce = s->delivered_ce - last->delivered_ce;

	last->lost = s->lost;
	last->retrans = s->retrans;
	last->delivered_ce = s->delivered_ce;
	rec->lost += lost;
	rec->retrans += retrans;
	rec->delivered_ce += ce;
	rec->total_lost += lost;
	rec->total_retrans += retrans;
	rec->total_delivered_ce += ce;
	if (credit)
		credit->lost += lost;
}

/* Move the counters on from @last to @s, into the step, the totals and, if any, @credit. */
static __always_inline void mutant_fold_counters(struct mutant_record *rec,
						 struct mutant_credit *credit,
						 struct mutant_counters *last,
						 const struct mutant_sample *s)
{
	u64 acked = s->acked_bytes - last->acked_bytes;
	u32 delivered = s->delivered - last->delivered;

	last->acked_bytes = s->acked_bytes;
	last->delivered = s->delivered;
	rec->delivered += delivered;
	rec->acked_bytes += acked;
	rec->total_delivered += delivered;
	rec->total_acked_bytes += acked;
	if (likely(credit)) {
		credit->delivered += delivered;
		credit->acked_bytes += acked;
	}
	if (unlikely(s->lost != last->lost || s->retrans != last->retrans ||
		     s->delivered_ce != last->delivered_ce))
		mutant_fold_losses(rec, credit, last, s);
}

/* The levels that an ACK finds, apart so that its counters need no registers meanwhile. */
static __always_inline void mutant_fold_levels(struct mutant_record *rec, u32 mdev_us, u32 lost_out,
					       u32 in_flight)
{
	mutant_stat_add(&rec->mdev_stat, mdev_us);
	mutant_stat_add(&rec->lost_out_stat, lost_out);
	mutant_stat_add(&rec->in_flight_stat, in_flight);
}

/* Fold one ACK into @step; mutant_fold_levels() is due as well. */
static __always_inline void mutant_fold(struct mutant_step *step, struct mutant_epochs *e,
					struct mutant_counters *last,
					const struct mutant_sample *s)
{
	struct mutant_record *rec = &step->rec;
	u32 rtt_us = s->rtt_us < 0 ? s->srtt_us : (u32)s->rtt_us;
	struct mutant_credit *credit = mutant_credit_find(step, e, s->now_us - rtt_us);

	if (unlikely(s->floor_us) && rtt_us <= s->floor_us + s->floor_us / 8)
		rec->lost_without_queue += s->lost - last->lost;
	mutant_fold_counters(rec, credit, last, s);
	rec->flags = s->flags;
	rec->samples++;
	mutant_stat_add(&rec->srtt_stat, s->srtt_us);
	mutant_stat_add(&rec->throughput_stat, s->rate);
	if (likely(s->rtt_us >= 0)) {
		rec->rtt_samples++;
		rec->rtt_us = rtt_us;
		mutant_stat_add(&rec->rtt_stat, rtt_us);
	}
	if (likely(credit)) {
		credit->samples++;
		/* This ACK's packets were delivered since the previous ACK, whoever sent that. */
		if (likely(e->ack_us))
			credit->time_ns += (s->now_us - e->ack_us) * 1000;
		if (likely(s->rtt_us >= 0)) {
			credit->rtt_samples++;
			credit->rtt_us_sum += rtt_us;
			if (rtt_us < credit->rtt_us_min)
				credit->rtt_us_min = rtt_us;
		}
	}
	if (likely(!e->idle))
		mutant_gap_count(rec->ack_gaps, s->now_us - e->ack_us);
	e->ack_us = s->now_us;
	e->idle = s->idle;
}

#endif /* _MUTANT_FOLD_H */
