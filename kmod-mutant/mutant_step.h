/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The steps of a flow: one writes, another closes, and neither waits for a lock.
 *
 * Whoever processes the flow's ACKs writes a step, under the socket's lock. A netlink request
 * closes it, and must not take that lock: a process may own it for as long as it likes (a page
 * fault inside sendmsg is enough). One such flow would hold up all others. So the flow has two
 * buffers. The writer uses the one that `number` names. The closer adds one to `number`, and waits
 * out a writer that may not have seen it (`seq` is odd while a step is written). Then it has the
 * old buffer for itself: no sample is lost, none is counted twice.
 *
 *	writer				closer
 *	seq = odd			number = number + 1
 *	full barrier			full barrier
 *	read number			read seq; while odd and unchanged, wait
 *	write to that buffer		read the old buffer
 *	release: seq = even
 *
 * Either the writer sees the new number or the closer sees the odd seq. There is one writer at a
 * time, by the socket's lock, and one closer or peeker, by a mutex of theirs. Pure logic, like the
 * fold; tests/host runs both sides at once.
 */
#ifndef _MUTANT_STEP_H
#define _MUTANT_STEP_H

#ifdef __KERNEL__
#include <linux/atomic.h>
#include <linux/preempt.h>
#include <linux/processor.h>
#endif

#include "mutant_fold.h"

struct mutant_steps {
	u32 seq;			/* odd while a step is being written */
	u32 number;			/* number of the step to write to */
	struct mutant_step step[2];	/* step n is in step[n & 1] */
};

bool mutant_steps_close(struct mutant_steps *steps, struct mutant_record *rec);
void mutant_steps_peek(struct mutant_steps *steps, struct mutant_record *rec);
void mutant_steps_current(const struct mutant_steps *steps, struct mutant_record *rec);

/* The step to write to. Preemption is off until mutant_step_end(), for a closer may be spinning. */
static __always_inline struct mutant_step *mutant_step_begin(struct mutant_steps *steps)
{
	struct mutant_step *step;
	u32 number;

	preempt_disable();
	/* The odd seq comes before the number; pairs with the barrier of mutant_steps_close(). */
	smp_store_mb(steps->seq, steps->seq + 1);
	number = READ_ONCE(steps->number);
	step = &steps->step[number & 1];
	if (unlikely(step->number != number))
		mutant_step_open(step, &steps->step[~number & 1], number);
	return step;
}

static __always_inline void mutant_step_end(struct mutant_steps *steps)
{
	/* The step is complete when seq is even. */
	smp_store_release(&steps->seq, steps->seq + 1);
	preempt_enable();
}

#endif /* _MUTANT_STEP_H */
