// SPDX-License-Identifier: GPL-2.0-only
/* The slab caches; mutant_memory.h explains the whole. */
#include <linux/slab.h>

#include "mutant_core.h"
#include "mutant_dest.h"
#include "mutant_jump.h"
#include "mutant_memory.h"

static struct kmem_cache *mutant_caches[MUTANT_PARTS];

static const struct {
	const char *name;
	unsigned int size;		/* bytes */
} mutant_parts[MUTANT_PARTS] = {
	[MUTANT_PART_FLOW] = { "mutant_flow", sizeof(struct mutant_flow) },
	[MUTANT_PART_MEASURES] = { "mutant_measures", sizeof(struct mutant_measures) },
	[MUTANT_PART_PAST] = { "mutant_past", sizeof(struct mutant_past) },
	[MUTANT_PART_SLOT] = { "mutant_slot", sizeof(struct mutant_slot) },
	[MUTANT_PART_LEARNED] = { "mutant_learned", sizeof(struct mutant_learned) },
	[MUTANT_PART_DEST] = { "mutant_dest", sizeof(struct mutant_dest) },
	[MUTANT_PART_HOST] = { "mutant_host", sizeof(struct mutant_host) },
	[MUTANT_PART_JUMPER] = { "mutant_jumper", sizeof(struct mutant_jumper) },
};

/* A zeroed object, or NULL. */
void *mutant_part_new(enum mutant_part part)
{
	return kmem_cache_zalloc(mutant_caches[part], GFP_ATOMIC | __GFP_NOWARN);
}

void mutant_part_free(enum mutant_part part, void *object)
{
	kmem_cache_free(mutant_caches[part], object);
}

int mutant_memory_init(void)
{
	unsigned int i;

	for (i = 0; i < MUTANT_PARTS; i++) {
		mutant_caches[i] = kmem_cache_create(mutant_parts[i].name, mutant_parts[i].size, 0,
						     SLAB_HWCACHE_ALIGN | SLAB_ACCOUNT, NULL);
		if (!mutant_caches[i]) {
			mutant_memory_exit();
			return -ENOMEM;
		}
	}
	return 0;
}

/* A cache that was never made is NULL, and left alone. */
void mutant_memory_exit(void)
{
	unsigned int i;

	for (i = 0; i < MUTANT_PARTS; i++)
		kmem_cache_destroy(mutant_caches[i]);
}
