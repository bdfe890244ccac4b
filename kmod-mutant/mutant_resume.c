// SPDX-License-Identifier: GPL-2.0-only
/* Observing, jumping, validating, retreating; mutant_resume.h explains the whole. */
#include "mutant_resume.h"

/* A queue shows in so many ACKs in a row, as in RFC 9406 (N_RTT_SAMPLE). */
#define LATE_ACKS	8

/* Sequence numbers and counts wrap. */
static bool mutant_after(u32 a, u32 b)
{
	return (s32)(a - b) > 0;
}

/* The RTT that shows a queue: longer than the least by an eighth of it, 4 to 16 ms (RFC 9406). */
static bool mutant_resume_late(u64 rtt_us, u32 least_us)
{
	u32 more_us = least_us / 8;

	if (more_us < 4000)
		more_us = 4000;
	if (more_us > 16000)
		more_us = 16000;
	return rtt_us > (u64)least_us + more_us;
}

static void mutant_resume_round(struct mutant_resume *r, const struct mutant_resume_ack *ack)
{
	r->round_us = ack->now_us;
	r->round_begin = ack->delivered;
	r->round_end = ack->delivered + (ack->in_flight ?: 1);
	r->limited = false;
}

/* Begin to observe a flow. @fresh says that it has sent nothing yet, and may resume. */
void mutant_resume_init(struct mutant_resume *r, const struct mutant_resume_ack *ack, bool fresh)
{
	*r = (struct mutant_resume){
		.phase = fresh ? MUTANT_RESUME_RECONNAISSANCE : MUTANT_RESUME_NORMAL,
	};
	mutant_resume_round(r, ack);
}

/*
 * Take in an ACK. When a round trip ends, its delivered data counts for the least RTT: a queue
 * makes a round trip longer, and the path itself does not carry the queue. In slow start the
 * window has run ahead of deliveries: no more than half of it counts (RFC 9959, notes on
 * observing).
 */
void mutant_resume_observe(struct mutant_resume *r, const struct mutant_resume_ack *ack,
			   u32 min_rtt_us)
{
	u64 pkts = ack->delivered - r->round_begin, us = ack->now_us - r->round_us;
	bool open;

	r->limited |= ack->limited;
	if (!mutant_resume_round_over(r, ack->delivered))
		return;
	open = ack->slow_start || !mutant_resume_late(ack->rtt_us, min_rtt_us);
	if (us > min_rtt_us)
		pkts = pkts * min_rtt_us / us;
	if (ack->slow_start && pkts > ack->window / 2)
		pkts = ack->window / 2;
	if (!r->limited) {
		r->carried[1] = r->carried[0];
		r->carried[0] = pkts;
		r->least_us = min_rtt_us;
		r->open = open;
	}
	mutant_resume_round(r, ack);
}

/* The path's load in a round trip, packets; 0 where it is not known. */
u32 mutant_resume_carried(const struct mutant_resume *r)
{
	return r->carried[0] > r->carried[1] ? r->carried[0] : r->carried[1];
}

/* Whether something is saved that is not too old. */
static bool mutant_saved_counts(const struct mutant_saved *saved, u64 now_ns)
{
	return saved->window_bytes && now_ns - saved->since_ns <= MUTANT_SAVED_AGE_NS;
}

/*
 * Save a flow's observations. A flow that made no queue has not found the path's full load: it
 * takes nothing from the saved state. A path that carries too little has nothing to resume.
 */
void mutant_saved_keep(struct mutant_saved *saved, const struct mutant_resume *r, u32 mss,
		       u64 now_ns)
{
	u32 window = mutant_resume_carried(r);
	u64 bytes = window < MUTANT_SAVED_WINDOW_MIN ? 0 : (u64)window * mss;

	if (!window || (r->open && mutant_saved_counts(saved, now_ns) &&
			bytes <= saved->window_bytes))
		return;
	saved->window_bytes = bytes;
	saved->rtt_us = r->least_us;
	saved->since_ns = now_ns;
	saved->open = r->open;
}

/*
 * The window to which a flow with this MSS and least RTT may jump, packets: half of the saved one,
 * and no more than @max_bytes. 0 if nothing is saved, if it is too old, or if the path is another.
 */
u32 mutant_saved_jump(const struct mutant_saved *saved, u64 max_bytes, u32 mss, u32 rtt_us,
		      u64 now_ns)
{
	u64 bytes = saved->window_bytes / 2;

	if (!mss || !mutant_saved_counts(saved, now_ns))
		return 0;
	if (2ULL * rtt_us <= saved->rtt_us || rtt_us > 10ULL * saved->rtt_us)
		return 0;
	if (bytes > max_bytes)
		bytes = max_bytes;
	bytes /= mss;
	return bytes < ~0U ? bytes : ~0U;
}

/*
 * An ACK in the reconnaissance: true once the first window has been acknowledged. Congestion ends
 * it, and so does an arm that leaves slow start, for then the arm has found a queue.
 */
bool mutant_resume_reconnoitred(struct mutant_resume *r, const struct mutant_resume_ack *ack)
{
	if (ack->congested || !ack->slow_start) {
		r->phase = MUTANT_RESUME_NORMAL;
		return false;
	}
	if (!r->heard) {
		/* Nothing has been sent yet in answer to this ACK. */
		r->heard = true;
		r->first = ack->next;
	}
	return !mutant_after(r->first, ack->una);
}

