// SPDX-License-Identifier: GPL-2.0-only
/*
 * The measures of a flow. There are none before somebody asks for its steps: most connections end
 * before that. The socket's counts by then are in the first step all the same.
 */
#include "mutant_dest.h"
#include "mutant_jump.h"
#include "mutant_memory.h"
#include "mutant_queue.h"
#include "mutant_sample.h"

/* Begin to measure a flow, under its socket's lock; NULL without memory. */
struct mutant_measures *mutant_measure(struct sock *sk, struct mutant_flow *f)
{
	struct mutant_measures *m;
	const struct tcp_sock *tp = tcp_sk(sk);
	struct mutant_back_ack back;

	m = mutant_part_new(MUTANT_PART_MEASURES);
	if (!m)
		return NULL;
	mutant_sample_rate(tp, m);
	m->steps.step[0].rec.arm = f->arm;
	/* No step was number 1 yet, so the first ACK opens it, and goes on from step[0]. */
	m->steps.number = 1;
	m->closed_ns = f->born_ns;
	m->told_us = tp->tcp_mstamp;
	m->dest = mutant_dest_get(f);
	mutant_epochs_init(&m->epochs, f->arm);
	/* Data acknowledged so far was delivered since the flow's birth. */
	m->epochs.ack_us = div_u64(f->born_ns, NSEC_PER_USEC);
	mutant_path_init(&m->path, tp->tcp_mstamp, tp->delivered, tcp_packets_in_flight(tp));
	mutant_back_read(tp, -1, &back);
	mutant_back_init(&m->back, &back);
	/* It is complete when it is seen; pairs with mutant_flow_measures(). */
	smp_store_release(&f->measures, m);
	/* All folds and switches from now on come later; pairs with mutant_flow_outline(). */
	smp_wmb();
	return m;
}

void mutant_measures_free(struct mutant_measures *m)
{
	if (m)
		mutant_part_free(MUTANT_PART_MEASURES, m);
}

/* The measures of a flow, for those who do not have its socket's lock; or NULL. */
static struct mutant_measures *mutant_flow_measures(const struct mutant_flow *f)
{
	/* Pairs with mutant_measure(). */
	return smp_load_acquire(&f->measures);
}

/* Fill in the values outside of the step: identity, time, commands. */
static void mutant_record_complete(struct mutant_flow *f, struct mutant_record *rec,
				   u64 since_ns)
{
	u32 flags = READ_ONCE(f->flags);

	/* An idle flow is not told to fall back before its next ACK, but nobody steers it. */
	if ((flags & MUTANT_FLOW_FLAGS_STEERED) && mutant_flow_silent(f))
		flags &= ~MUTANT_FLOW_FLAGS_STEERED;
	rec->flags |= flags | mutant_jump_flags(f);
	rec->want_arm = READ_ONCE(f->want);
	rec->cookie = f->cookie;
	rec->visit = f->visit;
	rec->generation = f->generation;
	rec->weight = f->weight;
	rec->weights = f->weights;
	rec->start_cause = f->cause;
	rec->time_ns = ktime_get_ns();
	rec->interval_ns = rec->time_ns - since_ns;
}

/*
 * How an open flow stands; false if it has ended, and its socket may be another's. RCU, which the
 * caller is under, lets sockets' memory hold only sockets.
 */
static bool mutant_flow_stands(const struct mutant_flow *f, u64 rate, struct mutant_state *s)
{
	if (READ_ONCE(f->ended))
		return false;
	/* The socket's lock is another's: a value may be gone by. */
	data_race((mutant_state_read(f->sk, rate, s), 0));
	/* The socket is read before the end; pairs with mutant_flow_release(). */
	smp_rmb();
	return !READ_ONCE(f->ended);
}

/* Tell a record how an open flow stands. The step of one that has ended tells it already. */
static void mutant_record_state(const struct mutant_flow *f, const struct mutant_measures *m,
				struct mutant_record *rec)
{
	struct mutant_state state;

	if (mutant_flow_stands(f, READ_ONCE(m->rate), &state))
		mutant_state_tell(&state, rec);
}

