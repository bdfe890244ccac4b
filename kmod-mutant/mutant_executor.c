// SPDX-License-Identifier: GPL-2.0-only
/*
 * The learned arms run this in the kernel: the law of their last control, for every ACK.
 *
 * User space makes the decisions. Here the law runs between two of them, and the flow is kept safe:
 * without a control, or a new window for a while, the flow behaves as reno. All laws share one
 * cong_control, so that the kernel's own reduction in fast recovery cuts none of them. A loss event
 * cuts the window at once, as the law says. A timeout collapses it to the kernel's remainder, from
 * where slow start brings it back.
 */
#include "compat.h"
#include "mutant_law.h"
#include "mutant_window.h"

static struct mutant_executor *mutant_executor_of(const struct sock *sk)
{
	return inet_csk_ca(sk);
}

static void mutant_executor_init(struct sock *sk)
{
	BUILD_BUG_ON(sizeof(struct mutant_executor) > ICSK_CA_PRIV_SIZE);
	cmpxchg(&sk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED);
}

/* From here on, packets leave under the control that was just taken. */
static void mutant_mark_sent(const struct tcp_sock *tp, const struct mutant_executor *e)
{
	const struct mutant_measures *m = e->flow->measures;
	const struct mutant_mark mark = {
		.sent = tp->delivered + tp->lost + tcp_packets_in_flight(tp),
		.number = e->setting.value[1],
	};

	/* Nobody waits for the echo of a flow that nobody measures. */
	if (m)
		mutant_echo_mark(&e->flow->learned->echoes, m->epochs.newest, &mark);
}

/* Tell the echoes of the ACK, which answers packets sent under earlier controls. */
static void mutant_hear(const struct tcp_sock *tp, struct mutant_flow *f,
			const struct rate_sample *rs)
{
	struct mutant_measures *m = f->measures;
	const struct mutant_ack ack = {
		.now_us = tp->tcp_mstamp,
		.sent_us = tp->first_tx_mstamp,
		.delivered = tp->delivered,
		.lost = tp->lost,
	};
	struct mutant_step *step;
	struct mutant_heard heard;

	if (unlikely(!m) || likely(!mutant_echo_heard(&f->learned->echoes, m->epochs.newest, &ack,
						      rs->rtt_us, &heard)))
		return;
	step = mutant_step_begin(&m->steps);
	mutant_echo_put(&step->rec, &heard);
	mutant_step_end(&m->steps);
}

/* Take over a control that has come since the last ACK. */
static void mutant_take_control(struct sock *sk, struct mutant_executor *e)
{
	u32 law = e->setting.law;
	struct mutant_learned *learned;

	if (unlikely(!e->flow)) {
		/* The first arm of a flow starts before the flow is there to be found. */
		e->flow = mutant_flow_find(sk);
		if (!e->flow)
			return;
	}
	/* Pairs with mutant_flow_learned(). */
	learned = smp_load_acquire(&e->flow->learned);
	if (!learned || likely(!mutant_control_take(mutant_learned_kept(learned, e->flow->arm),
						    &e->number, &e->setting)))
		return;
	e->fresh = true;
	if (e->setting.law == MUTANT_CONTROL_LAW_WINDOW)
		mutant_mark_sent(tcp_sk(sk), e);
	if (e->setting.law != law)
		memset(&e->cubic, 0, sizeof(e->cubic));
}

/* Send @percent of a window in a smoothed round trip (Spine Eq. 5), or in @rtt_us. */
static void mutant_pace(struct sock *sk, u32 percent, s64 rtt_us)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 window = clamp(tcp_snd_cwnd(tp), (u32)MUTANT_WINDOW_MIN, MUTANT_WINDOW_MAX);
	u64 rate = (u64)tp->mss_cache * window * percent;

	if (unlikely(!tp->srtt_us))
		return;
	/* The kernel keeps eighths of a microsecond. */
	rate = rate * ((USEC_PER_SEC / 100) << 3) / mutant_window_rtt(tp->srtt_us, rtt_us << 3);
	WRITE_ONCE(sk->sk_pacing_rate, min_t(u64, rate, READ_ONCE(sk->sk_max_pacing_rate)));
}

/* Congestion marks count, whatever the law wants. */
static noinline void mutant_cap_window(struct tcp_sock *tp, struct mutant_marks *marks)
{
	tcp_snd_cwnd_set(tp, mutant_marks_capped(marks, tcp_snd_cwnd(tp), tp->delivered,
						 tcp_packets_in_flight(tp)));
}

