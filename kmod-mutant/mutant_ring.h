/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The places of a ring of bounded size: who comes when all are taken is turned away, and so is a
 * guest when guests have half of them. Pure logic, tested on the host.
 */
#ifndef _MUTANT_RING_H
#define _MUTANT_RING_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include "kernel.h"
#endif

struct mutant_ring {
	u32 size;			/* places */
	u32 first;			/* the place that has been taken for the longest time */
	u32 count;			/* places taken */
	u32 guests;			/* number of places taken by guests */
};

/* Take a place, and say in @place which; false if there is none. */
static inline bool mutant_ring_put(struct mutant_ring *ring, bool guest, u32 *place)
{
	if (ring->count >= ring->size || (guest && ring->guests >= ring->size / 2))
		return false;
	*place = ((u64)ring->first + ring->count) % ring->size;
	ring->count++;
	ring->guests += guest;
	return true;
}

/* The first place becomes free; its content was a @guest's or not. */
static inline void mutant_ring_drop(struct mutant_ring *ring, bool guest)
{
	ring->first = (ring->first + 1) % ring->size;
	ring->count--;
	ring->guests -= guest;
}

#endif /* _MUTANT_RING_H */
