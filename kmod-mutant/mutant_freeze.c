// SPDX-License-Identifier: GPL-2.0-only
/*
 * Starting, freezing, restoring and leaving an arm, under the socket's lock.
 *
 * An arm's own state is the private area of the socket: 104 bytes that are copied out and in. But
 * protocols also leave things in the socket itself, and some of them would hurt the next arm:
 *
 *	snd_cwnd	carries over, as the handover mode says, whatever an init makes of it
 *			(hybla's sets it to its rho)
 *	snd_cwnd_clamp	hybla sets 65535, yeah and highspeed 2^25 as they start: goes and comes with
 *			the arm. A BPF program that changes it later means the flow
 *	snd_cwnd_cnt	a fraction of a packet in the arm's own unit: cubic lets it grow to
 *			100 * cwnd, of which illinois would make 1000 * cwnd packets at once
 *	pacing		bbr asks for it and never takes that back
 *	snd_ssthresh	bbr sets it to infinity: the next arm would slow-start into a full queue
 *	reduction	after a loss the kernel lowers the window ACK by ACK, but not for arms with
 *			cong_control: a learned arm would keep the part not taken yet
 *	ca_state	an arm that was frozen in recovery never hears that it ended; vegas,
 *			veno, yeah and hybla would stay switched off
 */
#include <linux/bits.h>

#include "compat.h"
#include "mutant_bbr.h"
#include "mutant_freeze.h"
#include "mutant_memory.h"

/*
 * A frozen arm that missed this many bytes or microseconds starts anew. Sequence numbers (vegas,
 * veno, yeah, illinois, cubic) and 32-bit microseconds (cubic) wrap at twice that. An arm that
 * takes the past for the future waits for it to come.
 */
#define MISSED_MAX	BIT(30)

/*
 * Make room for the state of the active arm, so that it can be frozen. The caller has the socket's
 * lock. Returns false without memory.
 */
bool mutant_past_ready(struct mutant_flow *f)
{
	if (!f->past) {
		f->past = mutant_part_new(MUTANT_PART_PAST);
		if (!f->past)
			return false;
		mutant_epochs_extend(&f->measures->epochs, f->past->epoch);
	}
	if (!f->past->slot[f->arm])
		f->past->slot[f->arm] = mutant_part_new(MUTANT_PART_SLOT);
	return f->past->slot[f->arm];
}

void mutant_past_free(struct mutant_past *past)
{
	u8 id;

	if (!past)
		return;
	for (id = 1; id <= MUTANT_ARMS_MAX; id++)
		if (past->slot[id])
			mutant_part_free(MUTANT_PART_SLOT, past->slot[id]);
	mutant_part_free(MUTANT_PART_PAST, past);
}

/*
 * Run the init of an arm that has no state yet. An init may put another protocol in the arm's
 * place (dctcp's does); the socket then runs `mutant`, which behaves like reno, and false is
 * returned.
 */
bool mutant_arm_start(struct sock *sk, u8 id)
{
	const struct mutant_arm *arm = &mutant_arms[id];
	struct inet_connection_sock *icsk = inet_csk(sk);

	WRITE_ONCE(icsk->icsk_ca_ops, &arm->ops);
	memset(icsk->icsk_ca_priv, 0, sizeof(icsk->icsk_ca_priv));
	if (arm->orig->init)
		arm->orig->init(sk);
	if (icsk->icsk_ca_ops == &arm->ops) {
		if (id == MUTANT_ARM_ID_BBR)
			mutant_bbr_started(sk);
		return true;
	}
	WRITE_ONCE(icsk->icsk_ca_ops, &mutant_arms[MUTANT_ARM_NONE].ops);
	return false;
}

/* Start a flow with arm @id, or with the fallback if that refuses; returns which it is. */
u8 mutant_start_first(struct sock *sk, u8 id)
{
	if (mutant_arm_start(sk, id))
		return id;
	id = READ_ONCE(mutant_config.fallback_arm);
	mutant_arm_start(sk, id);
	return id;
}

/*
 * A slow-start threshold for the arm that comes after one which has none of its own: BBR, or a
 * learned arm that is still in slow start. If the flow was past slow start before, or a queue or a
 * loss was seen since, the pipe is full: the next arm goes on from here. It may slow-start up to
 * the modelled bandwidth-delay product, though, for BBR may just have cut cwnd to 4 to measure the
 * RTT.
 */
static void mutant_leave_ssthresh(struct sock *sk, const struct mutant_flow *f)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 srtt_us = tp->srtt_us >> 3, min_rtt_us = tcp_min_rtt(tp);
	bool queue = min_rtt_us != ~0U && srtt_us > min_rtt_us + min_rtt_us / 4;

	if (!tcp_in_initial_slowstart(tp))
		return;
	if (f->entry_ssthresh >= TCP_INFINITE_SSTHRESH && tp->lost == f->entry_lost && !queue)
		return;
	tp->snd_ssthresh = max3(tcp_snd_cwnd(tp),
				mutant_bbr_bdp(sk, mutant_arm_of(sk)->orig), 2U);
	/* Without this, an undo of the reduction in progress would bring infinity back. */
	tp->prior_ssthresh = min(tp->prior_ssthresh, tp->snd_ssthresh);
}

/*
 * Do the work of tcp_end_cwnd_reduction() at once, and not in the end. The threshold belongs to the
 * arm that met the loss, so that more switches in the same recovery take nothing more.
 */
