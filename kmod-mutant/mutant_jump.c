// SPDX-License-Identifier: GPL-2.0-only
/* Jumping on a socket, under its lock; mutant_jump.h explains the whole. */
#include "compat.h"
#include "mutant_bbr.h"
#include "mutant_freeze.h"
#include "mutant_jump.h"
#include "mutant_memory.h"

/* Clones of the arms' ops for a flow that jumps, by id. */
static struct mutant_arm mutant_jump_arms[MUTANT_ARMS_MAX + 1];

static atomic64_t mutant_jump_counts[MUTANT_JUMP_COUNTS];

static void mutant_jump_note(enum mutant_jump_count what)
{
	atomic64_inc(&mutant_jump_counts[what]);
}

u64 mutant_jump_count(enum mutant_jump_count what)
{
	return atomic64_read(&mutant_jump_counts[what]);
}

/* The time in which the receiver's window or the send buffer has held the flow back, jiffies. */
static u32 mutant_jump_held(const struct tcp_sock *tp, enum tcp_chrono by)
{
	u32 now = tp->chrono_type == by ? tcp_jiffies32 - tp->chrono_start : 0;

	return tp->chrono_stat[by - 1] + now;
}

/* The reason why a flow was held back since its jump. */
static u8 mutant_jump_cut(const struct tcp_sock *tp, const struct mutant_jumper *j)
{
	if (mutant_jump_held(tp, TCP_CHRONO_RWND_LIMITED) != j->held_by_receiver)
		return MUTANT_RESUME_CUT_BY_RECEIVER;
	if (mutant_jump_held(tp, TCP_CHRONO_SNDBUF_LIMITED) != j->held_by_buffer)
		return MUTANT_RESUME_CUT_BY_BUFFER;
	return MUTANT_RESUME_WHOLE;
}

/* Whether the application, or the send buffer, had less to send than the window permits. */
static bool mutant_jump_limited(const struct tcp_sock *tp)
{
	return tp->rate_app_limited || tp->write_seq == tp->snd_nxt;
}

static void mutant_jump_read(struct sock *sk, const struct mutant_jumper *j, u32 before,
			     struct mutant_resume_ack *ack)
{
	u8 state = inet_csk(sk)->icsk_ca_state;
	struct tcp_sock *tp = tcp_sk(sk);

	*ack = (struct mutant_resume_ack){
		.now_us = tp->tcp_mstamp,
		.una = tp->snd_una,
		.sacked = tcp_highest_sack_seq(tp),
		.next = tp->snd_nxt,
		.delivered = tp->delivered,
		.in_flight = tcp_packets_in_flight(tp),
		.window = tcp_snd_cwnd(tp),
		.full = before >= tcp_snd_cwnd(tp),
		.cut = mutant_jump_cut(tp, j),
		.congested = tp->lost != j->lost || tp->delivered_ce != j->marked ||
			     state >= TCP_CA_CWR,
		.recovering = state == TCP_CA_CWR || state == TCP_CA_Recovery,
		.timeout = state == TCP_CA_Loss,
		.limited = mutant_jump_limited(tp),
	};
}

/* A flow begins. It may jump if it has sent nothing yet, not even a second SYN. */
void mutant_jump_join(struct sock *sk, struct mutant_flow *f)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct mutant_resume_ack ack;
	struct mutant_jumper *j;

	j = mutant_part_new(MUTANT_PART_JUMPER);
	if (!j)
		return;
	j->sk = sk;
	j->mss = tp->mss_cache;
	j->lost = tp->lost;
	j->marked = tp->delivered_ce;
	/* The kernel may have kept it from an earlier flow to the same host (tcp_metrics). */
	j->ssthresh = tp->snd_ssthresh;
	mutant_jump_read(sk, j, 0, &ack);
	mutant_resume_init(&j->resume, &ack, !tp->data_segs_out && !tp->total_retrans);
	if (!mutant_host_join(f, j)) {
		mutant_part_free(MUTANT_PART_JUMPER, j);
		return;
	}
	/* It is complete when it is seen; pairs with mutant_jump_flags(). */
	smp_store_release(&f->jumper, j);
}

static void mutant_jump_stop_pacing(struct sock *sk, struct mutant_jumper *j)
{
	if (j->paced)
		mutant_stop_pacing(sk);
	j->paced = false;
}

/* The socket runs the arm's own ops again, as before the jump. */
static void mutant_jump_land(struct sock *sk, struct mutant_flow *f)
{
	struct mutant_jumper *j = f->jumper;

	WRITE_ONCE(inet_csk(sk)->icsk_ca_ops, &mutant_arms[f->arm].ops);
	f->marks.seen = tcp_sk(sk)->delivered_ce;
	mutant_host_release(f, j);
}

