/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Careful Resume on a socket (mutant_resume.h): a flow whose window jumps.
 *
 * While a jump is validated or taken back, neither the arm nor the kernel's reduction may set the
 * window. The flow's socket runs another clone of its arm's ops, with a cong_control. So nothing is
 * asked of a flow that does not jump. Kernel arms grow the window themselves while it is validated.
 * Learned arms grow it as reno, and take no control until they have the window. BBR hears of all
 * ACKs but a retreat's. Behind a retreat BBR starts anew with an initial window: no rate that the
 * retreat has measured is left. Another arm with a model of its own does not jump. Nor does a flow
 * switch in this time.
 */
#ifndef _MUTANT_JUMP_H
#define _MUTANT_JUMP_H

#include "mutant_core.h"
#include "mutant_host.h"

/* A flow that takes part in Careful Resume; under its socket's lock. */
struct mutant_jumper {
	struct mutant_resume resume;
	struct mutant_host *host;
	struct list_head sibling;	/* place in the flows of `host`, under its lock */
	const struct sock *sk;		/* valid until the flow leaves `host` */
	u32 mss;			/* bytes */
	u32 lost;			/* packets lost when the flow began */
	u32 marked;			/* packets delivered with a mark then */
	u32 ssthresh;			/* the slow-start threshold then, packets */
	u32 una;			/* sequence number: acknowledged by the jump's last ACK */
	u32 held_by_receiver;		/* time before the jump, jiffies */
	u32 held_by_buffer;		/* jiffies */
	bool paced;			/* the stack paces since the jump, until slow start ends */
	bool rescue;			/* a retreat has begun: one retransmission leaves at once */
};

enum mutant_jump_count {
	MUTANT_JUMPS,
	MUTANT_JUMPS_VALIDATED,
	MUTANT_JUMPS_RETREATED,
	MUTANT_JUMPS_CUT_BY_RECEIVER,
	MUTANT_JUMPS_CUT_BY_BUFFER,
	MUTANT_JUMP_COUNTS
};

u64 mutant_jump_count(enum mutant_jump_count what);
void mutant_jump_hook(const struct mutant_arm *arm);
void mutant_jump_join(struct sock *sk, struct mutant_flow *f);
void mutant_jump_leave(struct sock *sk, struct mutant_flow *f);
void mutant_jump_heard(struct sock *sk, struct mutant_flow *f);
u32 mutant_jump_flags(const struct mutant_flow *f);

/* Whether the flow's window is not the arm's. The caller has the socket's lock. */
static inline bool mutant_jumping(const struct mutant_flow *f)
{
	return f->jumper && mutant_resume_jumping(&f->jumper->resume);
}

#endif /* _MUTANT_JUMP_H */
