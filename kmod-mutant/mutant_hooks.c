// SPDX-License-Identifier: GPL-2.0-only
/*
 * This runs for every ACK of a flow, in the softirq or process that holds its socket's lock: the
 * protocol's own callback, the fold of the sample, then commands and the watchdog.
 *
 * A protocol with cong_control (BBR) is hooked there, when everything about the ACK is known. The
 * others are hooked in pkts_acked, the only callback for every ACK that they may all have; losses
 * that this ACK is about to reveal are then counted at the next one.
 */
#include "compat.h"
#include "mutant_bbr.h"
#include "mutant_dest.h"
#include "mutant_jump.h"
#include "mutant_outcome.h"
#include "mutant_queue.h"
#include "mutant_sample.h"
#include "mutant_vegas.h"

/* Nobody has steered the flow for too long: true if it falls back now. */
static noinline bool mutant_fall_back(struct mutant_flow *f)
{
	bool due;

	spin_lock_bh(&f->lock);
	/* A command may just have come. */
	due = mutant_flow_silent(f);
	if (due) {
		WRITE_ONCE(f->want, READ_ONCE(mutant_config.fallback_arm));
		f->handover = MUTANT_HANDOVER_MODE_CONFIGURED;
		f->restore = 0;
		WRITE_ONCE(f->flags, (f->flags & ~MUTANT_FLOW_FLAGS_STEERED) |
			   MUTANT_FLOW_FLAGS_FALLEN_BACK);
		WRITE_ONCE(f->reason, f->abandoned ? MUTANT_FALLBACK_REASON_SESSION_ENDED :
			   MUTANT_FALLBACK_REASON_SILENCE);
		WRITE_ONCE(f->abandoned, false);
	}
	spin_unlock_bh(&f->lock);
	return due;
}

/*
 * BBR would keep the old floor for 10 s, and lose throughput again and again. Vegas would keep it
 * for good, and take the longer path for a queue.
 */
static void mutant_path_grew(struct sock *sk, struct mutant_flow *f)
{
	struct mutant_path *path = &f->measures->path;

	path->longer = false;
	if (f->arm == MUTANT_ARM_ID_BBR)
		mutant_bbr_set_floor(sk, mutant_path_floor_us(path));
	else if (f->arm == MUTANT_ARM_ID_VEGAS)
		mutant_vegas_set_floor(sk, mutant_arm_of(sk)->orig,
				       mutant_path_exact_us(path, tcp_sk(sk)->total_retrans));
}

static void mutant_window_give_back(struct tcp_sock *tp, u32 pkts)
{
	u32 window = tcp_snd_cwnd(tp);

	if (!pkts)
		return;
	window = window > pkts ? window - pkts : 0;
	tcp_snd_cwnd_set(tp, max_t(u32, window, MUTANT_WINDOW_MIN));
}

/* Take in an ACK in a pulse: the window grows, or a loss ends the pulse. */
static noinline void mutant_pulse_acked(struct sock *sk, struct mutant_measures *m, u32 acked)
{
	struct mutant_pulse *pulse = &m->pulse;
	struct tcp_sock *tp = tcp_sk(sk);
	u32 there_us = mutant_back_there_us(&m->back, tp->rx_opt.rcv_tsval, tp->rx_opt.rcv_tsecr);
	u32 window = tcp_snd_cwnd(tp), room = max(tp->snd_cwnd_clamp, window) - window;

	/* An arm in slow start grows by itself, and a window that is not full need not grow. */
	if (pulse->kind == MUTANT_PULSE_KIND_FILL &&
	    (tcp_in_slow_start(tp) || !tcp_is_cwnd_limited(sk)))
		acked = 0;
	if (inet_csk(sk)->icsk_ca_state != TCP_CA_Open || tp->sacked_out || tp->lost_out)
		mutant_window_give_back(tp, mutant_pulse_stop(pulse));
	else if (mutant_pulse_full(pulse, &m->path, there_us))
		mutant_window_give_back(tp, mutant_pulse_filled(pulse, window));
	else
		tcp_snd_cwnd_set(tp, window + mutant_pulse_grow(pulse, acked, room));
}

