// SPDX-License-Identifier: GPL-2.0-only
/* A flow leaves one arm and enters another, under the socket's lock. */
#include "mutant_bbr.h"
#include "mutant_freeze.h"
#include "mutant_queue.h"
#include "mutant_trace.h"
#include "mutant_vegas.h"

/*
 * In a recovery BBR sends as much as is delivered, and takes its window back at the end. Its
 * @window of that moment says nothing of the path; the next arm may have the model's window.
 */
static u32 mutant_recovered(struct sock *sk, const struct mutant_flow *f, u8 id, u8 mode,
			    u32 window)
{
	if (mode != MUTANT_HANDOVER_MODE_BDP || f->arm != MUTANT_ARM_ID_BBR ||
	    mutant_arms[id].kind != MUTANT_ARM_KIND_LEARNED ||
	    inet_csk(sk)->icsk_ca_state != TCP_CA_Recovery)
		return window;
	return max(window, mutant_bbr_bdp(sk, mutant_arms[f->arm].orig));
}

/* The window with which the next arm begins, of the @window that the last one left. */
static u32 mutant_hand_over(struct sock *sk, struct mutant_flow *f, u8 id, u8 mode, u32 window)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 next, ssthresh = tp->snd_ssthresh;

	/* A window that the application does not fill builds no queue; a timeout has left none. */
	if (tp->rate_app_limited || inet_csk(sk)->icsk_ca_state == TCP_CA_Loss)
		return window;
	window = mutant_recovered(sk, f, id, mode, window);
	next = mutant_handover_window(&f->measures->path, mode, window, tcp_packets_in_flight(tp),
				      mutant_arm_has_model(&mutant_arms[id]), &ssthresh);
	if (next < window)
		mutant_path_cut(&f->measures->path, next, tp->delivered,
				tcp_packets_in_flight(tp));
	tp->snd_ssthresh = ssthresh;
	tp->prior_ssthresh = min(tp->prior_ssthresh, ssthresh);
	return next;
}

/* Make @id the active arm. False if it refused; then no arm is active. */
static bool mutant_enter(struct sock *sk, struct mutant_flow *f, u8 id, u8 mode, u32 window)
{
	const struct tcp_congestion_ops *orig = mutant_arms[id].orig;
	struct inet_connection_sock *icsk = inet_csk(sk);
	struct mutant_slot *slot = f->past->slot[id];
	struct tcp_sock *tp = tcp_sk(sk);
	u32 floor_us = mutant_path_exact_us(&f->measures->path, tp->total_retrans);
	u8 known_state = TCP_CA_Open;
	bool paced;

	f->entry_ssthresh = tp->snd_ssthresh;
	f->entry_lost = tp->lost;
	if (slot && mutant_can_restore(sk, slot, id, mode)) {
		mutant_restore(sk, f, id, mode);
		known_state = slot->ca_state;
	} else {
		if (slot)
			mutant_discard(sk, slot, id);
		paced = READ_ONCE(sk->sk_pacing_status) != SK_PACING_NONE;
		if (!mutant_arm_start(sk, id)) {
			WRITE_ONCE(f->refused, f->refused | BIT(id));
			return false;
		}
		f->paces = !paced && READ_ONCE(sk->sk_pacing_status) == SK_PACING_NEEDED;
	}
	if (mode == MUTANT_RESTORE_MODE_REBASE && id == MUTANT_ARM_ID_VEGAS &&
	    floor_us != MUTANT_RTT_UNKNOWN)
		mutant_vegas_set_floor(sk, orig, floor_us);
	if (known_state != icsk->icsk_ca_state && orig->set_state)
		orig->set_state(sk, icsk->icsk_ca_state);
	mutant_note_clamp(sk, f);
	tcp_snd_cwnd_set(tp, min(window, tp->snd_cwnd_clamp));
	return true;
}

/* The arm that the flow should run refused: the fallback runs, and whoever steers is told. */
static void mutant_refuse(struct mutant_flow *f, u8 id)
{
	spin_lock_bh(&f->lock);
	if (f->want == id)
		WRITE_ONCE(f->want, READ_ONCE(mutant_config.fallback_arm));
	f->handover = MUTANT_HANDOVER_MODE_CONFIGURED;
	f->restore = 0;
	WRITE_ONCE(f->flags, (f->flags & ~MUTANT_FLOW_FLAGS_STEERED) |
		   MUTANT_FLOW_FLAGS_FALLEN_BACK);
	WRITE_ONCE(f->reason, MUTANT_FALLBACK_REASON_INIT_REFUSED);
	spin_unlock_bh(&f->lock);
}

/* Let the flow run the arm that it should. */
void mutant_switch(struct sock *sk, struct mutant_flow *f)
{
	u8 id, handover, restore, before = f->arm;
	u32 window, cwnd_before;
	struct tcp_sock *tp = tcp_sk(sk);
	struct mutant_epochs *epochs;
	struct mutant_step *step;
	bool refused;

	/* Without memory the flow stays as it is, and its next ACK tries again. */
	if ((!f->measures && !mutant_measure(sk, f)) || !mutant_past_ready(f))
		return;
	epochs = &f->measures->epochs;
	spin_lock_bh(&f->lock);
	id = f->want;
	handover = f->handover ?: READ_ONCE(mutant_config.handover);
	restore = f->restore ? f->restore - 1 : READ_ONCE(mutant_config.restore);
	spin_unlock_bh(&f->lock);

	mutant_freeze(sk, f);
	/* The path decides about the window before the new arm may change it, or the threshold. */
	cwnd_before = tcp_snd_cwnd(tp);
	window = mutant_hand_over(sk, f, id, handover, cwnd_before);
	refused = !mutant_enter(sk, f, id, restore, window);
	if (refused) {
		mutant_refuse(f, id);
		id = READ_ONCE(mutant_config.fallback_arm);
		mutant_enter(sk, f, id, restore, window);
	}
	f->arm = id;
	/* The executor hears of no mark while another arm runs. */
	f->marks.seen = tp->delivered_ce;
	f->measures->path.rounds = 0;
	/* The window that was handed over has the pulse's packets. */
	mutant_pulse_stop(&f->measures->pulse);
	if (mutant_arms[id].kind == MUTANT_ARM_KIND_LEARNED &&
	    !mutant_arms[before].orig->cong_control)
		mutant_finish_reduction(sk);
	/* cong_control comes after pkts_acked: this ACK, already folded, reaches us once more. */
	f->folded = mutant_arms[id].orig->cong_control &&
		    !mutant_arms[before].orig->cong_control;

	if (id != before) {
		mutant_life_left(&f->life, &f->past->shares, before);
		mutant_epoch_begin(epochs, id, tp->tcp_mstamp);
		step = mutant_step_begin(&f->measures->steps);
		step->rec.arm = id;
		step->rec.prev_arm = before;
		step->rec.epoch = epochs->newest;
		step->rec.switches = epochs->newest;
		step->rec.round_trips = 0;
		mutant_step_end(&f->measures->steps);
		mutant_queue_join(f);
		trace_mutant_switch(f, before, id, cwnd_before, tcp_snd_cwnd(tp));
	}
	if (refused)
		mutant_event(f, MUTANT_EVENT_FALLBACK);
}

/* At the flow's end, after its active arm: release the frozen ones that own something. */
void mutant_release_slots(struct sock *sk, struct mutant_flow *f)
{
	u8 id;

	if (!f->past)
		return;
	for (id = 1; id <= MUTANT_ARMS_MAX; id++)
		if (id != f->arm && f->past->slot[id])
			mutant_discard(sk, f->past->slot[id], id);
}
