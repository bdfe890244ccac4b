// SPDX-License-Identifier: GPL-2.0-only
/*
 * A congestion control that watches over its own private bytes.
 *
 * It fills all of icsk_ca_priv with a pattern, changes the pattern at every callback, and keeps a
 * copy of it on the heap, found by the socket. Each time it is called it compares the two: as long
 * as nobody else calls it with another's bytes, or hands its own back altered, they are equal.
 * The copy belongs to the flow from init to release, so that one that is never released shows as
 * a leak. It grows its window as Reno does.
 *
 * The counters are read-only module parameters.
 *
 * A second one, `refusecc`, puts another in its place when it is started, as dctcp does where ECN
 * was not negotiated.
 */
#include <linux/hash.h>
#include <linux/hashtable.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <net/tcp.h>

#define PROBE_WORDS (ICSK_CA_PRIV_SIZE / sizeof(u64))

struct probe {
	struct hlist_node node;
	const struct sock *sk;
	u64 words[PROBE_WORDS];
};

static DEFINE_HASHTABLE(probes, 10);
static DEFINE_SPINLOCK(probes_lock);
static u64 seed;

static ulong inits;
module_param(inits, ulong, 0444);
MODULE_PARM_DESC(inits, "Calls of init");

static ulong releases;
module_param(releases, ulong, 0444);
MODULE_PARM_DESC(releases, "Calls of release");

static ulong checks;
module_param(checks, ulong, 0444);
MODULE_PARM_DESC(checks, "Comparisons of the private bytes with their copy");

static ulong mismatches;
module_param(mismatches, ulong, 0444);
MODULE_PARM_DESC(mismatches, "Comparisons that found a difference");

static ulong orphans;
module_param(orphans, ulong, 0444);
MODULE_PARM_DESC(orphans, "Callbacks for a socket without a copy");

static ulong restarts;
module_param(restarts, ulong, 0444);
MODULE_PARM_DESC(restarts, "CA_EVENT_TX_START received");

static ulong init_pacing;
module_param(init_pacing, ulong, 0444);
MODULE_PARM_DESC(init_pacing, "sk_pacing_status at the last init or restart");

static ulong init_clamp;
module_param(init_clamp, ulong, 0444);
MODULE_PARM_DESC(init_clamp, "snd_cwnd_clamp at the last init or restart");

static ulong init_ssthresh;
module_param(init_ssthresh, ulong, 0444);
MODULE_PARM_DESC(init_ssthresh, "snd_ssthresh at the last init or restart");

static ulong set_clamp;
module_param(set_clamp, ulong, 0644);
MODULE_PARM_DESC(set_clamp, "snd_cwnd_clamp from the next ACK on, as a BPF program sets it; 0: none is set");

static struct probe *probe_find(const struct sock *sk)
{
	struct probe *probe;

	hash_for_each_possible(probes, probe, node, (unsigned long)sk)
		if (probe->sk == sk)
			return probe;
	return NULL;
}

/* Advance every word on its own course, so that no two are alike and none repeats. */
static void probe_evolve(struct probe *probe, u64 *private)
{
	size_t i;

	for (i = 0; i < PROBE_WORDS; i++)
		probe->words[i] = probe->words[i] * 6364136223846793005ULL + 2 * i + 1;
	memcpy(private, probe->words, sizeof(probe->words));
}

/* Compare, then change the bytes, as a protocol does that keeps its state in them. */
static void probe_touch(struct sock *sk)
{
	struct probe *probe;

	spin_lock_bh(&probes_lock);
	checks++;
	probe = probe_find(sk);
	if (!probe) {
		orphans++;
	} else {
		if (memcmp(probe->words, inet_csk_ca(sk), sizeof(probe->words)))
			mismatches++;
		probe_evolve(probe, inet_csk_ca(sk));
	}
	spin_unlock_bh(&probes_lock);
}

static void probe_note(const struct sock *sk)
{
	init_pacing = sk->sk_pacing_status;
	init_clamp = tcp_sk(sk)->snd_cwnd_clamp;
	init_ssthresh = tcp_sk(sk)->snd_ssthresh;
}

