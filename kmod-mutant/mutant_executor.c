// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the learned arms run in the kernel: the law of their last control, for every ACK.
 *
 * The decisions are made in user space; here they are executed between two of them, and the flow is
 * kept safe: without a control, or without a new window for a while, it behaves as reno. All laws
 * share one cong_control, so that none of them is at the mercy of the kernel's own reduction in
 * fast recovery; a loss event cuts the window as the law says, at once, and a timeout collapses it
 * to what the kernel leaves, from where slow start brings it back.
 */
#include "compat.h"
#include "mutant_aimd.h"
#include "mutant_core.h"
#include "mutant_cubic.h"

/* What is remembered of a flow, in its socket's private area. */
struct executor {
	struct mutant_flow *flow;
	u32 seq;			/* of the control that was taken */
	bool fresh;			/* it has not been acted upon yet */
	struct mutant_setting setting;
	u32 fraction;			/* of a packet, above snd_cwnd */
	struct mutant_cubic cubic;
};

static struct executor *executor_of(const struct sock *sk)
{
	return inet_csk_ca(sk);
}

static void executor_init(struct sock *sk)
{
	BUILD_BUG_ON(sizeof(struct executor) > ICSK_CA_PRIV_SIZE);
	cmpxchg(&sk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED);
}

/* From here on, what is sent is sent under the control that was just taken. */
static void mark(const struct tcp_sock *tp, const struct executor *e)
{
	const struct mutant_mark mark = {
		.sent = tp->delivered + tp->lost + tcp_packets_in_flight(tp),
		.number = e->setting.value[1],
	};

	mutant_echo_mark(&e->flow->echoes, e->flow->epochs.newest, &mark);
}

/* What the ACK says of what was sent under the controls before. */
static void hear(const struct tcp_sock *tp, struct mutant_flow *f, const struct rate_sample *rs)
{
	const struct mutant_heard heard = {
		.now_us = tp->tcp_mstamp,
		.sent_us = tp->first_tx_mstamp,
		.rtt_us = rs->rtt_us,
		.acked = max(rs->acked_sacked, 0),
		.delivered = tp->delivered,
		.lost = tp->lost,
	};
	struct mutant_step *step;
	struct mutant_echo echo;

	if (likely(!mutant_echo_heard(&f->echoes, f->epochs.newest, &heard, &echo)))
		return;
	step = mutant_step_begin(&f->steps);
	mutant_echo_put(&step->rec, &echo);
	mutant_step_end(&f->steps);
}

/* Take over a control that has come since the last ACK. */
static void take_control(struct sock *sk, struct executor *e)
{
	u32 law = e->setting.law;

	if (unlikely(!e->flow)) {
		/* The first arm of a flow starts before the flow is there to be found. */
		e->flow = mutant_flow_find(sk);
		if (!e->flow)
			return;
	}
	if (likely(!mutant_control_take(mutant_flow_kept(e->flow, e->flow->arm), &e->seq,
					&e->setting)))
		return;
	e->fresh = true;
	if (e->setting.law == MUTANT_CONTROL_LAW_WINDOW)
		mark(tcp_sk(sk), e);
	if (e->setting.law != law)
		memset(&e->cubic, 0, sizeof(e->cubic));
}

/* A window that nobody has renewed for a second or eight round trips is nobody's. */
static bool expired(const struct tcp_sock *tp, const struct mutant_setting *setting)
{
	u32 age = tcp_jiffies32 - setting->since;

	/* srtt_us is in eighths. */
	return age > HZ && age > usecs_to_jiffies(tp->srtt_us);
}

/* Without use of half the window, an ACK says nothing about a larger one. */
static bool window_used(const struct tcp_sock *tp, const struct rate_sample *rs)
{
	return rs->prior_in_flight >= tcp_snd_cwnd(tp) / 2;
}

static void set_window(struct tcp_sock *tp, u32 window)
{
	tcp_snd_cwnd_set(tp, min(window, tp->snd_cwnd_clamp));
}

static void run_reno(struct sock *sk, const struct rate_sample *rs)
{
	if (!tcp_in_cwnd_reduction(sk) && rs->acked_sacked > 0)
		tcp_reno_cong_avoid(sk, 0, rs->acked_sacked);
}

static void run_window(struct sock *sk, struct executor *e, const struct rate_sample *rs)
{
	u32 target = e->setting.value[0], acked = max(rs->acked_sacked, 0);
	bool timeout = inet_csk(sk)->icsk_ca_state == TCP_CA_Loss;
	struct tcp_sock *tp = tcp_sk(sk);
	u32 window = tcp_snd_cwnd(tp);

	if (unlikely(expired(tp, &e->setting))) {
		e->setting.law = MUTANT_CONTROL_LAW_NONE;
		/* On by congestion avoidance, unless a timeout left more to come back to. */
		if (tcp_in_initial_slowstart(tp))
			tp->snd_ssthresh = max(window, 2U);
		return;
	}
	if (e->fresh && !timeout)
		window = mutant_window_jump(window, target);
	e->fresh = false;
	window = mutant_window_glide(window, target, acked);
	/* Slow start brings back what a timeout took, not what the law takes. */
	if (window < tcp_snd_cwnd(tp) && !timeout && !tcp_in_initial_slowstart(tp))
		tp->snd_ssthresh = min(tp->snd_ssthresh, window);
	set_window(tp, window);
}

/* After a timeout, or behind an arm that had one: up to the threshold, doubling. */
static void slow_start(struct tcp_sock *tp, u32 acked)
{
	set_window(tp, min(tcp_snd_cwnd(tp) + acked, tp->snd_ssthresh));
}

