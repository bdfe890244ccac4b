// SPDX-License-Identifier: GPL-2.0-only
/*
 * The object of a flow. A protocol's private area in the socket may be full (BBR's is), so what we
 * know of a flow lives outside, found by the socket (for its ACKs) or by its cookie (for netlink).
 * It is born when a socket's congestion control is initialised and dies when it is released, both
 * under the socket's lock; whoever finds it otherwise does so under RCU.
 */
#include <linux/hash.h>
#include <linux/rhashtable.h>
#include <linux/slab.h>
#include <linux/sock_diag.h>
#include <net/inet_sock.h>
#include <net/ipv6.h>

#include "mutant_freeze.h"
#include "mutant_sample.h"
#include "mutant_start.h"

/* Held while steps are closed or looked at. */
DEFINE_MUTEX(mutant_step_mutex);

static struct kmem_cache *mutant_flow_cache;
static struct rhashtable mutant_flow_table;

#if BITS_PER_LONG < 64
#error "a socket cookie is the index of an xarray here, and needs 64 bits"
#endif
static DEFINE_XARRAY_FLAGS(mutant_flow_index, XA_FLAGS_LOCK_BH);

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

/* Under RCU. */
struct mutant_flow *mutant_flow_by_cookie(u64 cookie)
{
	return xa_load(&mutant_flow_index, cookie);
}

/* The flow with the lowest cookie from @cookie on, which becomes that flow's. Under RCU. */
struct mutant_flow *mutant_flow_next(u64 *cookie)
{
	unsigned long index = *cookie;
	struct mutant_flow *f = xa_find(&mutant_flow_index, &index, ULONG_MAX, XA_PRESENT);

	*cookie = index;
	return f;
}

/* Fill in what lies outside of the step: identity, time, commands. */
static void mutant_record_complete(const struct mutant_flow *f, struct mutant_record *rec,
				   u64 since_ns)
{
	u32 flags = READ_ONCE(f->flags);

	/* An idle flow is not told to fall back before its next ACK, but nobody steers it. */
	if ((flags & MUTANT_FLOW_FLAGS_STEERED) && mutant_flow_silent(f))
		flags &= ~MUTANT_FLOW_FLAGS_STEERED;
	rec->flags |= flags;
	rec->want_arm = READ_ONCE(f->want);
	rec->cookie = f->cookie;
	rec->time_ns = ktime_get_ns();
	rec->interval_ns = rec->time_ns - since_ns;
}

/*
 * Close the flow's step and hand it over; false if nothing happened in it. Under RCU and
 * mutant_step_mutex, as is mutant_flow_peek().
 */
bool mutant_flow_close(struct mutant_flow *f, struct mutant_record *rec)
{
	if (!mutant_steps_close(&f->steps, rec))
		return false;
	mutant_record_complete(f, rec, f->closed_ns);
	WRITE_ONCE(f->closed_ns, rec->time_ns);
	return true;
}

/* Look at the step in progress without closing it. */
void mutant_flow_peek(struct mutant_flow *f, struct mutant_record *rec)
{
	mutant_steps_peek(&f->steps, rec);
	mutant_record_complete(f, rec, f->closed_ns);
}

/* The same for the one who writes the steps, that is, under the socket's lock. */
void mutant_flow_own_record(struct mutant_flow *f, struct mutant_record *rec)
{
	mutant_steps_current(&f->steps, rec);
	mutant_record_complete(f, rec, READ_ONCE(f->closed_ns));
}