/* A round trip ended. An arm with a model, or a control, sets its window anew at each ACK. */
static void mutant_pulse_round_ended(struct sock *sk, struct mutant_flow *f, bool held_back,
				     const struct mutant_record *rec)
{
	/* Without timestamps nothing tells when a path is full. */
	bool unknown = !rec->there_us && !rec->back_us;
	struct mutant_pulse *pulse = &f->measures->pulse;
	struct mutant_path *path = &f->measures->path;
	struct tcp_sock *tp = tcp_sk(sk);
	u8 kind = READ_ONCE(f->pulse);

	held_back |= unknown && (kind ?: pulse->kind) == MUTANT_PULSE_KIND_FILL;
	mutant_window_give_back(tp, mutant_pulse_round_ends(pulse, path, held_back,
							    tcp_snd_cwnd(tp)));
	if (likely(!kind))
		return;
	WRITE_ONCE(f->pulse, MUTANT_PULSE_KIND_NONE);
	if (pulse->phase == MUTANT_PULSE_NONE && !held_back &&
	    (kind == MUTANT_PULSE_KIND_FILL || !tcp_in_slow_start(tp)) &&
	    inet_csk(sk)->icsk_ca_state == TCP_CA_Open && !mutant_arm_of(sk)->orig->cong_control)
		mutant_pulse_begin(pulse, path, tcp_snd_cwnd(tp), kind);
}

/* A round trip ended with an ACK of this RTT. Returns its news of the path. */
static noinline void mutant_round_ended(struct sock *sk, struct mutant_flow *f,
					struct mutant_record *rec, s64 rtt_us)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct mutant_measures *m = f->measures;
	struct mutant_path_ack ack = {
		.now_us = tp->tcp_mstamp,
		.rtt_us = rtt_us,
		.delivered = tp->delivered,
		.in_flight = tcp_packets_in_flight(tp),
		.held_back = tp->rate_app_limited || m->draining,
	};
	bool held_back = m->path.held_back;
	struct mutant_back_ack back;
	u32 floor_us;

	mutant_path_round_ends(&m->path, &ack);
	floor_us = mutant_path_floor_us(&m->path);
	rec->rtt_floor_us = floor_us == MUTANT_RTT_UNKNOWN ? 0 : floor_us;
	rec->bdp = mutant_path_bdp(&m->path);
	rec->silent_us = m->path.round[0].silent_us;
	rec->turn_pkts = mutant_path_turn(&m->path);
	mutant_back_read(tp, rtt_us, &back);
	mutant_back_round_ends(&m->back, &m->path, &back, &rec->there_us, &rec->back_us);
	mutant_pulse_round_ended(sk, f, held_back, rec);
	rec->round_trips = m->path.rounds;
	rec->siblings = mutant_dest_flows(m->dest);
	if (unlikely(m->path.longer))
		mutant_path_grew(sk, f);
}

/* The time between two outcomes of a flow that lasts, µs. */
#define OUTCOME_US	10000000U

/* A step has its first ACK. */
static noinline void mutant_step_began(struct sock *sk, struct mutant_measures *m,
				       struct mutant_record *rec)
{
	m->draining = mutant_bbr_draining(sk, mutant_arm_of(sk)->orig);
	m->pulse.gained = false;
	mutant_limits_read(tcp_sk(sk), rec);
}

static __always_inline void mutant_measure_ack(struct sock *sk, struct mutant_flow *f,
					       struct mutant_measures *m, s64 rtt_us)
{
	u64 rate = mutant_sample_rate(tcp_sk(sk), m);
	struct mutant_sample sample MUTANT_NOT_CLEARED;
	const struct tcp_sock *tp = tcp_sk(sk);
	struct mutant_step *step;
	u32 floor_us = 0;
	bool first;

