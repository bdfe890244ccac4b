// SPDX-License-Identifier: GPL-2.0-only
/* The indexes of flows; mutant_index.h explains the whole. */
#include "mutant_index.h"
#include "mutant_session.h"

#if BITS_PER_LONG < 64
#error "a socket cookie is the index of an xarray here, and needs 64 bits"
#endif

#define MUTANT_TO_TELL	XA_MARK_1

/* All flows. */
static DEFINE_XARRAY_FLAGS(mutant_flow_index, XA_FLAGS_LOCK_BH);

static struct xarray *mutant_index_of(const struct net *net)
{
	return net_eq(net, &init_net) ? &mutant_flow_index : mutant_net_flows(net);
}

static int mutant_index_insert(struct xarray *index, struct mutant_flow *f)
{
	int err;

	xa_lock_bh(index);
	err = __xa_insert(index, f->cookie, f, GFP_ATOMIC | __GFP_NOWARN);
	if (!err)
		__xa_set_mark(index, f->cookie, MUTANT_TO_TELL);
	xa_unlock_bh(index);
	return err;
}

/* A flow is born. From here on it may be found. */
int mutant_index_add(struct mutant_flow *f)
{
	struct xarray *own = mutant_index_of(f->net);
	int err = mutant_index_insert(own, f);

	if (err || own == &mutant_flow_index)
		return err;
	err = mutant_index_insert(&mutant_flow_index, f);
	if (err)
		xa_erase_bh(own, f->cookie);
	return err;
}

void mutant_index_remove(struct mutant_flow *f)
{
	struct xarray *own = mutant_index_of(f->net);

	xa_erase_bh(own, f->cookie);
	if (own != &mutant_flow_index)
		xa_erase_bh(&mutant_flow_index, f->cookie);
}

static void mutant_index_set(struct xarray *index, u64 cookie, bool to_tell)
{
	xa_lock_bh(index);
	if (to_tell)
		__xa_set_mark(index, cookie, MUTANT_TO_TELL);
	else
		__xa_clear_mark(index, cookie, MUTANT_TO_TELL);
	xa_unlock_bh(index);
}

static void mutant_index_set_all(const struct mutant_flow *f, bool to_tell)
{
	struct xarray *own = mutant_index_of(f->net);

	mutant_index_set(own, f->cookie, to_tell);
	if (own != &mutant_flow_index)
		mutant_index_set(&mutant_flow_index, f->cookie, to_tell);
}

/* A step of the flow has been opened. */
void mutant_index_mark(const struct mutant_flow *f)
{
	mutant_index_set_all(f, true);
}

/* The flow's step is about to be closed. */
void mutant_index_unmark(const struct mutant_flow *f)
{
	mutant_index_set_all(f, false);
}

/* Under RCU. */
struct mutant_flow *mutant_flow_by_cookie(u64 cookie)
{
	return xa_load(&mutant_flow_index, cookie);
}

static struct mutant_flow *mutant_index_next(const struct net *net, u64 *cookie, xa_mark_t filter)
{
	unsigned long index = *cookie;
	struct mutant_flow *f = xa_find(mutant_index_of(net), &index, ULONG_MAX, filter);

	*cookie = index;
	return f;
}

/*
 * The flow with the lowest cookie from @cookie on, which becomes that flow's, of those in the index
 * of @net. Under RCU.
 */
struct mutant_flow *mutant_flow_next(const struct net *net, u64 *cookie)
{
	return mutant_index_next(net, cookie, XA_PRESENT);
}

/* The same of those that have something to tell. */
struct mutant_flow *mutant_flow_next_marked(const struct net *net, u64 *cookie)
{
	return mutant_index_next(net, cookie, MUTANT_TO_TELL);
}