/* The flow ends, or leaves `mutant`: nobody is left to validate the window of its jump. */
void mutant_jump_leave(struct sock *sk, struct mutant_flow *f)
{
	struct mutant_jumper *j = f->jumper;
	struct tcp_sock *tp = tcp_sk(sk);

	if (!j)
		return;
	if (mutant_jumping(f)) {
		tcp_snd_cwnd_set(tp, min(tcp_snd_cwnd(tp), max(j->resume.pipe, 2U)));
		mutant_jump_land(sk, f);
	}
	mutant_jump_stop_pacing(sk, j);
	mutant_host_leave(f, j);
}

/* Send @pkts in @rtt_us. */
static void mutant_jump_pace(struct sock *sk, u32 pkts, u32 rtt_us)
{
	u64 rate = (u64)pkts * tcp_sk(sk)->mss_cache * USEC_PER_SEC;

	rate = div_u64(rate, rtt_us ?: 1);
	WRITE_ONCE(sk->sk_pacing_rate, min_t(u64, rate, READ_ONCE(sk->sk_max_pacing_rate)));
}

/* Whether more than the window permits waits to be sent. */
static bool mutant_jump_wanted(const struct tcp_sock *tp, const struct mutant_resume_ack *ack)
{
	u32 room = ack->window > ack->in_flight ? ack->window - ack->in_flight : 0;

	return tp->write_seq - tp->snd_nxt > (u64)room * tp->mss_cache;
}

/* The first window has been acknowledged: jump, if that is possible. */
static void mutant_jump_begin(struct sock *sk, struct mutant_flow *f,
			      const struct mutant_resume_ack *ack)
{
	const struct tcp_congestion_ops *orig = mutant_arms[f->arm].orig;
	struct mutant_jumper *j = f->jumper;
	struct tcp_sock *tp = tcp_sk(sk);
	u32 rtt_us = tcp_min_rtt(tp), ssthresh = TCP_INFINITE_SSTHRESH, window;

	j->resume.phase = MUTANT_RESUME_NORMAL;
	if (mutant_arm_has_model(&mutant_arms[f->arm]) && !mutant_bbr_starting(sk, orig))
		return;
	j->mss = tp->mss_cache;
	window = min(mutant_host_claim(f, j, rtt_us, &ssthresh), tp->snd_cwnd_clamp);
	if (window <= ack->window) {
		mutant_host_release(f, j);
		return;
	}
	mutant_resume_jump(&j->resume, ack, window, rtt_us);
	mutant_jump_note(MUTANT_JUMPS);
	j->una = tp->snd_una;
	j->held_by_receiver = mutant_jump_held(tp, TCP_CHRONO_RWND_LIMITED);
	j->held_by_buffer = mutant_jump_held(tp, TCP_CHRONO_SNDBUF_LIMITED);
	j->paced = cmpxchg(&sk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED) ==
		   SK_PACING_NONE;
	/* BBR has no threshold. */
	if (!mutant_arm_has_model(&mutant_arms[f->arm]))
		tp->snd_ssthresh = max(ssthresh, window);
	tcp_snd_cwnd_set(tp, window);
	tp->snd_cwnd_stamp = tcp_jiffies32;
	mutant_jump_pace(sk, window, rtt_us);
	/* cong_control comes after pkts_acked: this ACK, already folded, reaches us once more. */
	f->folded = !orig->cong_control;
	WRITE_ONCE(inet_csk(sk)->icsk_ca_ops, &mutant_jump_arms[f->arm].ops);
}

/* Take in an ACK of a flow that takes part, and does not jump. */
void mutant_jump_heard(struct sock *sk, struct mutant_flow *f)
{
	const struct tcp_congestion_ops *orig = mutant_arms[f->arm].orig;
	struct mutant_jumper *j = f->jumper;
	struct tcp_sock *tp = tcp_sk(sk);
	struct mutant_resume_ack ack;

	if (mutant_resume_jumping(&j->resume))
		return;
	if (j->resume.phase == MUTANT_RESUME_NORMAL) {
		j->resume.limited |= mutant_jump_limited(tp);
		if (likely(!mutant_resume_round_over(&j->resume, tp->delivered)))
			return;
	}
	mutant_jump_read(sk, j, 0, &ack);
	if (j->resume.phase == MUTANT_RESUME_RECONNAISSANCE) {
		ack.slow_start = tp->snd_ssthresh == j->ssthresh;
		if (mutant_resume_reconnoitred(&j->resume, &ack) && mutant_jump_wanted(tp, &ack))
			mutant_jump_begin(sk, f, &ack);
		if (mutant_resume_jumping(&j->resume))
			return;
	}
	j->mss = tp->mss_cache;
	ack.rtt_us = tp->srtt_us >> 3;
	ack.slow_start = tcp_in_slow_start(tp);
	/*
	 * After a paced jump ACKs come without a pause, which Cubic's HyStart takes for a full path
	 * where nothing paces.
	 */
	if (!ack.slow_start)
		mutant_jump_stop_pacing(sk, j);
	if (f->arm == MUTANT_ARM_ID_BBR) {
		ack.slow_start = mutant_bbr_starting(sk, orig);
		ack.limited |= mutant_bbr_draining(sk, orig);
	}
	mutant_resume_observe(&j->resume, &ack, tcp_min_rtt(tp));
}

