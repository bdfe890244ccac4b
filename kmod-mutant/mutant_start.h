/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Starting arms: most connections end before any daemon can act, so a flow begins on the arm that
 * its destination's prefix has in a table. Each network namespace has its own, filled by its
 * session; the longest prefix wins. Without a live session that wants it the table is ignored, as
 * is an entry past its lifetime. One look-up a flow, none on later ACKs.
 *
 * Flows look into one hash table of all entries, by namespace, prefix length and masked address.
 * What changes and lists entries is a namespace's own: a mutex, a list of its entries by number,
 * and their count by length, so that only lengths that occur are looked up.
 */
#ifndef _MUTANT_START_H
#define _MUTANT_START_H

#include <linux/bitmap.h>
#include <linux/mutex.h>
#include <linux/types.h>
#include <linux/xarray.h>

struct net;
struct sk_buff;
struct sock;

/* What a namespace keeps of its entries. */
struct mutant_starts {
	struct mutex mutex;		/* orders those who change and list the entries */
	struct xarray list;		/* entries by number */
	u32 next;			/* number, of the next entry */
	bool wanted;			/* the live session wants flows to start by the table */
	u32 entries;
	u32 count4[33];			/* entries by prefix length */
	u32 count6[129];
	DECLARE_BITMAP(lengths4, 33);	/* lengths that occur */
	DECLARE_BITMAP(lengths6, 129);
};

void mutant_starts_begin(struct mutant_starts *starts);
int mutant_starts_init(void);
void mutant_starts_exit(void);
void mutant_starts_forget(struct mutant_starts *starts);
u8 mutant_starting_arm(const struct sock *sk);

#endif /* _MUTANT_START_H */