	if (unlikely(tp->lost != f->last.lost)) {
		floor_us = mutant_path_floor_us(&m->path);
		if (floor_us == MUTANT_RTT_UNKNOWN)
			floor_us = 0;
	}
	step = mutant_step_begin(&m->steps);
	first = !step->rec.samples;
	if (first)
		mutant_step_began(sk, m, &step->rec);
	if (unlikely(m->pulse.phase))
		mutant_pulse_acked(sk, m, tp->delivered - f->last.delivered);
	mutant_back_heard(&m->back, tp->rx_opt.rcv_tsval, tp->rx_opt.rcv_tsecr);
	if (mutant_path_heard(&m->path, tp->tcp_mstamp, rtt_us, tp->delivered,
			      tp->rate_app_limited | m->draining))
		mutant_round_ended(sk, f, &step->rec, rtt_us);
	mutant_sample_read(sk, rate, rtt_us, &sample);
	if (m->draining)
		sample.flags |= MUTANT_FLOW_FLAGS_DRAINING;
	if (unlikely(m->pulse.gained))
		sample.flags |= MUTANT_FLOW_FLAGS_GAINED;
	sample.floor_us = floor_us;
	sample.idle = f->life.idle;
	mutant_fold(step, &m->epochs, &f->last, &sample);
	mutant_fold_levels(&step->rec, tp->mdev_us >> 2, tp->lost_out, tcp_packets_in_flight(tp));
	if (unlikely((u32)tp->tcp_mstamp - m->told_us >= OUTCOME_US))
		mutant_outcome_so_far(sk, f, &step->rec);
	mutant_step_end(&m->steps);
	if (first)
		mutant_queue_join(f);
}

static __always_inline void mutant_acked(struct sock *sk, s64 rtt_us)
{
	struct mutant_flow *f = mutant_flow_find(sk);
	struct mutant_measures *m;
	bool fell_back = false;

	if (unlikely(!f))
		return;
	if (unlikely(f->folded)) {
		f->folded = false;
		return;
	}
	mutant_outcome_acked(sk, f, rtt_us);
	m = f->measures;
	if (unlikely(!m) && READ_ONCE(f->asked))
		m = mutant_measure(sk, f);
	if (likely(m))
		mutant_measure_ack(sk, f, m, rtt_us);
	if (unlikely(f->jumper))
		mutant_jump_heard(sk, f);

	if ((READ_ONCE(f->flags) & (MUTANT_FLOW_FLAGS_STEERED | MUTANT_FLOW_FLAGS_PINNED)) ==
	    MUTANT_FLOW_FLAGS_STEERED && unlikely(mutant_flow_silent(f)))
		fell_back = mutant_fall_back(f);
	if (unlikely(READ_ONCE(f->want) != f->arm) && !mutant_jumping(f))
		mutant_switch(sk, f);
	if (unlikely(fell_back))
		mutant_event(f, MUTANT_EVENT_FALLBACK);
}

/* Take in an ACK of a flow that jumps, whose hook is elsewhere. */
void mutant_heard(struct sock *sk, s64 rtt_us)
{
	mutant_acked(sk, rtt_us);
}

static void mutant_hook_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	const struct tcp_congestion_ops *orig = mutant_arm_of(sk)->orig;

	/* A base RTT that is too low by a part of a millisecond is a queue to Vegas. */
	if (orig->pkts_acked && mutant_rtt_coarse(sample->rtt_us, tcp_sk(sk)->total_retrans)) {
		struct ack_sample exact = *sample;

		exact.rtt_us = -1;
		orig->pkts_acked(sk, &exact);
	} else if (orig->pkts_acked) {
		orig->pkts_acked(sk, sample);
	}
	mutant_acked(sk, sample->rtt_us);
}

static void mutant_hook_cong_control(MUTANT_CONG_CONTROL_ARGS)
{
	mutant_call_cong_control(mutant_arm_of(sk)->orig);
	mutant_acked(sk, rs->rtt_us);
}

/* Put our hooks into a copy of a protocol's ops. */
void mutant_hook(struct tcp_congestion_ops *clone)
{
	clone->init = mutant_flow_init;
	clone->release = mutant_flow_release;
	if (clone->cong_control)
		clone->cong_control = mutant_hook_cong_control;
	else
		clone->pkts_acked = mutant_hook_pkts_acked;
}
