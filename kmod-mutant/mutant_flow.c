// SPDX-License-Identifier: GPL-2.0-only
/*
 * The object of a flow. A protocol's private area in the socket may be full (BBR's is), so a flow's
 * object lives outside. It is found by the socket (for its ACKs) or by its cookie (for netlink). It
 * is born when a socket's congestion control is initialised and dies when it is released, both
 * under the socket's lock; whoever finds it otherwise does so under RCU.
 */
#include <linux/hash.h>
#include <linux/percpu_counter.h>
#include <linux/rhashtable.h>
#include <linux/sock_diag.h>
#include <net/inet_sock.h>
#include <net/ipv6.h>

#include "mutant_dest.h"
#include "mutant_freeze.h"
#include "mutant_index.h"
#include "mutant_jump.h"
#include "mutant_memory.h"
#include "mutant_outcome.h"
#include "mutant_queue.h"
#include "mutant_sample.h"
#include "mutant_session.h"
#include "mutant_start.h"

static struct rhashtable mutant_flow_table;

/*
 * Anybody may make network namespaces, and flows in them. So the namespaces other than the initial
 * one have a half of `flows_max` together, and each of them a quarter: room is left for the others'
 * flows, and for the host's.
 */
#define GUESTS_PART	2
#define GUEST_PART	4

/* Flows that have memory, of all namespaces and of all but the initial one. */
static struct percpu_counter mutant_flows;
static struct percpu_counter mutant_guests;
/* Sockets that could not become flows: too many are, or there was no memory. */
static atomic64_t mutant_flows_refused = ATOMIC64_INIT(0);

/* Sockets come from slabs: their low bits say little, and a multiplication spreads the others. */
static u32 mutant_sock_hash(const void *data, u32 len, u32 seed)
{
	return (*(const unsigned long *)data * GOLDEN_RATIO_64) >> 32;
}

static int mutant_sock_differs(struct rhashtable_compare_arg *arg, const void *flow)
{
	return ((const struct mutant_flow *)flow)->sk != *(struct sock * const *)arg->key;
}

static const struct rhashtable_params mutant_flow_table_params = {
	.key_len = sizeof(struct sock *),
	.key_offset = offsetof(struct mutant_flow, sk),
	.head_offset = offsetof(struct mutant_flow, node),
	.hashfn = mutant_sock_hash,
	.obj_cmpfn = mutant_sock_differs,
	.automatic_shrinking = true,
};

/* The flow of a socket whose lock the caller holds. */
struct mutant_flow *mutant_flow_find(struct sock *sk)
{
	return rhashtable_lookup_fast(&mutant_flow_table, &sk, mutant_flow_table_params);
}

u32 mutant_flow_count(void)
{
	return percpu_counter_sum_positive(&mutant_flows);
}

u64 mutant_flow_refusals(void)
{
	return atomic64_read(&mutant_flows_refused);
}

static void mutant_flow_identify(struct mutant_flow *f, struct sock *sk)
{
	const struct inet_sock *inet = inet_sk(sk);
	u32 cookie[2];

	sock_diag_save_cookie(sk, cookie);
	f->cookie = (u64)cookie[1] << 32 | cookie[0];
	f->netns = f->net->ns.inum;
	f->born_ns = ktime_get_ns();
	f->sport = ntohs(inet->inet_sport);
	f->dport = ntohs(inet->inet_dport);
#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6 && !ipv6_addr_v4mapped(&sk->sk_v6_daddr)) {
		f->family = AF_INET6;
		memcpy(f->saddr, &inet6_sk(sk)->saddr, sizeof(struct in6_addr));
		memcpy(f->daddr, &sk->sk_v6_daddr, sizeof(struct in6_addr));
		return;
	}
#endif
	f->family = AF_INET;
	memcpy(f->saddr, &inet->inet_saddr, sizeof(inet->inet_saddr));
	memcpy(f->daddr, &inet->inet_daddr, sizeof(inet->inet_daddr));
}

static void mutant_counters_read(const struct sock *sk, struct mutant_counters *now)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	now->acked_bytes = tp->bytes_acked;
	now->delivered = tp->delivered;
	now->delivered_ce = tp->delivered_ce;
	now->lost = tp->lost;
	now->retrans = tp->total_retrans;
}

/* One flow less has memory. */
static void mutant_flow_count_out(bool guest)
{
	percpu_counter_dec(&mutant_flows);
	if (guest)
		percpu_counter_dec(&mutant_guests);
}

