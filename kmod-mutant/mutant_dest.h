/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Destinations: how many measured flows of a namespace go to the same address. Such siblings share
 * bottlenecks, and whoever chooses their arms wants to know.
 */
#ifndef _MUTANT_DEST_H
#define _MUTANT_DEST_H

#include <linux/rhashtable-types.h>

#include "mutant_core.h"

struct mutant_dest_key {
	const struct net *net;
	u8 addr[16];			/* network order; 4 bytes of it for AF_INET */
	u64 family;			/* wide, for the key is hashed as bytes */
};

struct mutant_dest {
	struct rhash_head node;
	struct mutant_dest_key key;
	refcount_t flows;
	struct rcu_head rcu;
};

int mutant_dests_init(void);
void mutant_dests_exit(void);
struct mutant_dest *mutant_dest_get(const struct mutant_flow *f);
void mutant_dest_put(struct mutant_dest *dest);

/* Flows to this destination, the asking one among them; 0 where that is not known. */
static inline u32 mutant_dest_flows(const struct mutant_dest *dest)
{
	return dest ? refcount_read(&dest->flows) : 0;
}

#endif /* _MUTANT_DEST_H */