/* Congestion came before the jump was validated. Returns the window of the retreat. */
static u32 mutant_jump_retreat(struct mutant_flow *f, const struct mutant_resume_ack *ack)
{
	struct mutant_jumper *j = f->jumper;

	if (j->resume.phase != MUTANT_RESUME_RETREAT) {
		mutant_host_unsave(f, j);
		mutant_jump_note(MUTANT_JUMPS_RETREATED);
		j->rescue = true;
	}
	return mutant_resume_retreat(&j->resume, ack);
}

/* The ssthresh of a flow that jumps: the kernel begins a recovery, or has had a timeout. */
static u32 mutant_jump_ssthresh(struct sock *sk)
{
	struct mutant_flow *f = mutant_flow_find(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	struct mutant_resume_ack ack;

	mutant_jump_read(sk, f->jumper, 0, &ack);
	tcp_snd_cwnd_set(tp, mutant_jump_retreat(f, &ack));
	/* The arm hears of the loss under the window that is left. */
	mutant_arm_of(sk)->orig->ssthresh(sk);
	tp->prior_cwnd = tcp_snd_cwnd(tp);
	return mutant_resume_ssthresh(&f->jumper->resume);
}

/* A retreat is never undone. */
static u32 mutant_jump_undo_cwnd(struct sock *sk)
{
	return tcp_snd_cwnd(tcp_sk(sk));
}

/* The arm's own growth, while the jump is validated. */
static void mutant_jump_grow(struct sock *sk, const struct mutant_arm *arm, s32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (acked <= 0)
		return;
	if (arm->kind == MUTANT_ARM_KIND_LEARNED)
		tcp_reno_cong_avoid(sk, 0, acked);
	else
		arm->orig->cong_avoid(sk, tp->snd_una, acked);
	tp->snd_cwnd_stamp = tcp_jiffies32;
}

/* BBR's model shows a path that was overfilled: BBR starts anew, as a new flow does. */
static void mutant_jump_restart(struct sock *sk, const struct mutant_flow *f)
{
	u8 state = inet_csk(sk)->icsk_ca_state;
	struct tcp_sock *tp = tcp_sk(sk);

	tcp_snd_cwnd_set(tp, min_t(u32, tcp_snd_cwnd(tp), TCP_INIT_CWND));
	if (mutant_arm_start(sk, f->arm) && state != TCP_CA_Open &&
	    mutant_arms[f->arm].orig->set_state)
		mutant_arms[f->arm].orig->set_state(sk, state);
}

/* The jump is over, one way or the other. */
static void mutant_jump_end(struct sock *sk, struct mutant_flow *f)
{
	struct mutant_jumper *j = f->jumper;
	struct tcp_sock *tp = tcp_sk(sk);

	mutant_jump_land(sk, f);
	if (j->resume.result == MUTANT_RESUME_VALIDATED) {
		mutant_jump_note(MUTANT_JUMPS_VALIDATED);
		return;
	}
	mutant_jump_stop_pacing(sk, j);
	tp->snd_ssthresh = min(tp->snd_ssthresh, mutant_resume_ssthresh(&j->resume));
	tp->prior_ssthresh = min(tp->prior_ssthresh, tp->snd_ssthresh);
	tp->undo_marker = 0;
	if (mutant_arm_has_model(&mutant_arms[f->arm]))
		mutant_jump_restart(sk, f);
}

/* The rate of the packets that are sent now. */
static void mutant_jump_pace_phase(struct sock *sk, const struct mutant_jumper *j, bool model)
{
	const struct mutant_resume *r = &j->resume;
	u32 window = tcp_snd_cwnd(tcp_sk(sk)), srtt_us = tcp_sk(sk)->srtt_us >> 3;
	unsigned long own = sk->sk_pacing_rate;

	switch (r->phase) {
	case MUTANT_RESUME_UNVALIDATED:
		mutant_jump_pace(sk, r->jump, r->rtt_us);
		break;
	case MUTANT_RESUME_VALIDATING:
		/* BBR's two rounds have the rate of the jump; the others go on as in slow start. */
		if (model)
			mutant_jump_pace(sk, r->jump, r->rtt_us);
		else
			mutant_jump_pace(sk, 2 * window, srtt_us);
		break;
	case MUTANT_RESUME_RETREAT:
		mutant_jump_pace(sk, window, srtt_us);
		return;
	}
	if (model)
		WRITE_ONCE(sk->sk_pacing_rate, max(own, sk->sk_pacing_rate));
}

/* Take in an ACK of a flow that jumps. */
static void mutant_jump_acked(struct sock *sk, struct mutant_flow *f, const struct rate_sample *rs,
			      struct mutant_resume_ack *ack)
{
	struct mutant_resume *r = &f->jumper->resume;
	u8 cut = r->cut, growth = r->growth;
	struct tcp_sock *tp = tcp_sk(sk);
	u32 window;

	mutant_jump_read(sk, f->jumper, rs->prior_in_flight, ack);
	ack->rtt_us = max(rs->rtt_us, 0L);
	if (ack->congested)
		mutant_jump_retreat(f, ack);
	window = mutant_resume_acked(r, ack);
	tcp_snd_cwnd_set(tp, window);
	if (r->growth != growth && r->growth == MUTANT_RESUME_OVER &&
	    !mutant_arm_has_model(&mutant_arms[f->arm]))
		tp->snd_ssthresh = window;
	if (r->cut == cut)
		return;
	mutant_jump_note(r->cut == MUTANT_RESUME_CUT_BY_RECEIVER ?
			 MUTANT_JUMPS_CUT_BY_RECEIVER : MUTANT_JUMPS_CUT_BY_BUFFER);
}

/* RFC 6675, section 5: the first retransmission leaves before the window is reduced. */
static void mutant_jump_rescue(struct sock *sk, struct mutant_jumper *j)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (j->resume.phase == MUTANT_RESUME_RETREAT && tp->lost_out > tp->retrans_out)
		tcp_snd_cwnd_set(tp, max(tcp_snd_cwnd(tp), tcp_packets_in_flight(tp) + 1));
	j->rescue = false;
}

