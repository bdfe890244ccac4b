// SPDX-License-Identifier: GPL-2.0-only
/* The result of each flow; mutant_outcome.h explains the whole. */
#include <linux/mm.h>
#include <linux/slab.h>

#include "mutant_bbr.h"
#include "mutant_nl.h"
#include "mutant_outcome.h"
#include "mutant_sample.h"
#include "mutant_session.h"

static u32 mutant_now_us(void)
{
	return div_u64(tcp_clock_ns(), NSEC_PER_USEC);
}

static bool mutant_idle(const struct sock *sk)
{
	return !tcp_sk(sk)->packets_out && !tcp_send_head(sk);
}

/* A flow is born, and runs its first arm. */
void mutant_outcome_begin(struct sock *sk, struct mutant_flow *f, u8 cause)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	/* Only the SYN was delivered, so the RTT is the handshake's. */
	u32 handshake_us = tp->delivered <= 1 ? tp->srtt_us >> 3 : 0;

	f->first_arm = f->arm;
	f->cause = cause;
	mutant_life_begin(&f->life, mutant_now_us(), handshake_us, mutant_idle(sk));
}

/* Take in an ACK of slow start. BBR's threshold is infinite all the time. */
static noinline void mutant_outcome_starting(struct sock *sk, struct mutant_flow *f)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	bool slow_start = tcp_in_slow_start(tp) && (f->arm != MUTANT_ARM_ID_BBR ||
			  mutant_bbr_starting(sk, mutant_arm_of(sk)->orig));

	mutant_life_window(&f->life, tcp_snd_cwnd(tp), slow_start);
}

/* This runs for every ACK of every flow. */
void mutant_outcome_acked(struct sock *sk, struct mutant_flow *f, s64 rtt_us)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	const struct mutant_life_ack ack = {
		.rtt_us = rtt_us,
		.now_us = tp->tcp_mstamp,
		.rto_us = inet_csk(sk)->icsk_rto * (USEC_PER_SEC / HZ),
		.rate_pkts = tp->rate_delivered,
		.rate_us = tp->rate_interval_us,
		.idle = mutant_idle(sk),
	};

	mutant_life_acked(&f->life, &ack);
	if (unlikely(!f->life.settled))
		mutant_outcome_starting(sk, f);
}

static void mutant_outcome_identify(const struct mutant_flow *f, struct mutant_outcome *o)
{
	o->cookie = f->cookie;
	o->time_ns = ktime_get_ns();
	o->age_ns = o->time_ns - f->born_ns;
	o->netns = f->netns;
	o->visit = f->visit;
	o->generation = f->generation;
	o->weight = f->weight;
	o->weights = f->weights;
	o->family = f->family;
	o->sport = f->sport;
	o->dport = f->dport;
	memcpy(o->daddr, f->daddr, sizeof(o->daddr));
	o->arm = f->first_arm;
	o->cause = f->cause;
}

static void mutant_outcome_count(const struct mutant_flow *f, const struct mutant_record *rec,
				 struct mutant_outcome *o)
{
	if (rec) {
		o->acked_bytes = rec->total_acked_bytes;
		o->delivered = rec->total_delivered;
		o->lost = rec->total_lost;
		o->retrans = rec->total_retrans;
		o->delivered_ce = rec->total_delivered_ce;
		o->switches = rec->switches;
		return;
	}
	/* Nothing was measured; these are the socket's counts since the flow's birth. */
	o->acked_bytes = f->last.acked_bytes;
	o->delivered = f->last.delivered;
	o->lost = f->last.lost;
	o->retrans = f->last.retrans;
	o->delivered_ce = f->last.delivered_ce;
}

static void mutant_outcome_measure(const struct sock *sk, const struct mutant_flow *f,
				   struct mutant_outcome *o)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	const struct mutant_life *life = &f->life;
	u32 floor_us = tcp_min_rtt(tp);

	o->receiver_us = min(mutant_chrono_us(tp, TCP_CHRONO_RWND_LIMITED), life->busy_us);
	o->busy_us = life->busy_us - o->receiver_us;
	o->rtt_us_sum = life->rtt_us_sum;
	o->rtt_samples = life->rtt_samples;
	if (life->rate_us)
		o->rate_max = (u64)life->rate_pkts * tp->mss_cache * USEC_PER_SEC / life->rate_us;
	o->rtt_min_us = floor_us == ~0U ? 0 : floor_us;
	o->slow_start_cwnd = life->window;
	o->snd_cwnd = tcp_snd_cwnd(tp);
	o->mss = tp->mss_cache;
	mutant_life_shares(life, f->past ? &f->past->shares : NULL, f->arm, o);
}

/* Tell whoever steers the flow. @rec is its record, or NULL if nothing was measured. */
static noinline void mutant_outcome_tell(const struct sock *sk, const struct mutant_flow *f,
					 const struct mutant_record *rec, bool ended)
{
	struct mutant_outcomes *outcomes = &mutant_net_of(mutant_session_net(f->net))->outcomes;
	struct mutant_outcome o = { .ended = ended };
	u32 place;

	if (!READ_ONCE(outcomes->slot))
		return;
	mutant_outcome_identify(f, &o);
	mutant_outcome_count(f, rec, &o);
	mutant_outcome_measure(sk, f, &o);
	spin_lock_bh(&outcomes->lock);
	if (!outcomes->slot)
		goto unlock;
	if (mutant_ring_put(&outcomes->ring, f->netns != outcomes->netns, &place))
		outcomes->slot[place] = o;
	else
		outcomes->dropped++;
unlock:
	spin_unlock_bh(&outcomes->lock);
}