static void mutant_executor_cong_control(MUTANT_CONG_CONTROL_ARGS)
{
	struct mutant_executor *e = mutant_executor_of(sk);
	const struct mutant_law *law;

	mutant_take_control(sk, e);
	law = &mutant_laws[e->setting.law];
	if (law->echoes)
		mutant_hear(tcp_sk(sk), e->flow, rs);
	law->run(sk, e, rs);
	if (likely(e->flow)) {
		if (unlikely(e->flow->marks.cap))
			mutant_cap_window(tcp_sk(sk), &e->flow->marks);
		e->flow->marks.seen = tcp_sk(sk)->delivered_ce;
	}
	mutant_pace(sk, mutant_laws[e->setting.law].pace(tcp_sk(sk)), rs->rtt_us);
}

static u32 mutant_executor_ssthresh(struct sock *sk)
{
	struct mutant_executor *e = mutant_executor_of(sk);

	return mutant_laws[e->setting.law].ssthresh(sk, e);
}

/* Whether marks were delivered since the last ACK; without ECN there are none. */
static bool mutant_marked(struct sock *sk, struct mutant_executor *e)
{
	if (unlikely(!e->flow))
		e->flow = mutant_flow_find(sk);
	return tcp_sk(sk)->delivered_ce != (e->flow ? e->flow->marks.seen : 0);
}

/* A loss event cuts the window at once to the threshold that it left. */
static void mutant_executor_set_state(struct sock *sk, u8 state)
{
	struct mutant_executor *e = mutant_executor_of(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	u32 window, left;

	/* After a timeout, all knowledge of the path is worth nothing. */
	if (state == TCP_CA_Loss)
		memset(&e->cubic, 0, sizeof(e->cubic));
	if (state < TCP_CA_CWR || state > TCP_CA_Recovery ||
	    inet_csk(sk)->icsk_ca_state >= TCP_CA_CWR)
		return;
	window = min(tcp_snd_cwnd(tp), tp->snd_ssthresh);
	if (state == TCP_CA_CWR && mutant_marked(sk, e)) {
		/* A parameter may say that losses do not count; marks always do. */
		window = min(window, mutant_marks_cut(tcp_snd_cwnd(tp)));
		if (e->flow)
			mutant_marks_heard(&e->flow->marks, tcp_snd_cwnd(tp), tp->delivered,
					   tcp_packets_in_flight(tp));
	}
	left = mutant_window_retreat(window, tcp_snd_cwnd(tp), e->proven, tp->delivered);
	e->proven = 0;
	/* A target of before the pause does not bring it back. */
	if (left < window && e->setting.law == MUTANT_CONTROL_LAW_WINDOW)
		e->setting.value[0] = left;
	tcp_snd_cwnd_set(tp, left);
}

/*
 * The flow sends again. The kernel looks after a window that was not used only where a protocol
 * leaves the window to it (RFC 2861). Here the pace allows to keep it: see mutant_window.h.
 */
static void mutant_executor_tx_start(struct sock *sk)
{
	struct mutant_executor *e = mutant_executor_of(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	u32 window = tcp_snd_cwnd(tp), idle = tcp_jiffies32 - tp->lsndtime;

	if (idle <= inet_csk(sk)->icsk_rto ||
	    !READ_ONCE(sock_net(sk)->ipv4.sysctl_tcp_slow_start_after_idle))
		return;
	e->proven = (tp->delivered + window) | 1;
	tp->snd_ssthresh = tcp_current_ssthresh(sk);
	tcp_snd_cwnd_set(tp, mutant_window_after_idle(window, idle / HZ));
}

MUTANT_TX_START_EVENT(mutant_executor_tx_start)

/* Three windows: one is in flight, the others wait behind a hole while the window is kept. */
static u32 mutant_executor_sndbuf_expand(struct sock *sk)
{
	return 3;
}

const struct tcp_congestion_ops mutant_executor_ops = {
	.init		= mutant_executor_init,
	.cong_control	= mutant_executor_cong_control,
	.ssthresh	= mutant_executor_ssthresh,
	.set_state	= mutant_executor_set_state,
	.undo_cwnd	= tcp_reno_undo_cwnd,
	MUTANT_TX_START_OP(mutant_executor_tx_start),
	.sndbuf_expand	= mutant_executor_sndbuf_expand,
};