static void run_aimd(struct sock *sk, struct executor *e, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	s32 acked = max(rs->acked_sacked, 0), gain = MUTANT_AIMD_START;

	if (!tcp_in_initial_slowstart(tp)) {
		if (tcp_in_slow_start(tp)) {
			slow_start(tp, acked);
			return;
		}
		gain = mutant_aimd_gain(e->setting.value, tp->srtt_us, tcp_min_rtt(tp));
	}
	if (gain > 0 && !window_used(tp, rs))
		return;
	set_window(tp, mutant_window_add(tcp_snd_cwnd(tp), &e->fraction, (s64)acked * gain));
	/* What the delay took is not to be had back by slow start. */
	if (gain < 0)
		tp->snd_ssthresh = min(tp->snd_ssthresh, tcp_snd_cwnd(tp));
}

static void run_cubic(struct sock *sk, struct executor *e, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 window = tcp_snd_cwnd(tp);
	struct mutant_cubic_ack ack = {
		.now_us = tp->tcp_mstamp,
		.acked = max(rs->acked_sacked, 0),
		.delivered = tp->delivered,
		.prior_delivered = rs->prior_delivered,
		.rtt_us = rs->rtt_us,
		.min_rtt_us = min(tcp_min_rtt(tp), tp->srtt_us >> 3),
		.srtt_us = tp->srtt_us >> 3,
		.used = window_used(tp, rs),
	};

	if (tcp_in_cwnd_reduction(sk) || !ack.acked)
		return;
	if (tcp_in_slow_start(tp)) {
		if (ack.used)
			slow_start(tp, ack.acked);
		if (mutant_cubic_queues(&e->cubic, window, &ack))
			tp->snd_ssthresh = tcp_snd_cwnd(tp);
		return;
	}
	set_window(tp, mutant_cubic_avoid(&e->cubic, window, &e->fraction, &ack,
					  e->setting.value));
}

/* As the kernel paces the protocols that leave it to the kernel. */
static u32 usual_pace(const struct tcp_sock *tp)
{
	return tcp_in_slow_start(tp) ? 200 : 120;
}

/* Send @percent of a window in a smoothed round trip (Spine Eq. 5). */
static void pace(struct sock *sk, u32 percent)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 window = clamp(tcp_snd_cwnd(tp), (u32)MUTANT_WINDOW_MIN, MUTANT_WINDOW_MAX);
	u64 rate = (u64)tp->mss_cache * window * percent;

	if (unlikely(!tp->srtt_us))
		return;
	rate = rate * ((USEC_PER_SEC / 100) << 3) / tp->srtt_us;
	WRITE_ONCE(sk->sk_pacing_rate, min_t(u64, rate, READ_ONCE(sk->sk_max_pacing_rate)));
}

static void executor_cong_control(MUTANT_CONG_CONTROL_ARGS)
{
	struct executor *e = executor_of(sk);

	take_control(sk, e);
	switch (e->setting.law) {
	case MUTANT_CONTROL_LAW_WINDOW:
		hear(tcp_sk(sk), e->flow, rs);
		run_window(sk, e, rs);
		pace(sk, 100);
		break;
	case MUTANT_CONTROL_LAW_AIMD:
		run_aimd(sk, e, rs);
		pace(sk, 100);
		break;
	case MUTANT_CONTROL_LAW_CUBIC:
		run_cubic(sk, e, rs);
		pace(sk, usual_pace(tcp_sk(sk)));
		break;
	default:
		run_reno(sk, rs);
		pace(sk, usual_pace(tcp_sk(sk)));
	}
}

/* The threshold that a loss event or a timeout leaves. */
static u32 executor_ssthresh(struct sock *sk)
{
	struct executor *e = executor_of(sk);
	u32 window = tcp_snd_cwnd(tcp_sk(sk));

	switch (e->setting.law) {
	case MUTANT_CONTROL_LAW_WINDOW:
		return max_t(u32, window, MUTANT_WINDOW_MIN);
	case MUTANT_CONTROL_LAW_AIMD:
		return mutant_window_cut(window, e->setting.value[ALPHA_LOSS]);
	case MUTANT_CONTROL_LAW_CUBIC:
		return mutant_cubic_back_off(&e->cubic, window, e->setting.value);
	default:
		return tcp_reno_ssthresh(sk);
	}
}

/* A loss event cuts the window at once to the threshold that it left. */
static void executor_set_state(struct sock *sk, u8 state)
{
	struct tcp_sock *tp = tcp_sk(sk);

	/* A timeout: what was known of the path is worth nothing. */
	if (state == TCP_CA_Loss)
		memset(&executor_of(sk)->cubic, 0, sizeof(struct mutant_cubic));
	if ((state == TCP_CA_CWR || state == TCP_CA_Recovery) &&
	    inet_csk(sk)->icsk_ca_state < TCP_CA_CWR)
		tcp_snd_cwnd_set(tp, min(tcp_snd_cwnd(tp), tp->snd_ssthresh));
}

/* In windows: the one in flight, and what waits behind a hole while the window is kept. */
static u32 executor_sndbuf_expand(struct sock *sk)
{
	return 3;
}

const struct tcp_congestion_ops mutant_executor_ops = {
	.init		= executor_init,
	.cong_control	= executor_cong_control,
	.ssthresh	= executor_ssthresh,
	.set_state	= executor_set_state,
	.undo_cwnd	= tcp_reno_undo_cwnd,
	.sndbuf_expand	= executor_sndbuf_expand,
};