/* One flow more is to have memory; false, and nothing counted, if there are too many. */
static bool mutant_flow_count_in(struct net *net, bool guest)
{
	u32 most = READ_ONCE(mutant_config.flows_max);

	percpu_counter_inc(&mutant_flows);
	if (guest)
		percpu_counter_inc(&mutant_guests);
	if (percpu_counter_compare(&mutant_flows, most) <= 0 &&
	    (!guest || percpu_counter_compare(&mutant_guests, most / GUESTS_PART) <= 0)) {
		if (!guest || atomic_inc_return(&mutant_net_of(net)->live) <= most / GUEST_PART)
			return true;
		atomic_dec(&mutant_net_of(net)->live);
	}
	mutant_flow_count_out(guest);
	return false;
}

static void mutant_flow_free(struct rcu_head *rcu)
{
	struct mutant_flow *f = container_of(rcu, struct mutant_flow, rcu);
	bool guest = f->guest;

	mutant_past_free(f->past);
	mutant_measures_free(f->measures);
	if (f->learned)
		mutant_part_free(MUTANT_PART_LEARNED, f->learned);
	if (f->jumper)
		mutant_part_free(MUTANT_PART_JUMPER, f->jumper);
	mutant_part_free(MUTANT_PART_FLOW, f);
	mutant_flow_count_out(guest);
}

/* Nobody can find the flow any more: free it when the last one who found it has gone. */
void mutant_flow_free_soon(struct mutant_flow *f)
{
	call_rcu(&f->rcu, mutant_flow_free);
}

/* The flow leaves its namespace's part; its memory goes later, when the namespace may be gone. */
static void mutant_flow_leave_net(struct mutant_flow *f)
{
	if (f->guest)
		atomic_dec(&mutant_net_of(f->net)->live);
}

/* An object for one more flow; NULL without memory, or if there are too many. */
static struct mutant_flow *mutant_flow_new(struct net *net)
{
	bool guest = !net_eq(net, &init_net);
	struct mutant_flow *f;

	if (!mutant_flow_count_in(net, guest))
		goto refused;
	f = mutant_part_new(MUTANT_PART_FLOW);
	if (f) {
		f->net = net;
		f->guest = guest;
		return f;
	}
	if (guest)
		atomic_dec(&mutant_net_of(net)->live);
	mutant_flow_count_out(guest);
refused:
	atomic64_inc(&mutant_flows_refused);
	return NULL;
}

/* The init of `mutant` and of its arms: a socket becomes a flow. */
void mutant_flow_init(struct sock *sk)
{
	bool paced = READ_ONCE(sk->sk_pacing_status) != SK_PACING_NONE;
	/* An application may have asked for an arm by its name. */
	u8 asked = mutant_arm_of(sk)->id;
	struct mutant_draw draw = {};
	u8 listed = asked ? MUTANT_ARM_NONE : mutant_start_draw(sk, &draw);
	u8 want = asked ?: listed ?: READ_ONCE(mutant_config.default_arm), arm;
	u32 clamp = tcp_sk(sk)->snd_cwnd_clamp;
	struct mutant_flow *f;

	arm = mutant_start_first(sk, want);
	/* Without an object the flow runs its first arm, and cannot be steered. */
	f = mutant_flow_new(sock_net(sk));
	if (!f) {
		mutant_start_leave(draw.entry);
		return;
	}
	f->sk = sk;
	f->arm = arm;
	f->want = arm;
	f->snd_cwnd_clamp = clamp;
	mutant_note_clamp(sk, f);
	f->marks.seen = tcp_sk(sk)->delivered_ce;
	f->entry_ssthresh = TCP_INFINITE_SSTHRESH;
	f->paces = !paced && READ_ONCE(sk->sk_pacing_status) == SK_PACING_NEEDED;
	spin_lock_init(&f->lock);
	if (asked)
		f->flags = MUTANT_FLOW_FLAGS_PINNED;
	if (arm != want) {
		f->refused = BIT(want);
		f->flags = MUTANT_FLOW_FLAGS_FALLEN_BACK;
		f->reason = MUTANT_FALLBACK_REASON_INIT_REFUSED;
	}
	mutant_flow_identify(f, sk);
	mutant_counters_read(sk, &f->last);
	mutant_start_take(sk, f, &draw);
	mutant_outcome_begin(sk, f, arm != want ? MUTANT_START_CAUSE_REFUSED :
			     asked ? MUTANT_START_CAUSE_NAMED :
			     listed ? MUTANT_START_CAUSE_TABLE : MUTANT_START_CAUSE_DEFAULT);

	if (mutant_index_add(f))
		goto forget;
	if (rhashtable_lookup_insert_fast(&mutant_flow_table, &f->node, mutant_flow_table_params))
		goto erase;
	if (unlikely(READ_ONCE(mutant_config.resume) == MUTANT_RESUME_MODE_ON))
		mutant_jump_join(sk, f);
	/* It is in the index before it looks for who steers; pairs with mutant_session_set(). */
	smp_mb();
	mutant_queue_join(f);
	mutant_event(f, MUTANT_EVENT_BIRTH | (arm == want ? 0 : MUTANT_EVENT_FALLBACK));
	return;

erase:
	mutant_index_remove(f);
forget:
	mutant_start_leave(f->start);
	mutant_flow_leave_net(f);
	/* Somebody may have found it by its cookie already. */
	mutant_flow_free_soon(f);
	atomic64_inc(&mutant_flows_refused);
}