static void probe_init(struct sock *sk)
{
	struct probe *probe = kzalloc(sizeof(*probe), GFP_ATOMIC);
	size_t i;

	spin_lock_bh(&probes_lock);
	inits++;
	probe_note(sk);
	if (!probe || probe_find(sk)) {
		orphans++;
		kfree(probe);
		goto unlock;
	}
	probe->sk = sk;
	for (i = 0; i < PROBE_WORDS; i++)
		probe->words[i] = ++seed;
	hash_add(probes, &probe->node, (unsigned long)sk);
	probe_evolve(probe, inet_csk_ca(sk));
unlock:
	spin_unlock_bh(&probes_lock);
}

static void probe_release(struct sock *sk)
{
	struct probe *probe;

	probe_touch(sk);
	spin_lock_bh(&probes_lock);
	releases++;
	probe = probe_find(sk);
	if (probe)
		hash_del(&probe->node);
	spin_unlock_bh(&probes_lock);
	kfree(probe);
}

static u32 probe_ssthresh(struct sock *sk)
{
	probe_touch(sk);
	return tcp_reno_ssthresh(sk);
}

static u32 probe_undo_cwnd(struct sock *sk)
{
	probe_touch(sk);
	return tcp_reno_undo_cwnd(sk);
}

static void probe_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	ulong clamp = xchg(&set_clamp, 0);

	if (clamp)
		tcp_sk(sk)->snd_cwnd_clamp = clamp;
	probe_touch(sk);
	tcp_reno_cong_avoid(sk, ack, acked);
}

static void probe_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	probe_touch(sk);
}

static void probe_in_ack_event(struct sock *sk, u32 flags)
{
	probe_touch(sk);
}

static void probe_set_state(struct sock *sk, u8 state)
{
	probe_touch(sk);
}

static void probe_tx_start(struct sock *sk)
{
	restarts++;
	probe_note(sk);
	probe_touch(sk);
}

static void probe_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_TX_START)
		probe_tx_start(sk);
	else
		probe_touch(sk);
}

static struct tcp_congestion_ops probecc = {
	.init		= probe_init,
	.release	= probe_release,
	.ssthresh	= probe_ssthresh,
	.undo_cwnd	= probe_undo_cwnd,
	.cong_avoid	= probe_cong_avoid,
	.pkts_acked	= probe_pkts_acked,
	.in_ack_event	= probe_in_ack_event,
	.set_state	= probe_set_state,
	.cwnd_event	= probe_cwnd_event,
#ifdef PROBE_HAS_CWND_EVENT_TX_START
	.cwnd_event_tx_start = probe_tx_start,
#endif
	.owner		= THIS_MODULE,
	.name		= "probecc",
};

static struct tcp_congestion_ops refusecc_reno = {
	.ssthresh	= tcp_reno_ssthresh,
	.undo_cwnd	= tcp_reno_undo_cwnd,
	.cong_avoid	= tcp_reno_cong_avoid,
	.owner		= THIS_MODULE,
	.name		= "refusecc-reno",
};

static void refuse_init(struct sock *sk)
{
	inet_csk(sk)->icsk_ca_ops = &refusecc_reno;
}

static struct tcp_congestion_ops refusecc = {
	.init		= refuse_init,
	.ssthresh	= tcp_reno_ssthresh,
	.undo_cwnd	= tcp_reno_undo_cwnd,
	.cong_avoid	= tcp_reno_cong_avoid,
	.owner		= THIS_MODULE,
	.name		= "refusecc",
};

static int __init probe_module_init(void)
{
	int err;

	BUILD_BUG_ON(PROBE_WORDS * sizeof(u64) != ICSK_CA_PRIV_SIZE);
	err = tcp_register_congestion_control(&probecc);
	if (err)
		return err;
	err = tcp_register_congestion_control(&refusecc);
	if (err)
		tcp_unregister_congestion_control(&probecc);
	return err;
}

static void __exit probe_module_exit(void)
{
	tcp_unregister_congestion_control(&refusecc);
	tcp_unregister_congestion_control(&probecc);
}

module_init(probe_module_init);
module_exit(probe_module_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Congestion control that checks its own private bytes");
