// SPDX-License-Identifier: GPL-2.0-only
/* The closer's side of a flow's steps; mutant_step.h explains the whole. */
#include "mutant_step.h"

/* Close the step and hand it over; false if nothing was written to it. */
bool mutant_steps_close(struct mutant_steps *steps, struct mutant_record *rec)
{
	u32 number = steps->number, seq;
	const struct mutant_step *step = &steps->step[number & 1];

	if (READ_ONCE(step->number) != number)
		return false;
	/* The new number comes before seq; pairs with the barrier of mutant_step_begin(). */
	smp_store_mb(steps->number, number + 1);
	/* All that was written before mutant_step_end() made seq even is seen. */
	seq = smp_load_acquire(&steps->seq);
	if (seq & 1)
		smp_cond_load_acquire(&steps->seq, VAL != seq);
	mutant_step_read(step, rec);
	return true;
}

/* The record of the step in progress, for its writer. */
void mutant_steps_current(const struct mutant_steps *steps, struct mutant_record *rec)
{
	u32 number = READ_ONCE(steps->number);
	const struct mutant_step *step = &steps->step[number & 1];
	struct mutant_step empty;

	if (READ_ONCE(step->number) != number) {
		mutant_step_open(&empty, &steps->step[~number & 1], number);
		step = &empty;
	}
	mutant_step_read(step, rec);
}

/* The record of the step in progress, for one who may close steps but writes none. */
void mutant_steps_peek(struct mutant_steps *steps, struct mutant_record *rec)
{
	u32 seq;

	do {
		seq = smp_cond_load_acquire(&steps->seq, !(VAL & 1));
		/* A copy that a writer has torn is read again. */
		data_race((mutant_steps_current(steps, rec), 0));
		/* The step is read before seq is read again. */
		smp_rmb();
	} while (READ_ONCE(steps->seq) != seq);
}
