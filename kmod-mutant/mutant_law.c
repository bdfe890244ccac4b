// SPDX-License-Identifier: GPL-2.0-only
/* The four laws, and their table; mutant_law.h explains the whole. */
#include "mutant_aimd.h"
#include "mutant_law.h"

/* A window that nobody has renewed for a second or eight round trips is nobody's. */
static bool mutant_window_expired(const struct tcp_sock *tp, const struct mutant_setting *setting)
{
	u32 age = tcp_jiffies32 - setting->since;

	/* srtt_us is in eighths. */
	return age > HZ && age > usecs_to_jiffies(tp->srtt_us);
}

/* Without use of half the window, an ACK says nothing about a larger one. */
static bool mutant_window_used(const struct tcp_sock *tp, const struct rate_sample *rs)
{
	return rs->prior_in_flight >= tcp_snd_cwnd(tp) / 2;
}

static void mutant_set_window(struct tcp_sock *tp, u32 window)
{
	tcp_snd_cwnd_set(tp, min(window, tp->snd_cwnd_clamp));
}

static void mutant_run_reno(struct sock *sk, struct mutant_executor *e,
			    const struct rate_sample *rs)
{
	if (!tcp_in_cwnd_reduction(sk) && rs->acked_sacked > 0)
		tcp_reno_cong_avoid(sk, 0, rs->acked_sacked);
}

static void mutant_run_window(struct sock *sk, struct mutant_executor *e,
			      const struct rate_sample *rs)
{
	u32 target = e->setting.value[0], acked = max(rs->acked_sacked, 0);
	bool timeout = inet_csk(sk)->icsk_ca_state == TCP_CA_Loss;
	struct tcp_sock *tp = tcp_sk(sk);
	u32 window = tcp_snd_cwnd(tp);

	if (unlikely(mutant_window_expired(tp, &e->setting))) {
		e->setting.law = MUTANT_CONTROL_LAW_NONE;
		/* Congestion avoidance goes on, unless a timeout left more to come back to. */
		if (tcp_in_initial_slowstart(tp))
			tp->snd_ssthresh = max(window, 2U);
		return;
	}
	if (e->fresh && !timeout)
		window = mutant_window_jump(window, target);
	e->fresh = false;
	window = mutant_window_glide(window, target, acked);
	/* Slow start brings back a timeout's part of the window, not the law's. */
	if (window < tcp_snd_cwnd(tp) && !timeout && !tcp_in_initial_slowstart(tp))
		tp->snd_ssthresh = min(tp->snd_ssthresh, window);
	mutant_set_window(tp, window);
}

/* The window doubles up to the threshold that a timeout left, here or under another arm. */
static void mutant_slow_start(struct tcp_sock *tp, u32 acked)
{
	mutant_set_window(tp, min(tcp_snd_cwnd(tp) + acked, tp->snd_ssthresh));
}

static void mutant_run_aimd(struct sock *sk, struct mutant_executor *e,
			    const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	s32 acked = max(rs->acked_sacked, 0), gain = MUTANT_AIMD_START;

	if (!tcp_in_initial_slowstart(tp)) {
		if (tcp_in_slow_start(tp)) {
			mutant_slow_start(tp, acked);
			return;
		}
		gain = mutant_aimd_gain(e->setting.value, tp->srtt_us, tcp_min_rtt(tp));
	}
	if (gain > 0 && !mutant_window_used(tp, rs))
		return;
	mutant_set_window(tp, mutant_window_add(tcp_snd_cwnd(tp), &e->fraction, (s64)acked * gain));
	/* Slow start does not bring back the part that the delay took. */
	if (gain < 0)
		tp->snd_ssthresh = min(tp->snd_ssthresh, tcp_snd_cwnd(tp));
}

static void mutant_run_cubic(struct sock *sk, struct mutant_executor *e,
			     const struct rate_sample *rs)
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
		.used = mutant_window_used(tp, rs),
	};

	if (tcp_in_cwnd_reduction(sk) || !ack.acked)
		return;
	if (tcp_in_slow_start(tp)) {
		if (ack.used)
			mutant_slow_start(tp, ack.acked);
		if (mutant_cubic_queues(&e->cubic, window, &ack))
			tp->snd_ssthresh = tcp_snd_cwnd(tp);
		return;
	}
	mutant_set_window(tp, mutant_cubic_avoid(&e->cubic, window, &e->fraction, &ack,
						 e->setting.value));
}

/* The pace that the kernel gives to the protocols that leave it to the kernel. */
static u32 mutant_usual_pace(const struct tcp_sock *tp)
{
	return tcp_in_slow_start(tp) ? 200 : 120;
}

/* The pace that sends just one window in a round trip. */
static u32 mutant_even_pace(const struct tcp_sock *tp)
{
	return 100;
}

static u32 mutant_reno_ssthresh(struct sock *sk, struct mutant_executor *e)
{
	return tcp_reno_ssthresh(sk);
}

/* Losses do not cut the window: the policies see them in their measures. */
static u32 mutant_window_ssthresh(struct sock *sk, struct mutant_executor *e)
{
	return max_t(u32, tcp_snd_cwnd(tcp_sk(sk)), MUTANT_WINDOW_MIN);
}

static u32 mutant_aimd_ssthresh(struct sock *sk, struct mutant_executor *e)
{
	return mutant_window_cut(tcp_snd_cwnd(tcp_sk(sk)), e->setting.value[ALPHA_LOSS]);
}

static u32 mutant_cubic_ssthresh(struct sock *sk, struct mutant_executor *e)
{
	return mutant_cubic_back_off(&e->cubic, tcp_snd_cwnd(tcp_sk(sk)), e->setting.value);
}

const struct mutant_law mutant_laws[] = {
	[MUTANT_CONTROL_LAW_NONE] = {
		.run = mutant_run_reno,
		.ssthresh = mutant_reno_ssthresh,
		.pace = mutant_usual_pace,
	},
	[MUTANT_CONTROL_LAW_WINDOW] = {
		.run = mutant_run_window,
		.ssthresh = mutant_window_ssthresh,
		.pace = mutant_even_pace,
		.echoes = true,
	},
	[MUTANT_CONTROL_LAW_AIMD] = {
		.run = mutant_run_aimd,
		.ssthresh = mutant_aimd_ssthresh,
		.pace = mutant_even_pace,
	},
	[MUTANT_CONTROL_LAW_CUBIC] = {
		.run = mutant_run_cubic,
		.ssthresh = mutant_cubic_ssthresh,
		.pace = mutant_usual_pace,
	},
};
