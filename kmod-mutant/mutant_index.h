/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Indexes of flows by cookie: each network namespace has one of its own flows, and the initial
 * namespace has one of all flows. A request walks the index of its caller's namespace, so nobody
 * waits for the flows of others.
 */
#ifndef _MUTANT_INDEX_H
#define _MUTANT_INDEX_H

#include "mutant_core.h"

int mutant_index_add(struct mutant_flow *f);
void mutant_index_remove(struct mutant_flow *f);
struct mutant_flow *mutant_flow_by_cookie(u64 cookie);
struct mutant_flow *mutant_flow_next(const struct net *net, u64 *cookie);

#endif /* _MUTANT_INDEX_H */
