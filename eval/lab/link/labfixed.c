// SPDX-License-Identifier: GPL-2.0-only
/*
 * The congestion control `fixed`: a constant rate, whatever comes back.
 *
 * The window never binds, so the kernel's pacing alone says when a packet leaves. Retransmissions
 * take their turn in the same rate. Flow i of a scenario (its addresses: lablink.h) sends
 * rates[i] bytes of payload a second.
 */
#include <linux/module.h>
#include <linux/version.h>
#include <net/tcp.h>

#include "lablink.h"

#define WINDOW_PKTS 1000000U

static unsigned long rates[LABLINK_FLOWS];
module_param_array(rates, ulong, NULL, 0400);
MODULE_PARM_DESC(rates, "bytes of payload a second, by flow; the first belongs to none");

static void fixed_keep(struct sock *sk)
{
	unsigned long rate = rates[ntohl(inet_sk(sk)->inet_saddr) & (LABLINK_FLOWS - 1)];

	tcp_snd_cwnd_set(tcp_sk(sk), WINDOW_PKTS);
	WRITE_ONCE(sk->sk_pacing_rate, rate);
}

static void fixed_init(struct sock *sk)
{
	cmpxchg(&sk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED);
	fixed_keep(sk);
}

#if KERNEL_VERSION(6, 10, 0) <= LINUX_VERSION_CODE
static void fixed_cong_control(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
#else
static void fixed_cong_control(struct sock *sk, const struct rate_sample *rs)
#endif
{
	fixed_keep(sk);
}

static u32 fixed_ssthresh(struct sock *sk)
{
	return TCP_INFINITE_SSTHRESH;
}

static u32 fixed_undo_cwnd(struct sock *sk)
{
	return WINDOW_PKTS;
}

static struct tcp_congestion_ops fixed __read_mostly = {
	.name = "fixed",
	.owner = THIS_MODULE,
	.init = fixed_init,
	.cong_control = fixed_cong_control,
	.ssthresh = fixed_ssthresh,
	.undo_cwnd = fixed_undo_cwnd,
};

static int __init labfixed_init(void)
{
	return tcp_register_congestion_control(&fixed);
}

static void __exit labfixed_exit(void)
{
	tcp_unregister_congestion_control(&fixed);
}

module_init(labfixed_init);
module_exit(labfixed_exit);
MODULE_DESCRIPTION("TCP at a constant rate, for the lab");
MODULE_LICENSE("GPL");
