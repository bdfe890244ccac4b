/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The controls of the learned arms: which may be sent, and how a flow keeps one.
 *
 * A control is kept by whoever answers a netlink request, one at a time. The flow's ACKs take it,
 * and wait for nobody: a latch holds the setting twice. An ACK that comes while one copy is being
 * written reads the other. Pure logic, tested on the host with both sides at once.
 */
#ifndef _MUTANT_CONTROL_H
#define _MUTANT_CONTROL_H

#ifdef __KERNEL__
#include <linux/compiler.h>
#include <linux/kernel.h>
#include <linux/seqlock.h>
#include <linux/types.h>

#include <uapi/linux/mutant.h>

#include "compat.h"
#else
#include "kernel.h"
#endif

#define MUTANT_ONE		MUTANT_CONTROL_ONE
#define MUTANT_WINDOW_MIN	2	/* packets */
#define MUTANT_WINDOW_START	10	/* packets, of a new connection (RFC 6928) */
/* The kernel takes no window from 2^31 on, and pacing multiplies it by rates in 64 bits. */
#define MUTANT_WINDOW_MAX	0x400000U

/* The parameters of a law, and the time since which they hold. */
struct mutant_setting {
	u32 law;			/* enum mutant_control_law */
	u32 since;			/* jiffies */
	u32 value[MUTANT_CONTROL_VALUES];
};

/* The last control of one arm of a flow. */
struct mutant_kept {
	seqcount_latch_t latch;		/* twice the number of controls so far; odd in between */
	struct mutant_setting setting[2];
};

/* How many controls there have been, modulo 2^31. Its writers may ask. */
static inline u32 mutant_kept_number(const struct mutant_kept *kept)
{
	return raw_read_seqcount_latch(&kept->latch) >> 1;
}

bool mutant_control_fits(u32 arm, u32 law, const u32 *value);
u32 mutant_control_window(u32 wanted, u32 low, u32 high, u32 clamp);
void mutant_control_keep(struct mutant_kept *kept, const struct mutant_setting *setting);
bool mutant_control_take(const struct mutant_kept *kept, u32 *number,
			 struct mutant_setting *setting);

#endif /* _MUTANT_CONTROL_H */
