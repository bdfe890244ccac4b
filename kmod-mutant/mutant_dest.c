// SPDX-License-Identifier: GPL-2.0-only
/* The table of destinations; mutant_dest.h explains the whole. */
#include <linux/rhashtable.h>

#include "mutant_dest.h"
#include "mutant_memory.h"

static struct rhashtable mutant_dest_table;

static const struct rhashtable_params mutant_dest_params = {
	.key_len = sizeof(struct mutant_dest_key),
	.key_offset = offsetof(struct mutant_dest, key),
	.head_offset = offsetof(struct mutant_dest, node),
	.automatic_shrinking = true,
};

static void mutant_dest_free(struct rcu_head *rcu)
{
	mutant_part_free(MUTANT_PART_DEST, container_of(rcu, struct mutant_dest, rcu));
}

/* The destination of a flow, which counts as one of its flows from now on; NULL without memory. */
struct mutant_dest *mutant_dest_get(const struct mutant_flow *f)
{
	struct mutant_dest_key key = { .net = f->net, .family = f->family };
	struct mutant_dest *dest, *made;

	memcpy(key.addr, f->daddr, sizeof(key.addr));
	rcu_read_lock();
	dest = rhashtable_lookup(&mutant_dest_table, &key, mutant_dest_params);
	if (dest && refcount_inc_not_zero(&dest->flows))
		goto out;
	dest = NULL;
	made = mutant_part_new(MUTANT_PART_DEST);
	if (!made)
		goto out;
	made->key = key;
	refcount_set(&made->flows, 1);
	dest = rhashtable_lookup_get_insert_fast(&mutant_dest_table, &made->node,
						 mutant_dest_params);
	if (!dest) {
		dest = made;
		goto out;
	}
	mutant_part_free(MUTANT_PART_DEST, made);
	/* Another flow was faster; or the last one is about to leave, and the next will count. */
	if (IS_ERR(dest) || !refcount_inc_not_zero(&dest->flows))
		dest = NULL;
out:
	rcu_read_unlock();
	return dest;
}

void mutant_dest_put(struct mutant_dest *dest)
{
	if (!dest || !refcount_dec_and_test(&dest->flows))
		return;
	rhashtable_remove_fast(&mutant_dest_table, &dest->node, mutant_dest_params);
	call_rcu(&dest->rcu, mutant_dest_free);
}

int mutant_dests_init(void)
{
	return rhashtable_init(&mutant_dest_table, &mutant_dest_params);
}

void mutant_dests_exit(void)
{
	rhashtable_destroy(&mutant_dest_table);
}
