/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * When a device of a shared medium may send: pure arithmetic, which the tests also compile for user
 * space.
 *
 * Its turns come at random moments. The time between two is uniform from 0 to a longest one.
 */
#ifndef LABLINK_TURNS_H
#define LABLINK_TURNS_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdint.h>
typedef uint64_t u64;
typedef uint32_t u32;
#endif

struct turns {
	u64 longest_ns; /* up to 2^32 - 1; 0: it may always send */
	u64 next_ns;
};

/* The first turn at `t_ns` or later, which never goes back. `random` draws from all u32. */
static inline u64 next_turn(struct turns *turns, u64 t_ns, u32 (*random)(void *from), void *from)
{
	if (!turns->longest_ns)
		return t_ns;
	while (turns->next_ns < t_ns)
		turns->next_ns += 1 + ((turns->longest_ns * random(from)) >> 32);
	return turns->next_ns;
}

#endif
