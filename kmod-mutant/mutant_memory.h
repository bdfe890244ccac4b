/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The memory of flows: objects of a few kinds, each with a slab cache of its own. They are
 * allocated wherever an ACK or a request needs one, so without waiting; whoever needs one goes on
 * without it if there is no memory. Memory that a process allocates, in a system call, is charged
 * to its memory cgroup; a softirq's is charged to nobody, and `flows_max` bounds it.
 */
#ifndef _MUTANT_MEMORY_H
#define _MUTANT_MEMORY_H

enum mutant_part {
	MUTANT_PART_FLOW,
	MUTANT_PART_MEASURES,
	MUTANT_PART_PAST,
	MUTANT_PART_SLOT,
	MUTANT_PART_LEARNED,
	MUTANT_PART_DEST,
	MUTANT_PART_HOST,
	MUTANT_PART_JUMPER,
	MUTANT_PARTS
};

int mutant_memory_init(void);
void mutant_memory_exit(void);
void *mutant_part_new(enum mutant_part part);
void mutant_part_free(enum mutant_part part, void *object);

#endif /* _MUTANT_MEMORY_H */