/* A flow has lasted for another while. The caller has its socket's lock, and writes @rec. */
void mutant_outcome_so_far(struct sock *sk, struct mutant_flow *f, const struct mutant_record *rec)
{
	f->measures->told_us = tcp_sk(sk)->tcp_mstamp;
	mutant_outcome_tell(sk, f, rec, false);
}

/* The flow ends, and its counters are final. The caller has its socket's lock and its own. */
void mutant_outcome_end(struct sock *sk, struct mutant_flow *f)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct mutant_measures *m = f->measures;

	mutant_life_rate(&f->life, tp->rate_delivered, tp->rate_interval_us);
	mutant_life_end(&f->life, mutant_now_us());
	mutant_outcome_tell(sk, f, m ? &m->steps.step[m->steps.number & 1].rec : NULL, true);
}

/* A namespace begins. */
void mutant_outcomes_begin(struct mutant_outcomes *outcomes, u32 netns)
{
	spin_lock_init(&outcomes->lock);
	outcomes->netns = netns;
}

/* Let up to @most outcomes wait; 0 if the session has ended, or does not care. */
int mutant_outcomes_want(struct mutant_outcomes *outcomes, u32 most)
{
	struct mutant_outcome *slot = NULL, *old;

	if (most == outcomes->ring.size)
		return 0;
	if (most) {
		slot = kvcalloc(most, sizeof(*slot), GFP_KERNEL_ACCOUNT);
		if (!slot)
			return -ENOMEM;
	}
	spin_lock_bh(&outcomes->lock);
	old = outcomes->slot;
	/* Outcomes that still wait were for the session before, or find no room any more. */
	outcomes->dropped = most ? outcomes->dropped + outcomes->ring.count : 0;
	outcomes->ring = (struct mutant_ring){ .size = most };
	WRITE_ONCE(outcomes->slot, slot);
	spin_unlock_bh(&outcomes->lock);
	kvfree(old);
	return 0;
}

/* Move outcomes into @skb, as many as fit and no more than @most; returns how many. */
static u32 mutant_put_outcomes(struct sk_buff *skb, struct mutant_outcomes *outcomes, u32 most)
{
	struct mutant_ring *ring = &outcomes->ring;
	struct nlattr *attr, *dropped;
	u32 n, room;

	dropped = nla_reserve_64bit(skb, MUTANT_A_OUTCOME_DROPPED, sizeof(u64),
				    MUTANT_A_OUTCOME_PAD);
	attr = nla_reserve(skb, MUTANT_A_OUTCOME_OUTCOMES, 0);
	if (!dropped || !attr)
		return 0;
	room = min_t(u32, skb_tailroom(skb), U16_MAX - attr->nla_len) /
	       sizeof(struct mutant_outcome);
	room = min(room, most);
	spin_lock_bh(&outcomes->lock);
	for (n = 0; n < room && outcomes->slot && ring->count; n++) {
		const struct mutant_outcome *o = &outcomes->slot[ring->first];

		skb_put_data(skb, o, sizeof(*o));
		mutant_ring_drop(ring, o->netns != outcomes->netns);
	}
	memcpy(nla_data(dropped), &outcomes->dropped, sizeof(u64));
	spin_unlock_bh(&outcomes->lock);
	attr->nla_len += n * sizeof(struct mutant_outcome);
	return n;
}

int mutant_nl_outcome_get_dumpit(struct sk_buff *skb, struct netlink_callback *cb)
{
	struct mutant_outcomes *outcomes = &mutant_net_of(sock_net(cb->skb->sk))->outcomes;
	void *header;
	int err;
	u32 n;

	err = mutant_session_check(cb->skb, cb->extack);
	if (err)
		return err;
	/* Outcomes that come during the dump are for the next one. */
	if (!cb->args[1])
		cb->args[0] = READ_ONCE(outcomes->ring.count);
	cb->args[1] = true;
	header = genlmsg_put(skb, NETLINK_CB(cb->skb).portid, cb->nlh->nlmsg_seq,
			     &mutant_nl_family, NLM_F_MULTI, MUTANT_CMD_OUTCOME_GET);
	if (!header)
		return -EMSGSIZE;
	if (nla_put_u32(skb, MUTANT_A_OUTCOME_RECORD_SIZE, sizeof(struct mutant_outcome)) ||
	    nla_put_u32(skb, MUTANT_A_OUTCOME_RECORD_VERSION, MUTANT_RECORD_VERSION)) {
		genlmsg_cancel(skb, header);
		return -EMSGSIZE;
	}
	n = mutant_put_outcomes(skb, outcomes, cb->args[0]);
	if (!n) {
		genlmsg_cancel(skb, header);
		return 0;
	}
	cb->args[0] -= n;
	genlmsg_end(skb, header);
	return skb->len;
}