/* The totals take the changes since the last ACK; a disconnect has cleared them all. */
static void mutant_flow_sum_up(struct sock *sk, struct mutant_flow *f)
{
	struct mutant_measures *m = f->measures;
	struct mutant_counters now, *last = &f->last;
	struct mutant_credit *credit;
	struct mutant_state state;
	struct mutant_sample s;
	struct mutant_step *step;

	mutant_counters_read(sk, &now);
	if ((s32)(now.delivered - last->delivered) < 0)
		now = *last;
	if (m) {
		mutant_sample_read(sk, m->rate, -1, &s);
		s.acked_bytes = now.acked_bytes;
		s.delivered = now.delivered;
		s.delivered_ce = now.delivered_ce;
		s.lost = now.lost;
		s.retrans = now.retrans;
		step = mutant_step_begin(&m->steps);
		credit = mutant_credit_find(step, &m->epochs, s.now_us - s.srtt_us);
		mutant_fold_counters(&step->rec, credit, last, &s);
		mutant_state_read(sk, m->rate, &state);
		mutant_state_tell(&state, &step->rec);
		mutant_limits_read(tcp_sk(sk), &step->rec);
		mutant_step_end(&m->steps);
		mutant_dest_put(m->dest);
		m->dest = NULL;
		return;
	}
	last->acked_bytes = now.acked_bytes - last->acked_bytes;
	last->delivered = now.delivered - last->delivered;
	last->delivered_ce = now.delivered_ce - last->delivered_ce;
	last->lost = now.lost - last->lost;
	last->retrans = now.retrans - last->retrans;
	f->end.srtt_us = tcp_sk(sk)->srtt_us >> 3;
	f->end.min_rtt_us = tcp_min_rtt(tcp_sk(sk));
	f->end.snd_cwnd = tcp_snd_cwnd(tcp_sk(sk));
	f->end.mss = tcp_sk(sk)->mss_cache;
}

/* The release of `mutant` and of its arms: the flow ends, or moves to another protocol. */
void mutant_flow_release(struct sock *sk)
{
	const struct tcp_congestion_ops *orig = mutant_arm_of(sk)->orig;
	struct mutant_flow *f = mutant_flow_find(sk);

	if (f) {
		mutant_jump_leave(sk, f);
		mutant_leave_arm(sk, f);
	}
	if (orig && orig->release)
		orig->release(sk);
	/* A socket that is no flow runs `mutant`: after a disconnect it may become one again. */
	WRITE_ONCE(inet_csk(sk)->icsk_ca_ops, &mutant_arms[MUTANT_ARM_NONE].ops);
	if (!f)
		return;
	mutant_release_slots(sk, f);
	rhashtable_remove_fast(&mutant_flow_table, &f->node, mutant_flow_table_params);
	mutant_index_remove(f);
	/* Whoever looks at a flow of which nothing is measured sees it before its end, or after. */
	spin_lock_bh(&f->lock);
	mutant_queue_leave(f);
	mutant_flow_sum_up(sk, f);
	mutant_outcome_end(sk, f);
	/* The socket may go after the end; pairs with mutant_flow_stands(). */
	smp_store_release(&f->ended, true);
	spin_unlock_bh(&f->lock);
	mutant_start_leave(f->start);
	mutant_flow_leave_net(f);
	mutant_event(f, MUTANT_EVENT_DEATH | MUTANT_EVENT_END);
}

int mutant_flows_init(void)
{
	int err = mutant_memory_init();

	if (err)
		return err;
	err = percpu_counter_init(&mutant_flows, 0, GFP_KERNEL);
	if (err)
		goto memory;
	err = percpu_counter_init(&mutant_guests, 0, GFP_KERNEL);
	if (err)
		goto counter;
	err = rhashtable_init(&mutant_flow_table, &mutant_flow_table_params);
	if (err)
		goto guests;
	err = mutant_dests_init();
	if (err)
		goto flows;
	return 0;

flows:
	rhashtable_destroy(&mutant_flow_table);
guests:
	percpu_counter_destroy(&mutant_guests);
counter:
	percpu_counter_destroy(&mutant_flows);
memory:
	mutant_memory_exit();
	return err;
}

void mutant_flows_exit(void)
{
	rcu_barrier();
	mutant_dests_exit();
	rhashtable_destroy(&mutant_flow_table);
	percpu_counter_destroy(&mutant_guests);
	percpu_counter_destroy(&mutant_flows);
	mutant_memory_exit();
}
