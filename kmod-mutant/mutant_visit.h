/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Visits: the flows to a prefix that share an arm. Two arms at one bottleneck at the same time show
 * how they fight, and not which is better. So a visit draws one of the prefix's arms by lot, and
 * all flows that are born in it begin there. A visit begins with the first flow after a second
 * without any, and after a minute in any case.
 *
 * The lot is a hash of a seed, the prefix and the visit's number: whoever knows these can draw it
 * again. Pure logic, tested on the host.
 */
#ifndef _MUTANT_VISIT_H
#define _MUTANT_VISIT_H

#ifdef __KERNEL__
#include <linux/types.h>

#include <uapi/linux/mutant.h>
#else
#include "kernel.h"
#endif

#define MUTANT_VISIT_GAP_MS	1000U	/* time without a flow that ends a visit */
#define MUTANT_VISIT_MAX_MS	60000U	/* the longest time in which a visit takes flows */

struct mutant_visit {
	u64 began_ms;
	u64 left_ms;			/* time when the last open flow ended */
	u32 number;			/* the visit's number, from 1 on; 0 before the first */
	u32 open;			/* flows of the visits that last */
	bool over;			/* the next flow begins another, whatever the time */
};

/* The lot of a visit depends on this. */
struct mutant_lot {
	u64 seed;
	u64 high;			/* the prefix's address, as in struct mutant_start_key */
	u64 low;
	u32 length;			/* family << 16 | bits */
	u32 number;			/* the visit's number */
};

/* A flow is born. True if it begins a visit, for which the lot is to be drawn. */
static inline bool mutant_visit_enter(struct mutant_visit *visit, u64 now_ms)
{
	bool begins = !visit->number || visit->over ||
		      now_ms - visit->began_ms >= MUTANT_VISIT_MAX_MS ||
		      (!visit->open && now_ms - visit->left_ms >= MUTANT_VISIT_GAP_MS);

	if (begins) {
		visit->number++;
		visit->began_ms = now_ms;
		visit->over = false;
	}
	visit->open++;
	return begins;
}

static inline void mutant_visit_leave(struct mutant_visit *visit, u64 now_ms)
{
	visit->open--;
	visit->left_ms = now_ms;
}

/* The finaliser of splitmix64: each bit of the result depends on all of @x. */
static inline u64 mutant_mixed(u64 x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
	return x ^ x >> 31;
}

/* A number from 0 to @limit - 1, each as likely as the others. */
static inline u32 mutant_lot_draw(const struct mutant_lot *lot, u32 limit)
{
	u64 hash = mutant_mixed(lot->seed + 0x9e3779b97f4a7c15ULL);

	hash = mutant_mixed(hash ^ lot->high);
	hash = mutant_mixed(hash ^ lot->low);
	hash = mutant_mixed(hash ^ ((u64)lot->length << 32 | lot->number));
	return (hash >> 32) * limit >> 32;
}

/* The place of the choice that a @lot below the sum of the weights falls on. */
static inline u32 mutant_lot_place(const struct mutant_start_arm *choice, u32 lot)
{
	u32 i;

	for (i = 0; i < MUTANT_START_ARMS - 1 && lot >= choice[i].weight; i++)
		lot -= choice[i].weight;
	return i;
}

#endif /* _MUTANT_VISIT_H */
