// SPDX-License-Identifier: GPL-2.0-only
/* Queues of flows that have something to tell; mutant_queue.h explains the whole. */
#include <linux/cpumask.h>
#include <linux/percpu.h>
#include <net/net_namespace.h>

#include "mutant_queue.h"
#include "mutant_session.h"

/* The queues of the initial namespace. */
static DEFINE_PER_CPU(struct mutant_queue, mutant_queues);

void mutant_queue_init(struct mutant_queue *queue)
{
	spin_lock_init(&queue->lock);
	INIT_LIST_HEAD(&queue->now);
	INIT_LIST_HEAD(&queue->later);
}

void mutant_queues_init(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		mutant_queue_init(per_cpu_ptr(&mutant_queues, cpu));
}

/* The queue where a flow of @net joins. Another processor's would do: it has a lock. */
static struct mutant_queue *mutant_queue_of(const struct net *net)
{
	const struct net *steering = mutant_session_net(net);

	return net_eq(steering, &init_net) ? raw_cpu_ptr(&mutant_queues) :
					    &mutant_net_of(steering)->queue;
}

static void mutant_queue_put(struct mutant_flow *f)
{
	struct mutant_queue *queue = mutant_queue_of(f->net);

	spin_lock(&queue->lock);
	list_add_tail(&f->queued, &queue->later);
	spin_unlock(&queue->lock);
	f->queue = queue;
}

/* A step of the flow has been opened, or the flow is born. */
void mutant_queue_join(struct mutant_flow *f)
{
	spin_lock_bh(&f->lock);
	if (!f->queue && !f->ended)
		mutant_queue_put(f);
	spin_unlock_bh(&f->lock);
}

/* The flow's step is about to be closed, or the flow ends. The caller has f->lock. */
void mutant_queue_leave(struct mutant_flow *f)
{
	struct mutant_queue *queue = f->queue;

	lockdep_assert_held(&f->lock);
	if (!queue)
		return;
	spin_lock(&queue->lock);
	list_del(&f->queued);
	spin_unlock(&queue->lock);
	f->queue = NULL;
}

/* Others may steer the flow by now: if it waits, it waits where they look. */
void mutant_queue_change(struct mutant_flow *f)
{
	spin_lock_bh(&f->lock);
	if (f->queue) {
		mutant_queue_leave(f);
		mutant_queue_put(f);
	}
	spin_unlock_bh(&f->lock);
}

/* The queue @number of @net, or the next one that there is; NULL behind the last. */
struct mutant_queue *mutant_queue_next(const struct net *net, unsigned int *number)
{
	if (!net_eq(net, &init_net))
		return *number ? NULL : &mutant_net_of(net)->queue;
	*number = cpumask_next((int)*number - 1, cpu_possible_mask);
	return *number < nr_cpu_ids ? per_cpu_ptr(&mutant_queues, *number) : NULL;
}

/* A dump begins: it meets all flows that wait by now. */
void mutant_queues_begin(const struct net *net)
{
	struct mutant_queue *queue;
	unsigned int number;

	for (number = 0; (queue = mutant_queue_next(net, &number)); number++) {
		/* A flow that joins at this moment is met by the next dump. */
		if (data_race(list_empty(&queue->later)))
			continue;
		spin_lock_bh(&queue->lock);
		list_splice_tail_init(&queue->later, &queue->now);
		spin_unlock_bh(&queue->lock);
	}
}

/*
 * The next flows of a dump, @most at a time; returns how many. They wait on, for the next dump,
 * until their steps are closed. Under RCU, which keeps those that end.
 */
unsigned int mutant_queue_take(struct mutant_queue *queue, struct mutant_flow **flows,
			       unsigned int most)
{
	struct mutant_flow *f, *next;
	unsigned int n = 0;

	/* Flows that joined since the dump began are in the other list. */
	if (data_race(list_empty(&queue->now)))
		return 0;
	spin_lock_bh(&queue->lock);
	list_for_each_entry_safe(f, next, &queue->now, queued) {
		if (n == most)
			break;
		flows[n++] = f;
		list_move_tail(&f->queued, &queue->later);
	}
	spin_unlock_bh(&queue->lock);
	return n;
}
