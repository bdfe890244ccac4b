// SPDX-License-Identifier: GPL-2.0-only
/* The parts of the fold that do not run for every ACK; mutant_fold.h explains the whole. */
#include "mutant_fold.h"

void mutant_epochs_init(struct mutant_epochs *e, u8 arm)
{
	memset(e, 0, sizeof(*e));
	e->first.arm = arm;
	e->ring = &e->first;
	e->idle = true;
}

/* The first switch is about to come: @ring has room for MUTANT_EPOCHS. */
void mutant_epochs_extend(struct mutant_epochs *e, struct mutant_epoch *ring)
{
	ring[0] = e->first;
	e->ring = ring;
	e->mask = MUTANT_EPOCHS - 1;
}

/* Note a switch: packets sent from @now_us on belong to @arm. */
void mutant_epoch_begin(struct mutant_epochs *e, u8 arm, u64 now_us)
{
	e->newest++;
	mutant_epoch_of(e, e->newest)->start_us = now_us;
	mutant_epoch_of(e, e->newest)->arm = arm;
	e->at_span_us = 0;
	if (e->at < mutant_epoch_oldest(e))
		e->at = mutant_epoch_oldest(e);
}

/*
 * The slot of @epoch in @step, which keeps its slots in the order of their epochs. When all are
 * taken the oldest epoch loses its slot; NULL if @epoch itself is older than all of them. A sample
 * without a slot is credited to nobody, which is better than crediting the wrong arm; the flow's
 * own sums hold it all the same.
 */
static struct mutant_credit *mutant_credit_open(struct mutant_step *step,
						const struct mutant_epochs *e, u64 epoch)
{
	struct mutant_credit *credit = step->rec.credit;
	u32 used = 0, pos;

	while (used < MUTANT_CREDITS_MAX && credit[used].arm)
		used++;
	for (pos = used; pos > 0; pos--) {
		if (credit[pos - 1].epoch == (u32)epoch)
			return &credit[pos - 1];
		/* The difference survives the wrap of the 32-bit number. */
		if ((u32)epoch - credit[pos - 1].epoch < MUTANT_EPOCHS)
			break;
	}
	if (used == MUTANT_CREDITS_MAX) {
		if (!pos)
			return NULL;
		pos--;
		memmove(&credit[0], &credit[1], pos * sizeof(*credit));
	} else {
		memmove(&credit[pos + 1], &credit[pos], (used - pos) * sizeof(*credit));
	}
	memset(&credit[pos], 0, sizeof(*credit));
	credit[pos].epoch = epoch;
	credit[pos].arm = mutant_epoch_of(e, epoch)->arm;
	credit[pos].rtt_us_min = ~0ULL;
	return &credit[pos];
}

/*
 * The slot to credit, where it is another than at the ACK before. The search starts from the last
 * answer, which moves by a few epochs at most from ACK to ACK, so that a long RTT costs no more
 * than a short one.
 */
struct mutant_credit *mutant_credit_search(struct mutant_step *step, struct mutant_epochs *e,
					   u64 sent_us)
{
	u64 at = e->at, until_us;

	step->credit = NULL;
	while (at < e->newest && mutant_epoch_of(e, at + 1)->start_us <= sent_us)
		at++;
	while (mutant_epoch_of(e, at)->start_us > sent_us) {
		if (at == mutant_epoch_oldest(e))
			return NULL;
		at--;
	}
	until_us = at < e->newest ? mutant_epoch_of(e, at + 1)->start_us : ~0ULL;
	e->at = at;
	e->at_us = mutant_epoch_of(e, at)->start_us;
	e->at_span_us = until_us - e->at_us;
	step->credit = mutant_credit_open(step, e, at);
	return step->credit;
}

static void mutant_stat_clear(struct mutant_stat *stat)
{
	stat->min = ~0ULL;
	stat->max = 0;
	stat->sum = 0;
}

/* Make @step the empty step @number: totals go on from @previous. */
void mutant_step_open(struct mutant_step *step, const struct mutant_step *previous, u32 number)
{
	struct mutant_record *rec = &step->rec;

	*rec = previous->rec;
	rec->samples = 0;
	rec->rtt_samples = 0;
	rec->delivered = 0;
	rec->lost = 0;
	rec->acked_bytes = 0;
	rec->retrans = 0;
	rec->delivered_ce = 0;
	rec->lost_without_queue = 0;
	mutant_stat_clear(&rec->rtt_stat);
	mutant_stat_clear(&rec->srtt_stat);
	mutant_stat_clear(&rec->mdev_stat);
	mutant_stat_clear(&rec->lost_out_stat);
	mutant_stat_clear(&rec->in_flight_stat);
	mutant_stat_clear(&rec->throughput_stat);
	memset(rec->ack_gaps, 0, sizeof(rec->ack_gaps));
	memset(rec->credit, 0, sizeof(rec->credit));
	step->credit = NULL;
	WRITE_ONCE(step->number, number);
}

/* Copy a step out, its untouched minima as the 0 that the record's users are promised. */
void mutant_step_read(const struct mutant_step *step, struct mutant_record *rec)
{
	u32 i;

	*rec = step->rec;
	if (!rec->rtt_samples)
		rec->rtt_stat.min = 0;
	if (!rec->samples) {
		rec->srtt_stat.min = 0;
		rec->mdev_stat.min = 0;
		rec->lost_out_stat.min = 0;
		rec->in_flight_stat.min = 0;
		rec->throughput_stat.min = 0;
	}
	for (i = 0; i < MUTANT_CREDITS_MAX; i++)
		if (!rec->credit[i].rtt_samples)
			rec->credit[i].rtt_us_min = 0;
}
