/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Everything that differs between the kernels we build for, and nothing else.
 * The MUTANT_HAS_* macros are found out by Kbuild in the kernel's own headers.
 */
#ifndef _MUTANT_COMPAT_H
#define _MUTANT_COMPAT_H

#include <linux/bpf.h>
#include <linux/seqlock.h>
#include <net/tcp.h>

/*
 * Distributions let the compiler clear a function's variables on its stack. A variable that is
 * filled in field by field on every ACK need not be cleared before. 6.15 calls it __uninitialized.
 */
#if __has_attribute(uninitialized)
#define MUTANT_NOT_CLEARED	__attribute__((uninitialized))
#else
#define MUTANT_NOT_CLEARED
#endif

/*
 * 6.13 has names of their own for those who write and read a latch, and stable kernels took them
 * over. Only KCSAN sees a difference.
 */
#ifndef MUTANT_HAS_LATCH_NAMES
#define write_seqcount_latch_begin(latch)	raw_write_seqcount_latch(latch)
#define write_seqcount_latch(latch)		raw_write_seqcount_latch(latch)
#define write_seqcount_latch_end(latch)		do { } while (0)
#define read_seqcount_latch(latch)		raw_read_seqcount_latch(latch)
#ifdef MUTANT_HAS_RAW_LATCH_RETRY
/* This name exists from 6.5 to 6.12. */
#define read_seqcount_latch_retry(latch, seq)	raw_read_seqcount_latch_retry(latch, seq)
#endif
#endif

/* 7.0 knows protocols that need accurate ECN, and others that change how it is negotiated. */
#ifndef TCP_CONG_NEEDS_ACCECN
#define TCP_CONG_NEEDS_ACCECN	0
#endif
#ifndef TCP_CONG_ECT_1_NEGOTIATION
#define TCP_CONG_ECT_1_NEGOTIATION	0
#endif
#ifndef TCP_CONG_NO_FALLBACK_RFC3168
#define TCP_CONG_NO_FALLBACK_RFC3168	0
#endif

/* Flags that the kernel asks for again later: `mutant` and all its arms have none. */
#define MUTANT_CONG_ECN_FLAGS \
	(TCP_CONG_NEEDS_ECN | TCP_CONG_NEEDS_ACCECN | TCP_CONG_ECT_1_NEGOTIATION | \
	 TCP_CONG_NO_FALLBACK_RFC3168)

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

/* A protocol of ours calls @run with the socket when a flow sends again. */
#ifdef MUTANT_HAS_CWND_EVENT_TX_START
#define MUTANT_TX_START_OP(run)		.cwnd_event_tx_start = run
#define MUTANT_TX_START_EVENT(run)
#else
#define MUTANT_TX_START_OP(run)		.cwnd_event = run##_event
#define MUTANT_TX_START_EVENT(run) \
static void run##_event(struct sock *sk, enum tcp_ca_event event) \
{ \
	if (event == CA_EVENT_TX_START) \
		run(sk); \
}
#endif

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
