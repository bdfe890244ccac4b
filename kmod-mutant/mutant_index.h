/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Indexes of flows by cookie: each network namespace has one of its own flows, and the initial
 * namespace has one of all flows. A request walks the index of its caller's namespace, so nobody
 * waits for the flows of others.
 *
 * A flow that has something to tell is marked in its indexes, so that a step visits what changed
 * and not what is there. Something to tell is a step that was opened since the last one was closed;
 * and the birth, for a flow is measured once somebody asks for its steps. The order makes sure that
 * no step stays untold: who opens a step marks the flow afterwards, and who closes a step takes the
 * mark away before. So a mark without a step may happen, and a step without a mark may not.
 */
#ifndef _MUTANT_INDEX_H
#define _MUTANT_INDEX_H

#include "mutant_core.h"

int mutant_index_add(struct mutant_flow *f);
void mutant_index_remove(struct mutant_flow *f);
void mutant_index_mark(const struct mutant_flow *f);
void mutant_index_unmark(const struct mutant_flow *f);
struct mutant_flow *mutant_flow_by_cookie(u64 cookie);
struct mutant_flow *mutant_flow_next(const struct net *net, u64 *cookie);
struct mutant_flow *mutant_flow_next_marked(const struct net *net, u64 *cookie);

#endif /* _MUTANT_INDEX_H */
