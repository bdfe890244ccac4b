/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Everything that differs between the kernels we build for, and nothing else.
 * The MUTANT_HAS_* macros are found out by Kbuild in the kernel's own headers.
 */
#ifndef _MUTANT_COMPAT_H
#define _MUTANT_COMPAT_H

#include <linux/bpf.h>
#include <net/tcp.h>

/*
 * Distributions let the compiler clear what a function has on its stack. What is filled in field by
 * field on every ACK need not be cleared before. 6.15 calls it __uninitialized.
 */
#if __has_attribute(uninitialized)
#define MUTANT_NOT_CLEARED	__attribute__((uninitialized))
#else
#define MUTANT_NOT_CLEARED
#endif

/* 7.0 knows protocols that need accurate ECN. */
#ifndef TCP_CONG_NEEDS_ACCECN
#define TCP_CONG_NEEDS_ACCECN	0
#endif

/* 6.10 gave cong_control the ACK's sequence number and flags. */
#ifdef MUTANT_CONG_CONTROL_HAS_ACK
#define MUTANT_CONG_CONTROL_ARGS \
	struct sock *sk, u32 ack, int flag, const struct rate_sample *rs
#define mutant_call_cong_control(ops)	((ops)->cong_control(sk, ack, flag, rs))
#else
#define MUTANT_CONG_CONTROL_ARGS \
	struct sock *sk, const struct rate_sample *rs
#define mutant_call_cong_control(ops)	((ops)->cong_control(sk, rs))
#endif

/* 7.1 split the start of transmission off cwnd_event. */
static inline void mutant_call_tx_start(const struct tcp_congestion_ops *ops, struct sock *sk)
{
#ifdef MUTANT_HAS_CWND_EVENT_TX_START
	if (ops->cwnd_event_tx_start)
		ops->cwnd_event_tx_start(sk);
#else
	if (ops->cwnd_event)
		ops->cwnd_event(sk, CA_EVENT_TX_START);
#endif
}

/* Kernels without BPF programs have no owner of them. */
static inline bool mutant_is_bpf(const struct tcp_congestion_ops *ops)
{
#ifdef BPF_MODULE_OWNER
	return ops->owner == BPF_MODULE_OWNER;
#else
	return false;
#endif
}

#endif /* _MUTANT_COMPAT_H */
