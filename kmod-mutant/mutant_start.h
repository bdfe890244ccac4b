/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Starting arms: most connections end before any daemon can act. So a table has arms for
 * destination prefixes, and a flow begins on the arm that its prefix's visit drew by lot (see
 * mutant_visit.h). Each network namespace has its own table, filled by its session; the longest
 * prefix wins. Without a live session that wants it the table is ignored, as is an entry past its
 * lifetime. One look-up a flow, none on later ACKs.
 *
 * Flows look into one hash table of all entries, by namespace, prefix length and masked address. To
 * change and list entries a namespace has its own mutex, a list of its entries by number, and their
 * count by length, so that only lengths that occur are looked up. An entry that is set anew keeps
 * its visits, and lives as long as the table or a flow of one of its visits has it.
 */
#ifndef _MUTANT_START_H
#define _MUTANT_START_H

#include <linux/bitmap.h>
#include <linux/mutex.h>
#include <linux/types.h>
#include <linux/xarray.h>

#include <uapi/linux/mutant.h>

struct mutant_flow;
struct mutant_start_entry;
struct net;
struct sk_buff;
struct sock;

/* A namespace keeps this of its entries. */
struct mutant_starts {
	struct mutex mutex;		/* orders those who change and list the entries */
	struct xarray list;		/* entries by number */
	u32 next;			/* number of the next entry */
	bool wanted;			/* the live session wants flows to start by the table */
	u64 seed;			/* seed of the lots */
	u32 entries;
	u32 count4[33];			/* entries by prefix length */
	u32 count6[129];
	DECLARE_BITMAP(lengths4, 33);	/* lengths that occur */
	DECLARE_BITMAP(lengths6, 129);
};

/* The lot that a visit has drawn, as a flow of it takes it. */
struct mutant_draw {
	struct mutant_start_entry *entry;	/* the prefix's entry, or NULL */
	struct mutant_start_arm choice;
	u32 visit;			/* number of the visit */
	u32 generation;			/* generation of the weights */
	u16 weights;			/* sum of the weights */
};

void mutant_starts_begin(struct mutant_starts *starts);
int mutant_starts_init(void);
void mutant_starts_exit(void);
void mutant_starts_forget(struct mutant_starts *starts);
u8 mutant_start_draw(const struct sock *sk, struct mutant_draw *draw);
void mutant_start_take(struct sock *sk, struct mutant_flow *f, const struct mutant_draw *draw);
void mutant_start_leave(struct mutant_start_entry *entry);

#endif /* _MUTANT_START_H */
