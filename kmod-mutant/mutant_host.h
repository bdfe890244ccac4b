/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Hosts, and the state that flows to them saved for the next (Careful Resume, mutant_resume.h).
 *
 * A host is a remote address as a local address of a network namespace sees it; never a prefix. It
 * is there while a flow that takes part goes to it, and afterwards while something is saved. Each
 * namespace keeps so many of the latter, and the one that was used longest ago goes first. A lock
 * of the namespace orders all of it: a flow takes it at its begin, its jump and its end.
 */
#ifndef _MUTANT_HOST_H
#define _MUTANT_HOST_H

#include <linux/list.h>
#include <linux/rhashtable-types.h>
#include <linux/spinlock.h>

#include "mutant_core.h"
#include "mutant_resume.h"

/* A namespace keeps this of its hosts. */
struct mutant_hosts {
	spinlock_t lock;		/* orders all of this, and the namespace's hosts */
	struct list_head idle;		/* hosts without a flow, the one used longest ago first */
	u32 idle_count;
};

struct mutant_jumper;

struct mutant_host_key {
	const struct net *net;
	u8 saddr[16];			/* network order; 4 bytes of it for AF_INET */
	u8 daddr[16];
	u64 family;			/* wide, for the key is hashed as bytes */
};

struct mutant_host {
	struct rhash_head node;
	struct mutant_host_key key;
	struct list_head flows;		/* struct mutant_jumper: those that take part */
	struct list_head idle;
	struct mutant_saved saved;
	const struct mutant_jumper *user;	/* the flow that jumps by saved state, or NULL */
	struct rcu_head rcu;
};

int mutant_hosts_init(void);
void mutant_hosts_exit(void);
void mutant_hosts_begin(struct mutant_hosts *hosts);
void mutant_hosts_forget(struct mutant_hosts *hosts);

bool mutant_host_join(const struct mutant_flow *f, struct mutant_jumper *j);
void mutant_host_leave(const struct mutant_flow *f, struct mutant_jumper *j);
u32 mutant_host_claim(const struct mutant_flow *f, const struct mutant_jumper *j, u32 rtt_us,
		      u32 *ssthresh);
void mutant_host_release(const struct mutant_flow *f, const struct mutant_jumper *j);
void mutant_host_unsave(const struct mutant_flow *f, const struct mutant_jumper *j);

#endif /* _MUTANT_HOST_H */
