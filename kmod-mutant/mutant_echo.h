/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Echoes: the fate of what a flow sent under each of its controls (Jury section 3.1, LTP
 * section 4).
 *
 * A policy that moves its window by 2.5 % learns from the answer only where what it sent is cut
 * at the packet from which the new window held. Steps are too coarse for that, and counts of
 * what was sent by then: of 16 packets one is 6 %. So a flow that takes a control only makes a
 * mark, how much it has sent. The ACK that finds all of that delivered or lost answers it, and
 * tells when the newest packet that it acknowledges was sent and when that came back. What lies
 * between two such ACKs is an echo: the rate at which some packets left, and that at which the
 * same packets arrived.
 *
 * "Resolved" is what was delivered or lost, and all that was sent comes to that; counts are
 * running totals that wrap, as in struct tcp_sock. Marks that would be too many are not made,
 * and the echo before them goes on. The socket's lock orders everything here. Pure logic,
 * tested on the host.
 */
#ifndef _MUTANT_ECHO_H
#define _MUTANT_ECHO_H

#ifdef __KERNEL__
#include <linux/compiler.h>
#include <linux/string.h>
#include <linux/types.h>

#include <uapi/linux/mutant.h>
#else
#include "kernel.h"
#endif

/* A power of two: 3.8 s of controls, 30 ms apart, may be on their way. */
#define MUTANT_MARKS		128
#define MUTANT_MARK_MASK	(MUTANT_MARKS - 1)

struct mutant_mark {
	u32 sent;			/* packets before it */
	u32 number;			/* of the control */
};

struct mutant_echoes {
	u32 epoch;			/* in which the marks were made */
	u32 made;
	u32 answered;
	u32 next;			/* packets resolved that answer the next mark */
	u32 rtt_us;			/* last known */
	/* As of the ACK that answered the last mark, and since then. */
	u32 delivered;
	u32 lost;
	u64 ack_us;
	u64 sent_us;
	u64 rtt_us_sum;			/* of each packet delivered */
	/* The last answered mark stays, as the one that the next echo begins with. */
	struct mutant_mark mark[MUTANT_MARKS];
};

/* What an ACK says. */
struct mutant_heard {
	u64 now_us;
	u64 sent_us;			/* when the newest packet that is delivered was sent */
	s64 rtt_us;			/* negative: the ACK carried no valid RTT */
	u32 acked;			/* packets that it delivers */
	u32 delivered;			/* totals */
	u32 lost;
};

void mutant_echo_mark(struct mutant_echoes *e, u32 epoch, const struct mutant_mark *mark);
bool mutant_echo_answer(struct mutant_echoes *e, u32 epoch, const struct mutant_heard *heard,
			struct mutant_echo *echo);
void mutant_echo_put(struct mutant_record *rec, const struct mutant_echo *echo);

/* Take in an ACK; true if it ends an echo. */
static __always_inline bool mutant_echo_heard(struct mutant_echoes *e, u32 epoch,
					      const struct mutant_heard *heard,
					      struct mutant_echo *echo)
{
	if (likely(heard->rtt_us >= 0))
		e->rtt_us = heard->rtt_us;
	e->rtt_us_sum += (u64)heard->acked * e->rtt_us;
	if (likely(e->answered == e->made ||
		   (s32)(heard->delivered + heard->lost - e->next) < 0))
		return false;
	return mutant_echo_answer(e, epoch, heard, echo);
}

#endif /* _MUTANT_ECHO_H */
