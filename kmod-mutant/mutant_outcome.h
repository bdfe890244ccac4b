/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Outcomes: the result of each flow, told to the session that steers it when the flow ends, and
 * while it lasts every 10 s. An outcome is about the whole life of its flow so far, so that the
 * last one replaces those before, and nobody has to add them up.
 *
 * Outcomes wait in a ring of the session's namespace, from where one dump takes them. The session
 * says how many may wait; those that find no room are counted. A flow that ends between two steps,
 * and that nobody ever measured, has an outcome like the others.
 */
#ifndef _MUTANT_OUTCOME_H
#define _MUTANT_OUTCOME_H

#include <linux/spinlock.h>
#include <linux/types.h>

#include "mutant_ring.h"

struct mutant_flow;
struct mutant_measures;
struct mutant_outcome;
struct mutant_record;
struct sock;

/* A namespace keeps this for its session. */
struct mutant_outcomes {
	spinlock_t lock;		/* orders all of these */
	struct mutant_outcome *slot;	/* NULL: the session wants none */
	struct mutant_ring ring;
	u32 netns;			/* inode; the flows of others are guests */
	u64 dropped;			/* found no room since the session asked */
};

void mutant_outcomes_begin(struct mutant_outcomes *outcomes, u32 netns);
int mutant_outcomes_want(struct mutant_outcomes *outcomes, u32 most);
void mutant_outcome_begin(struct sock *sk, struct mutant_flow *f, u8 cause);
void mutant_outcome_acked(struct sock *sk, struct mutant_flow *f, s64 rtt_us);
void mutant_outcome_so_far(struct sock *sk, struct mutant_flow *f, const struct mutant_record *rec);
void mutant_outcome_end(struct sock *sk, struct mutant_flow *f);

#endif /* _MUTANT_OUTCOME_H */
