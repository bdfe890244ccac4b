/* SPDX-License-Identifier: GPL-2.0-only */
/* Reading off a socket the values at one of its ACKs, and how its flow stands. */
#ifndef _MUTANT_SAMPLE_H
#define _MUTANT_SAMPLE_H

#include "mutant_core.h"

/* The delivery rate, bytes per second: an average over the last round trip. */
static __always_inline u64 mutant_sample_rate(const struct tcp_sock *tp, struct mutant_measures *m)
{
	/* One division per new sample. */
	if (m->rate_delivered != tp->rate_delivered ||
	    m->rate_interval_us != tp->rate_interval_us) {
		m->rate_delivered = tp->rate_delivered;
		m->rate_interval_us = tp->rate_interval_us;
		if (m->rate_interval_us)
			WRITE_ONCE(m->rate, (u64)m->rate_delivered * tp->mss_cache *
				   USEC_PER_SEC / m->rate_interval_us);
	}
	return m->rate;
}

/* The socket's values at an ACK whose RTT is @rtt_us, negative if it has none. */
static __always_inline void mutant_sample_read(const struct sock *sk, u64 rate, s64 rtt_us,
					       struct mutant_sample *s)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	s->now_us = tp->tcp_mstamp;
	s->rtt_us = rtt_us;
	s->acked_bytes = tp->bytes_acked;
	s->rate = rate;
	s->delivered = tp->delivered;
	s->delivered_ce = tp->delivered_ce;
	s->lost = tp->lost;
	s->retrans = tp->total_retrans;
	s->srtt_us = tp->srtt_us >> 3;
	s->flags = tp->rate_app_limited ? MUTANT_FLOW_FLAGS_APP_LIMITED : 0;
}

/* The timestamps of the socket's last ACK, whose RTT is @rtt_us, negative if it has none. */
static inline void mutant_back_read(const struct tcp_sock *tp, s64 rtt_us,
				    struct mutant_back_ack *ack)
{
	ack->now_us = tp->tcp_mstamp;
	ack->rtt_us = rtt_us;
	ack->sent_ms = tp->rx_opt.rcv_tsval;
	ack->echo_ms = tp->rx_opt.rcv_tsecr;
}

/* How a flow stands. @rate: its last. Without the socket's lock a value may be gone by. */
static inline void mutant_state_read(const struct sock *sk, u64 rate, struct mutant_state *s)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	s->rate = rate;
	s->pacing_rate = READ_ONCE(sk->sk_pacing_rate);
	s->snd_cwnd = tcp_snd_cwnd(tp);
	s->ssthresh = READ_ONCE(tp->snd_ssthresh);
	s->srtt_us = READ_ONCE(tp->srtt_us) >> 3;
	s->mdev_us = READ_ONCE(tp->mdev_us) >> 2;
	s->min_rtt_us = tcp_min_rtt(tp);
	s->advmss = READ_ONCE(tp->advmss);
	s->mss = READ_ONCE(tp->mss_cache);
	s->in_flight = tcp_packets_in_flight(tp);
	s->lost_out = READ_ONCE(tp->lost_out);
	s->retrans_out = READ_ONCE(tp->retrans_out);
	s->reord_seen = READ_ONCE(tp->reord_seen);
	s->reordering = READ_ONCE(tp->reordering);
	s->ca_state = inet_csk(sk)->icsk_ca_state;
}

/* The time that a socket's chronograph has counted as @type, µs, under the socket's lock. */
static inline u64 mutant_chrono_us(const struct tcp_sock *tp, enum tcp_chrono type)
{
	u64 ticks = tp->chrono_stat[type - 1];

	if (tp->chrono_type == type)
		ticks += tcp_jiffies32 - tp->chrono_start;
	return ticks * (USEC_PER_SEC / HZ);
}

/* Read how long a socket was busy and limited, under its lock: the chronograph has three parts. */
static inline void mutant_limits_read(const struct tcp_sock *tp, struct mutant_record *rec)
{
	rec->receiver_us = mutant_chrono_us(tp, TCP_CHRONO_RWND_LIMITED);
	rec->buffer_us = mutant_chrono_us(tp, TCP_CHRONO_SNDBUF_LIMITED);
	rec->busy_us = mutant_chrono_us(tp, TCP_CHRONO_BUSY) + rec->receiver_us + rec->buffer_us;
}

#endif /* _MUTANT_SAMPLE_H */