/*
 * Close the flow's step and hand it over; false if nothing happened in it, or if it has not lasted
 * for @rtt_quarters of the flow's RTT. The caller is under RCU.
 */
bool mutant_flow_close(struct mutant_flow *f, u32 rtt_quarters, struct mutant_record *rec)
{
	struct mutant_measures *m = mutant_flow_measures(f);
	bool closed = false;

	/* A flow that is not due waits on, and is asked again. */
	if (m && rtt_quarters && ktime_get_ns() < READ_ONCE(m->due_ns))
		return false;
	spin_lock_bh(&f->lock);
	mutant_queue_leave(f);
	/* It may just have been measured for the first time, and have joined before it left. */
	m = mutant_flow_measures(f);
	if (!m) {
		WRITE_ONCE(f->asked, true);
		goto unlock;
	}
	closed = mutant_steps_close(&m->steps, rec);
	if (closed) {
		mutant_record_state(f, m, rec);
		mutant_record_complete(f, rec, m->closed_ns);
		m->closed_ns = rec->time_ns;
		WRITE_ONCE(m->due_ns, rec->time_ns +
			   (u64)rec->srtt_us * rtt_quarters * (NSEC_PER_USEC / 4));
	}
unlock:
	spin_unlock_bh(&f->lock);
	return closed;
}

/* The work of an unmeasured flow from @last to @s, and how it stands. */
struct mutant_outline {
	struct mutant_counters last;
	struct mutant_sample s;
	struct mutant_state state;
	u8 arm;
};

static void mutant_outline_open(const struct mutant_flow *f, struct mutant_outline *o)
{
	o->arm = f->arm;
	o->last = f->last;
	mutant_sample_read(f->sk, 0, -1, &o->s);
	mutant_state_read(f->sk, 0, &o->state);
}

static void mutant_outline_ended(const struct mutant_flow *f, struct mutant_outline *o)
{
	o->arm = f->arm;
	o->s.acked_bytes = f->last.acked_bytes;
	o->s.delivered = f->last.delivered;
	o->s.delivered_ce = f->last.delivered_ce;
	o->s.lost = f->last.lost;
	o->s.retrans = f->last.retrans;
	o->state.srtt_us = f->end.srtt_us;
	o->state.min_rtt_us = f->end.min_rtt_us;
	o->state.snd_cwnd = f->end.snd_cwnd;
	o->state.mss = f->end.mss;
}

/*
 * The socket's own account of a flow that is not measured; false if it is measured by now, for then
 * the counters move.
 */
static bool mutant_flow_outline(struct mutant_flow *f, struct mutant_record *rec)
{
	struct mutant_outline o = {};

	/* The flow does not end meanwhile. */
	spin_lock_bh(&f->lock);
	if (f->ended)
		mutant_outline_ended(f, &o);
	else
		/* But its ACKs go on: a value may be gone by. */
		data_race((mutant_outline_open(f, &o), 0));
	spin_unlock_bh(&f->lock);
	/* Pairs with mutant_measure(). */
	smp_rmb();
	if (mutant_flow_measures(f))
		return false;
	memset(rec, 0, sizeof(*rec));
	rec->arm = o.arm;
	mutant_state_tell(&o.state, rec);
	rec->flags = o.s.flags;
	/* All of it was under one arm: a flow that switches is measured. */
	rec->credit[0].arm = o.arm;
	rec->credit[0].time_ns = ktime_get_ns() - f->born_ns;
	mutant_fold_counters(rec, &rec->credit[0], &o.last, &o.s);
	return true;
}

/* Look at the step in progress without closing it. The caller is under RCU. */
void mutant_flow_peek(struct mutant_flow *f, struct mutant_record *rec)
{
	struct mutant_measures *m = mutant_flow_measures(f);

	if (!m && mutant_flow_outline(f, rec)) {
		mutant_record_complete(f, rec, f->born_ns);
		return;
	}
	m = mutant_flow_measures(f);
	spin_lock_bh(&f->lock);
	mutant_steps_peek(&m->steps, rec);
	mutant_record_state(f, m, rec);
	mutant_record_complete(f, rec, m->closed_ns);
	spin_unlock_bh(&f->lock);
}