/* The window jumps to @window, to be sent within the flow's own @rtt_us. */
void mutant_resume_jump(struct mutant_resume *r, const struct mutant_resume_ack *ack, u32 window,
			u32 rtt_us)
{
	r->phase = MUTANT_RESUME_UNVALIDATED;
	r->result = MUTANT_RESUME_OPEN;
	r->jumped_us = ack->now_us;
	r->rtt_us = rtt_us;
	r->first = ack->next;
	r->last = ack->next;
	r->jump = window;
	r->pipe = ack->in_flight;
	r->delivered = ack->delivered;
}

/* Delivered data was carried; but no more than the jump, whatever is retransmitted later. */
static void mutant_resume_fill(struct mutant_resume *r, const struct mutant_resume_ack *ack)
{
	u32 room = r->jump > r->pipe ? r->jump - r->pipe : 0, more = ack->delivered - r->delivered;

	r->pipe += more < room ? more : room;
	r->delivered = ack->delivered;
}

static void mutant_resume_end(struct mutant_resume *r, const struct mutant_resume_ack *ack,
			      u8 result)
{
	r->phase = MUTANT_RESUME_NORMAL;
	r->result = result;
	/* The arm did not ask for the data delivered meanwhile. */
	mutant_resume_round(r, ack);
}

/* Congestion came before the jump was validated. Returns the window of the retreat. */
u32 mutant_resume_retreat(struct mutant_resume *r, const struct mutant_resume_ack *ack)
{
	if (r->phase == MUTANT_RESUME_RETREAT)
		return r->window;
	mutant_resume_fill(r, ack);
	if (r->phase == MUTANT_RESUME_UNVALIDATED)
		r->last = ack->next;
	r->phase = MUTANT_RESUME_RETREAT;
	r->result = MUTANT_RESUME_RETREATED;
	r->window = mutant_resume_ssthresh(r);
	if (r->window > ack->window)
		r->window = ack->window;
	return r->window;
}

/* The jump is sent, or a round trip has passed. Returns the window from now on. */
static u32 mutant_resume_validate(struct mutant_resume *r, const struct mutant_resume_ack *ack)
{
	r->last = ack->next;
	r->cut = ack->full ? MUTANT_RESUME_WHOLE : ack->cut;
	/* Nothing of the jump is in flight: nothing is to be validated. */
	if (ack->in_flight <= r->pipe) {
		mutant_resume_end(r, ack, MUTANT_RESUME_VALIDATED);
		return r->pipe < ack->window ? r->pipe : ack->window;
	}
	r->phase = MUTANT_RESUME_VALIDATING;
	r->growth = MUTANT_RESUME_HELD;
	r->window = ack->in_flight < ack->window ? ack->in_flight : ack->window;
	r->back = ack->delivered;
	r->back_us = ack->now_us;
	return r->window;
}

/*
 * The jump comes back. Returns the window. A path that carries less than the jump by now shows
 * it within the first half. The window is held until then: growth would add to the queue.
 */
static u32 mutant_resume_come_back(struct mutant_resume *r, const struct mutant_resume_ack *ack)
{
	u64 back = ack->delivered - r->back, us = ack->now_us - r->back_us, carried;

	if (r->growth != MUTANT_RESUME_HELD)
		return ack->window;
	if (mutant_resume_late(ack->rtt_us, r->rtt_us))
		r->late++;
	else if (ack->rtt_us)
		r->late = 0;
	if (r->late < LATE_ACKS) {
		if (back >= r->window / 2)
			r->growth = MUTANT_RESUME_FREE;
		return ack->window;
	}
	r->growth = MUTANT_RESUME_OVER;
	carried = us ? back * r->rtt_us / us : ack->window;
	if (carried < 2)
		carried = 2;
	return carried < ack->window ? carried : ack->window;
}

/*
 * Take in an ACK after the jump. Returns the flow's window. The arm may let it grow only where
 * `growth` says so, and in the phase normal.
 */
u32 mutant_resume_acked(struct mutant_resume *r, const struct mutant_resume_ack *ack)
{
	mutant_resume_fill(r, ack);
	if (ack->congested && r->phase != MUTANT_RESUME_RETREAT)
		mutant_resume_retreat(r, ack);
	switch (r->phase) {
	case MUTANT_RESUME_UNVALIDATED:
		if (ack->full || mutant_after(ack->una, r->first) ||
		    mutant_after(ack->sacked, r->first) || ack->now_us - r->jumped_us > r->rtt_us)
			return mutant_resume_validate(r, ack);
		break;
	case MUTANT_RESUME_VALIDATING:
		if (!mutant_after(r->last, ack->una))
			mutant_resume_end(r, ack, MUTANT_RESUME_VALIDATED);
		return mutant_resume_come_back(r, ack);
	case MUTANT_RESUME_RETREAT:
		if (ack->timeout || (!mutant_after(r->last, ack->una) && !ack->recovering))
			mutant_resume_end(r, ack, MUTANT_RESUME_RETREATED);
		/* A timeout has left less. */
		return r->window < ack->window ? r->window : ack->window;
	}
	return ack->window;
}