static void mutant_jump_cong_control(MUTANT_CONG_CONTROL_ARGS)
{
	const struct mutant_arm *arm = mutant_arm_of(sk);
	struct mutant_flow *f = mutant_flow_find(sk);
	bool model = mutant_arm_has_model(arm);
	struct mutant_jumper *j = f->jumper;
	u8 growth = j->resume.growth;
	struct tcp_sock *tp = tcp_sk(sk);
	struct mutant_resume_ack now;

	mutant_jump_acked(sk, f, rs, &now);
	if (!now.congested) {
		if (model)
			mutant_call_cong_control(arm->orig);
		if (j->resume.phase == MUTANT_RESUME_UNVALIDATED)
			tcp_snd_cwnd_set(tp, now.window);
		else if (!model && growth != MUTANT_RESUME_HELD && tp->snd_una != j->una)
			mutant_jump_grow(sk, arm, rs->acked_sacked);
	}
	mutant_jump_pace_phase(sk, j, model);
	if (unlikely(j->rescue))
		mutant_jump_rescue(sk, j);
	j->una = tp->snd_una;
	if (!mutant_resume_jumping(&j->resume))
		mutant_jump_end(sk, f);
	mutant_heard(sk, rs->rtt_us);
	/* A switch of this ACK cannot have it reach us once more. */
	f->folded = false;
}

/* Make the ops of a flow that runs @arm and jumps. */
void mutant_jump_hook(const struct mutant_arm *arm)
{
	struct mutant_arm *jump = &mutant_jump_arms[arm->id];

	*jump = *arm;
	jump->ops.pkts_acked = arm->orig->pkts_acked;
	jump->ops.cong_control = mutant_jump_cong_control;
	jump->ops.ssthresh = mutant_jump_ssthresh;
	jump->ops.undo_cwnd = mutant_jump_undo_cwnd;
}

/* Tell a flow's record of its jump. The caller need not have its socket's lock. */
u32 mutant_jump_flags(const struct mutant_flow *f)
{
	/* Pairs with mutant_jump_join(). */
	const struct mutant_jumper *j = smp_load_acquire(&f->jumper);

	switch (j ? READ_ONCE(j->resume.result) : MUTANT_RESUME_NO_JUMP) {
	case MUTANT_RESUME_OPEN:
		return MUTANT_FLOW_FLAGS_JUMPING;
	case MUTANT_RESUME_VALIDATED:
		return MUTANT_FLOW_FLAGS_RESUMED;
	case MUTANT_RESUME_RETREATED:
		return MUTANT_FLOW_FLAGS_RETREATED;
	}
	return 0;
}
