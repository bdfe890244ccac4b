/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Queues of flows that have something to tell, so that a step visits changed flows alone. Something
 * to tell is a step that was opened since the last one was closed; and the birth, for a flow is
 * measured once somebody asks for its steps.
 *
 * A flow waits in a queue of the namespace whose session steers it. So a step meets no flow that
 * others steer. The initial namespace has a queue per processor, and a flow joins the queue of the
 * processor that handles its ACK; another namespace has one queue. When a session of another
 * namespace begins or ends, the namespace's flows change queues; one that was late is moved by
 * whoever meets it.
 *
 * A flow joins and leaves under its own lock, f->lock, which also closes a step. Who opens a step
 * makes the flow join afterwards; who closes one takes it out before. So a flow may wait without a
 * step, and no step is left without a flow that waits. A queue's lock is taken inside a flow's.
 */
#ifndef _MUTANT_QUEUE_H
#define _MUTANT_QUEUE_H

#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/types.h>

struct mutant_flow;
struct net;

struct mutant_queue {
	spinlock_t lock;		/* orders both lists */
	struct list_head now;		/* flows that the dump in progress has still to meet */
	struct list_head later;		/* flows that the next one meets */
};

void mutant_queue_init(struct mutant_queue *queue);
void mutant_queues_init(void);
void mutant_queue_join(struct mutant_flow *f);
void mutant_queue_leave(struct mutant_flow *f);
void mutant_queue_change(struct mutant_flow *f);
struct mutant_queue *mutant_queue_next(const struct net *net, unsigned int *number);
void mutant_queues_begin(const struct net *net);
unsigned int mutant_queue_take(struct mutant_queue *queue, struct mutant_flow **flows,
			       unsigned int most);

#endif /* _MUTANT_QUEUE_H */
