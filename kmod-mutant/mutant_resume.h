/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Careful Resume (RFC 9959): a flow begins with a part of the window that an earlier flow to the
 * same host had.
 *
 * Slow start takes a round trip for each doubling, whatever is known of the path. With the saved
 * state, a flow goes through these phases:
 *
 *	reconnaissance	The first window is sent as always. Once it is acknowledged without loss or
 *			mark, and the RTT is like the saved one, the window jumps to at most half of
 *			the saved one.
 *	unvalidated	The jump is sent, paced over a round trip. The window does not grow.
 *	validating	The first packet of the jump is acknowledged: the window equals the data in
 *			flight, until the last one is acknowledged. It grows as the arm has it, but
 *			not before half of the jump has come back without a queue. Where there is a
 *			queue, slow start is over, with the load that the path has just carried.
 *	retreat		A loss or a mark before that: the saved state is deleted. The window is half
 *			of the load that the path has carried, until the jump's last packet is
 *			acknowledged and the kernel's recovery has ended. Then the threshold is half
 *			of that load, too.
 *	normal		The arm has the window. The path's load is observed.
 *
 * The pipe (the RFC's PipeSize) is the data in flight before the jump, and delivered since. Windows
 * and pipes are in packets, saved windows in bytes: the next flow may have other packets. Sequence
 * numbers and counts of packets wrap. Pure logic, tested on the host.
 */
#ifndef _MUTANT_RESUME_H
#define _MUTANT_RESUME_H

#ifdef __KERNEL__
#include <linux/compiler.h>
#include <linux/math64.h>
#include <linux/types.h>

#include <uapi/linux/mutant.h>
#else
#include "kernel.h"
#endif

#define MUTANT_SAVED_AGE_NS	300000000000ULL	/* five minutes, as in RFC 7661 section 4.4.3 */
#define MUTANT_SAVED_WINDOW_MIN	40U	/* packets: four times the initial window of RFC 6928 */

#define MUTANT_NO_SSTHRESH	0x7fffffffU	/* the kernel's TCP_INFINITE_SSTHRESH */

enum mutant_resume_phase {
	MUTANT_RESUME_NORMAL,
	MUTANT_RESUME_RECONNAISSANCE,
	MUTANT_RESUME_UNVALIDATED,
	MUTANT_RESUME_VALIDATING,
	MUTANT_RESUME_RETREAT,
};

/* The result of a flow's jump. */
enum mutant_resume_result {
	MUTANT_RESUME_NO_JUMP,
	MUTANT_RESUME_OPEN,		/* result not known yet */
	MUTANT_RESUME_VALIDATED,
	MUTANT_RESUME_RETREATED,
};

/* The reason why a jump was not sent as a whole. */
enum mutant_resume_cut {
	MUTANT_RESUME_WHOLE,
	MUTANT_RESUME_CUT_BY_RECEIVER,	/* the receiver's window was full */
	MUTANT_RESUME_CUT_BY_BUFFER,	/* there was no more to send in the send buffer */
};

/* Whether the window may grow while the jump is validated. */
enum mutant_resume_growth {
	MUTANT_RESUME_HELD,		/* no growth yet */
	MUTANT_RESUME_FREE,		/* growth as the arm wants */
	MUTANT_RESUME_OVER,		/* a queue was seen, so growth ends */
};

/* The saved state of the path to a host. */
struct mutant_saved {
	u64 window_bytes;		/* bytes carried in a round trip; 0: unknown */
	u64 since_ns;			/* time when the state was saved */
	u32 rtt_us;			/* the least RTT then, µs */
	bool open;			/* the path may carry more */
};

/* The values of an ACK, or those that hold when a loss is found without one. */
struct mutant_resume_ack {
	u64 now_us;
	u32 una;			/* sequence number of the first byte not acknowledged */
	u32 sacked;			/* end of the highest packet in a SACK, or `una` */
	u32 next;			/* sequence number of the next byte to send */
	u32 delivered;			/* packets so far */
	u32 in_flight;			/* packets, after the ACK */
	u32 window;			/* packets */
	u32 rtt_us;			/* µs; 0: none; to observe, the smoothed one */
	bool full;			/* the whole window was in flight before the ACK */
	u8 cut;				/* enum mutant_resume_cut: if not that */
	bool congested;			/* a loss or a mark since the begin, or a timeout */
	bool recovering;		/* the kernel is in recovery, or reduces the window */
	bool timeout;			/* the kernel has had a retransmission timeout */
	bool slow_start;		/* the arm is in slow start */
	bool limited;			/* held back by the application or a draining arm */
};

struct mutant_resume {
	/* The path's load, observed in whole round trips. */
	u64 round_us;			/* time when the round trip in progress began, µs */
	u32 round_begin;		/* `delivered` at which it began, packets */
	u32 round_end;			/* `delivered` at which it ends, packets */
	u32 carried[2];			/* load in the least RTT, packets; the newer first */
	u32 least_us;			/* the least RTT then, µs */
	bool limited;			/* the round trip in progress says nothing */
	bool open;			/* the last one made no queue: the path may carry more */

	/* The jump. */
	u8 phase;			/* enum mutant_resume_phase */
	u8 result;			/* enum mutant_resume_result */
	u8 cut;				/* enum mutant_resume_cut */
	u8 growth;			/* enum mutant_resume_growth */
	u8 late;			/* ACKs in a row whose RTT shows a queue */
	bool heard;			/* an ACK of the first window has come */
	u64 jumped_us;			/* time when the window jumped, µs */
	u32 rtt_us;			/* the flow's own least RTT then, µs */
	u32 first;			/* sequence number: first window's end, then jump's begin */
	u32 last;			/* sequence number: jump's end */
	u32 jump;			/* the window of the jump, packets */
	u32 pipe;			/* packets */
	u32 delivered;			/* packets that are in `pipe` already */
	u32 window;			/* window as retreat or validation began, packets */
	u32 back;			/* `delivered` when the validation began, packets */
	u64 back_us;			/* time when the validation began, µs */
};

void mutant_resume_init(struct mutant_resume *r, const struct mutant_resume_ack *ack, bool fresh);
void mutant_resume_observe(struct mutant_resume *r, const struct mutant_resume_ack *ack,
			   u32 min_rtt_us);
u32 mutant_resume_carried(const struct mutant_resume *r);
void mutant_saved_keep(struct mutant_saved *saved, const struct mutant_resume *r, u32 mss,
		       u64 now_ns);
u32 mutant_saved_jump(const struct mutant_saved *saved, u64 max_bytes, u32 mss, u32 rtt_us,
		      u64 now_ns);

bool mutant_resume_reconnoitred(struct mutant_resume *r, const struct mutant_resume_ack *ack);
void mutant_resume_jump(struct mutant_resume *r, const struct mutant_resume_ack *ack, u32 window,
			u32 rtt_us);
u32 mutant_resume_acked(struct mutant_resume *r, const struct mutant_resume_ack *ack);
u32 mutant_resume_retreat(struct mutant_resume *r, const struct mutant_resume_ack *ack);

/* Whether the flow's window is not the arm's yet. */
static inline bool mutant_resume_jumping(const struct mutant_resume *r)
{
	return r->phase > MUTANT_RESUME_RECONNAISSANCE;
}

/* Whether the round trip in progress ends with an ACK that says this of @delivered. */
static inline bool mutant_resume_round_over(const struct mutant_resume *r, u32 delivered)
{
	return (s32)(delivered - r->round_end) >= 0;
}

/*
 * The slow-start threshold of a flow that jumps, packets: the saved window, for beyond it nothing
 * is known. There is none where the saving flow had not found the path's full load.
 */
static inline u32 mutant_saved_ssthresh(const struct mutant_saved *saved, u32 mss)
{
	u64 pkts = saved->window_bytes / mss;

	return saved->open || pkts > MUTANT_NO_SSTHRESH ? MUTANT_NO_SSTHRESH : pkts;
}

/* The threshold behind a retreat: half of the pipe (the RFC's Beta is 0.5), packets. */
static inline u32 mutant_resume_ssthresh(const struct mutant_resume *r)
{
	return r->pipe < 4 ? 2 : r->pipe / 2;
}

#endif /* _MUTANT_RESUME_H */
