/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The moment at which a packet that enters the bottleneck leaves it. This is pure arithmetic on a schedule,
 * which the tests also compile for user space.
 */
#ifndef LABLINK_SCHEDULE_H
#define LABLINK_SCHEDULE_H

#ifdef __KERNEL__
#include <linux/math64.h>
#include <linux/types.h>
#else
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
typedef uint64_t u64;
typedef uint32_t u32;
#define DIV64_U64_ROUND_UP(n, d) (((n) + (d) - 1) / (d))
#endif

#include "lablink.h"

#define LABLINK_NSEC_PER_SEC 1000000000ULL
#define LABLINK_NSEC_PER_MSEC 1000000ULL

/* One schedule, and how far it has been used up. */
struct schedule {
	const struct lablink_header *header;
	const struct lablink_step *steps;
	const struct lablink_delay *delays;
	const struct lablink_opportunity *opportunities;
	u64 start_ns;
	u32 forward_step; /* step of the packet served last */
	u32 now_step;
	u32 next_opportunity;
	u64 cycle_ns; /* start of the running repetition of the trace */
	u64 credit_ns; /* time of the opportunity used last */
	u32 credit_bytes; /* bytes left of that opportunity */
	u64 missing_bits; /* tokens missing from the policer's bucket, in 1e-9 bits */
	u64 policed_ns; /* time at which the bucket held them */
};

/* Whether the policer drops a packet that comes at `t_ns`; else its tokens are taken. */
static inline bool policed(struct schedule *s, u64 t_ns, u32 bytes)
{
	u64 rate = s->header->police_bps, work = (u64)bytes * 8 * LABLINK_NSEC_PER_SEC;
	u64 bucket = s->header->police_burst_bytes * 8 * LABLINK_NSEC_PER_SEC;
	u64 passed_ns = t_ns - s->policed_ns;

	if (!rate)
		return false;
	s->policed_ns = t_ns;
	/* Longer than it takes to fill the bucket, and the product might not fit. */
	if (passed_ns > DIV64_U64_ROUND_UP(s->missing_bits, rate))
		s->missing_bits = 0;
	else
		s->missing_bits -= passed_ns * rate < s->missing_bits ? passed_ns * rate :
									s->missing_bits;
	if (s->missing_bits + work > bucket)
		return true;
	s->missing_bits += work;
	return false;
}

static inline void advance_step(const struct schedule *s, u32 *step, u64 t_ns)
{
	while (*step + 1 < s->header->steps && s->steps[*step + 1].at_ns <= t_ns)
		(*step)++;
}

/* When `bytes` are through, that can be served from `t_ns` on: at the rates in force meanwhile. */
static inline u64 served_at_rate(struct schedule *s, u64 t_ns, u32 bytes)
{
	u64 work = (u64)bytes * 8 * LABLINK_NSEC_PER_SEC; /* bits left to serve, in 1e-9 bits */

	for (;;) {
		u64 rate, end_ns;

		advance_step(s, &s->forward_step, t_ns);
		rate = s->steps[s->forward_step].rate_bps;
		end_ns = t_ns + DIV64_U64_ROUND_UP(work, rate);
		if (s->forward_step + 1 == s->header->steps ||
		    end_ns <= s->steps[s->forward_step + 1].at_ns)
			return end_ns;
		work -= (s->steps[s->forward_step + 1].at_ns - t_ns) * rate;
		t_ns = s->steps[s->forward_step + 1].at_ns;
	}
}

static inline u64 opportunity_ns(const struct schedule *s)
{
	return s->cycle_ns +
	       (u64)s->opportunities[s->next_opportunity].at_ms * LABLINK_NSEC_PER_MSEC;
}

static inline void take_opportunity(struct schedule *s)
{
	s->credit_ns = opportunity_ns(s);
	s->credit_bytes = LABLINK_OPPORTUNITY_BYTES;
	if (++s->next_opportunity == s->header->opportunities) {
		s->next_opportunity = 0;
		s->cycle_ns += (u64)s->header->period_ms * LABLINK_NSEC_PER_MSEC;
	}
}

/* When `bytes` are through, that enter at `t_ns`: by the opportunities that are still free then. */
static inline u64 served_by_trace(struct schedule *s, u64 t_ns, u32 bytes)
{
	if (s->credit_ns < t_ns)
		s->credit_bytes = 0;
	while (bytes > s->credit_bytes) {
		bytes -= s->credit_bytes;
		do {
			take_opportunity(s);
		} while (s->credit_ns < t_ns);
	}
	s->credit_bytes -= bytes;
	return s->credit_ns;
}

/* Returns how long a schedule with this header is, or 0 where the header is not a valid one. */
static inline size_t schedule_bytes(const struct lablink_header *header)
{
	if (header->magic != LABLINK_MAGIC || !header->queue_pkts || !header->steps ||
	    header->steps > 1U << 20 || header->flow_delays > LABLINK_FLOWS ||
	    header->opportunities > 1U << 23 || header->police_burst_bytes > 1ULL << 28 ||
	    (header->opportunities && !header->period_ms))
		return 0;
	return sizeof(*header) + header->steps * sizeof(struct lablink_step) +
	       header->flow_delays * sizeof(struct lablink_delay) +
	       header->opportunities * sizeof(struct lablink_opportunity);
}

static inline bool schedule_valid(const struct schedule *s)
{
	u32 i;

	for (i = 0; i < s->header->steps; i++) {
		if (!s->header->opportunities && !s->steps[i].rate_bps)
			return false;
		if (i ? s->steps[i].at_ns <= s->steps[i - 1].at_ns : s->steps[i].at_ns)
			return false;
	}
	for (i = 1; i < s->header->opportunities; i++)
		if (s->opportunities[i].at_ms < s->opportunities[i - 1].at_ms)
			return false;
	/* The time must go on, or the search for a free opportunity would not end. */
	return !i || !s->header->opportunities ||
	       s->header->period_ms >= s->opportunities[i - 1].at_ms;
}

/* Points `s` into a schedule of `size` bytes at `blob`; false where it is not a valid one. */
static inline bool schedule_parse(struct schedule *s, const void *blob, size_t size)
{
	if (size < sizeof(*s->header))
		return false;
	s->header = blob;
	if (schedule_bytes(s->header) != size)
		return false;
	s->steps = (const void *)(s->header + 1);
	s->delays = (const void *)(s->steps + s->header->steps);
	s->opportunities = (const void *)(s->delays + s->header->flow_delays);
	return schedule_valid(s);
}

#endif