static void mutant_flow_identify(struct mutant_flow *f, struct sock *sk)
{
	const struct inet_sock *inet = inet_sk(sk);
	u32 cookie[2];

	sock_diag_save_cookie(sk, cookie);
	f->cookie = (u64)cookie[1] << 32 | cookie[0];
	f->net = sock_net(sk);
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

static void mutant_flow_set_up_steps(struct mutant_flow *f, const struct sock *sk)
{
	struct mutant_record *rec = &f->steps.step[0].rec;
	struct mutant_sample s;

	mutant_sample_read(sk, f, -1, &s);
	f->last.acked_bytes = s.acked_bytes;
	f->last.delivered = s.delivered;
	f->last.delivered_ce = s.delivered_ce;
	f->last.lost = s.lost;
	f->last.retrans = s.retrans;
	mutant_fold_state(rec, &s);
	rec->arm = f->arm;
	/* No step was number 1 yet, so the first ACK opens it, and goes on from step[0]. */
	f->steps.number = 1;
	f->closed_ns = f->born_ns;
	mutant_epochs_init(&f->epochs, f->arm);
	mutant_path_init(&f->path, s.now_us, s.delivered);
}

static void mutant_flow_free(struct rcu_head *rcu)
{
	kmem_cache_free(mutant_flow_cache, container_of(rcu, struct mutant_flow, rcu));
}

/* The init of `mutant` and of its arms: a socket becomes a flow. */
void mutant_flow_init(struct sock *sk)
{
	bool paced = READ_ONCE(sk->sk_pacing_status) != SK_PACING_NONE;
	/* An application may have asked for an arm by its name. */
	u8 asked = mutant_arm_of(sk)->id;
	u8 want = asked ?: mutant_starting_arm(sk) ?: READ_ONCE(mutant_config.default_arm), arm;
	u32 clamp = tcp_sk(sk)->snd_cwnd_clamp;
	struct mutant_flow *f;

	arm = mutant_start_first(sk, want);
	/* Without memory the flow runs its first arm, and cannot be steered. */
	f = kmem_cache_zalloc(mutant_flow_cache, GFP_ATOMIC | __GFP_NOWARN);
	if (!f)
		return;
	f->sk = sk;
	f->arm = arm;
	f->want = arm;
	f->snd_cwnd_clamp = clamp;
	f->entry_ssthresh = TCP_INFINITE_SSTHRESH;
	f->slot[arm].used = true;
	f->slot[arm].paces = !paced && READ_ONCE(sk->sk_pacing_status) == SK_PACING_NEEDED;
	spin_lock_init(&f->lock);
	if (asked)
		f->flags = MUTANT_FLOW_FLAGS_PINNED;
	if (arm != want) {
		f->slot[want].refused = true;
		f->flags = MUTANT_FLOW_FLAGS_FALLEN_BACK;
		f->reason = MUTANT_FALLBACK_REASON_INIT_REFUSED;
	}
	mutant_flow_identify(f, sk);
	mutant_flow_set_up_steps(f, sk);

	if (xa_insert_bh(&mutant_flow_index, f->cookie, f, GFP_ATOMIC | __GFP_NOWARN))
		goto free;
	if (rhashtable_lookup_insert_fast(&mutant_flow_table, &f->node, mutant_flow_table_params))
		goto erase;
	mutant_event(f, MUTANT_CMD_FLOW_BIRTH);
	if (arm != want)
		mutant_event(f, MUTANT_CMD_FLOW_FALLBACK);
	return;

erase:
	xa_erase_bh(&mutant_flow_index, f->cookie);
	/* Somebody may have found it by its cookie already. */
	call_rcu(&f->rcu, mutant_flow_free);
	return;
free:
	kmem_cache_free(mutant_flow_cache, f);
}

/* The release of `mutant` and of its arms: the flow ends, or moves to another protocol. */
void mutant_flow_release(struct sock *sk)
{
	const struct tcp_congestion_ops *orig = mutant_arm_of(sk)->orig;
	struct mutant_flow *f = mutant_flow_find(sk);
	struct mutant_step *step;
	struct mutant_sample s;

	if (f)
		mutant_leave_arm(sk, f);
	if (orig && orig->release)
		orig->release(sk);
	/* A socket that is no flow runs `mutant`: after a disconnect it may become one again. */
	WRITE_ONCE(inet_csk(sk)->icsk_ca_ops, &mutant_arms[MUTANT_ARM_NONE].ops);
	if (!f)
		return;
	mutant_release_slots(sk, f);

	/* What changed since the last ACK, for the totals; a disconnect has cleared it all. */
	mutant_sample_read(sk, f, -1, &s);
	if ((s32)(s.delivered - f->last.delivered) >= 0) {
		step = mutant_step_begin(&f->steps);
		mutant_fold_counters(&step->rec, NULL, &f->last, &s);
		mutant_step_end(&f->steps);
	}

	rhashtable_remove_fast(&mutant_flow_table, &f->node, mutant_flow_table_params);
	xa_erase_bh(&mutant_flow_index, f->cookie);
	mutant_event(f, MUTANT_CMD_FLOW_DEATH);
	call_rcu(&f->rcu, mutant_flow_free);
}

int mutant_flows_init(void)
{
	int err;

	mutant_flow_cache = kmem_cache_create("mutant_flow", sizeof(struct mutant_flow), 0,
					      SLAB_HWCACHE_ALIGN | SLAB_ACCOUNT, NULL);
	if (!mutant_flow_cache)
		return -ENOMEM;
	err = rhashtable_init(&mutant_flow_table, &mutant_flow_table_params);
	if (err)
		kmem_cache_destroy(mutant_flow_cache);
	return err;
}

void mutant_flows_exit(void)
{
	rcu_barrier();
	rhashtable_destroy(&mutant_flow_table);
	xa_destroy(&mutant_flow_index);
	kmem_cache_destroy(mutant_flow_cache);
}