void mutant_finish_reduction(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (inet_csk(sk)->icsk_ca_state == TCP_CA_CWR ||
	    (inet_csk(sk)->icsk_ca_state == TCP_CA_Recovery && tp->undo_marker))
		tcp_snd_cwnd_set(tp, min(tcp_snd_cwnd(tp), tp->snd_ssthresh));
}

/* The application's own limit needs pacing too; sch_fq has a state of its own, which stays. */
void mutant_stop_pacing(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (READ_ONCE(sk->sk_max_pacing_rate) != ~0UL ||
	    cmpxchg(&sk->sk_pacing_status, SK_PACING_NEEDED, SK_PACING_NONE) != SK_PACING_NEEDED)
		return;
	/* A packet that leaves at once from now on must not bear its paced departure time. */
	tp->tcp_wstamp_ns = min(tp->tcp_wstamp_ns, tp->tcp_clock_cache);
}

/* The flow's own clamp stands unless the active arm has set another; the arm has started. */
void mutant_note_clamp(const struct sock *sk, struct mutant_flow *f)
{
	f->arm_clamp = tcp_sk(sk)->snd_cwnd_clamp;
}

/* Take back the active arm's settings in the socket, before it is frozen or released. */
void mutant_leave_arm(struct sock *sk, struct mutant_flow *f)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (tp->snd_cwnd_clamp != f->arm_clamp)
		WRITE_ONCE(f->snd_cwnd_clamp, tp->snd_cwnd_clamp);
	tp->snd_cwnd_clamp = f->snd_cwnd_clamp;
	tp->snd_cwnd_cnt = 0;
	if (f->paces)
		mutant_stop_pacing(sk);
	if (mutant_arm_of(sk)->orig->cong_control)
		mutant_leave_ssthresh(sk, f);
}

void mutant_freeze(struct sock *sk, struct mutant_flow *f)
{
	struct inet_connection_sock *icsk = inet_csk(sk);
	struct mutant_slot *slot = f->past->slot[f->arm];
	struct tcp_sock *tp = tcp_sk(sk);

	memcpy(slot->priv, icsk->icsk_ca_priv, sizeof(slot->priv));
	slot->frozen_us = tp->tcp_mstamp;
	slot->frozen_bytes = tp->bytes_acked;
	slot->frozen_jiffies = tcp_jiffies32;
	slot->snd_cwnd_clamp = f->arm_clamp == f->snd_cwnd_clamp ? ~0U : f->arm_clamp;
	slot->snd_cwnd_cnt = tp->snd_cwnd_cnt;
	slot->ssthresh = tp->snd_ssthresh;
	slot->ca_state = icsk->icsk_ca_state;
	slot->paces = f->paces;
	slot->used = true;
	mutant_leave_arm(sk, f);
}

/* Let go of a frozen arm's state, and of all that it owns. */
void mutant_discard(struct sock *sk, struct mutant_slot *slot, u8 id)
{
	struct inet_connection_sock *icsk = inet_csk(sk);
	const struct tcp_congestion_ops *orig = mutant_arms[id].orig;

	if (slot->used && orig->release) {
		memcpy(icsk->icsk_ca_priv, slot->priv, sizeof(slot->priv));
		orig->release(sk);
	}
	slot->used = false;
}

bool mutant_can_restore(const struct sock *sk, const struct mutant_slot *slot, u8 id, u8 mode)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	/*
	 * westwood divides the data acknowledged since its last look by the round trip that comes
	 * next: all that other arms delivered meanwhile would be its bandwidth, and soon its cwnd.
	 */
	if (id == MUTANT_ARM_ID_WESTWOOD &&
	    tp->tcp_mstamp - slot->frozen_us > tp->srtt_us >> 3)
		return false;
	return slot->used && mode != MUTANT_RESTORE_MODE_REINIT &&
	       tp->tcp_mstamp - slot->frozen_us < MISSED_MAX &&
	       tp->bytes_acked - slot->frozen_bytes < MISSED_MAX;
}

void mutant_restore(struct sock *sk, struct mutant_flow *f, u8 id, u8 mode)
{
	const struct mutant_slot *slot = f->past->slot[id];
	u32 floor_us = mutant_path_floor_us(&f->measures->path);
	const struct mutant_arm *arm = &mutant_arms[id];
	struct inet_connection_sock *icsk = inet_csk(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	u32 lsndtime;

	WRITE_ONCE(icsk->icsk_ca_ops, &arm->ops);
	memcpy(icsk->icsk_ca_priv, slot->priv, sizeof(slot->priv));
	tp->snd_cwnd_clamp = min(slot->snd_cwnd_clamp, f->snd_cwnd_clamp);
	tp->snd_cwnd_cnt = min(slot->snd_cwnd_cnt, tcp_snd_cwnd(tp));
	/* The learned arms mean by it the same as everybody does. */
	if (arm->orig->cong_control && arm->kind != MUTANT_ARM_KIND_LEARNED)
		tp->snd_ssthresh = slot->ssthresh;
	f->paces = slot->paces;
	if (slot->paces)
		cmpxchg(&sk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED);
	if (mode == MUTANT_RESTORE_MODE_REBASE && id == MUTANT_ARM_ID_BBR &&
	    floor_us != MUTANT_RTT_UNKNOWN) {
		mutant_bbr_rebase(sk, arm->orig, floor_us);
	} else if (mode == MUTANT_RESTORE_MODE_REBASE && arm->kind != MUTANT_ARM_KIND_LEARNED) {
		/* The arm is told of an idle period, which began when it was frozen. */
		lsndtime = tp->lsndtime;
		tp->lsndtime = slot->frozen_jiffies;
		mutant_call_tx_start(arm->orig, sk);
		tp->lsndtime = lsndtime;
	}
}
