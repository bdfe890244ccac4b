// SPDX-License-Identifier: GPL-2.0-only
/* The indexes of flows; mutant_index.h explains the whole. */
#include "mutant_index.h"
#include "mutant_session.h"

#if BITS_PER_LONG < 64
#error "a socket cookie is the index of an xarray here, and needs 64 bits"
#endif

/* All flows. */
static DEFINE_XARRAY_FLAGS(mutant_flow_index, XA_FLAGS_LOCK_BH);

static struct xarray *mutant_index_of(const struct net *net)
{
	return net_eq(net, &init_net) ? &mutant_flow_index : &mutant_net_of(net)->flows;
}

static int mutant_index_insert(struct xarray *index, struct mutant_flow *f)
{
	return xa_insert_bh(index, f->cookie, f, GFP_ATOMIC | __GFP_NOWARN);
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

/* The flow of a cookie, or NULL. The caller is under RCU. */
struct mutant_flow *mutant_flow_by_cookie(u64 cookie)
{
	return xa_load(&mutant_flow_index, cookie);
}

/*
 * The flow with the lowest cookie from @cookie on in the index of @net; @cookie becomes that
 * flow's. The caller is under RCU.
 */
struct mutant_flow *mutant_flow_next(const struct net *net, u64 *cookie)
{
	unsigned long index = *cookie;
	struct mutant_flow *f = xa_find(mutant_index_of(net), &index, ULONG_MAX, XA_PRESENT);

	*cookie = index;
	return f;
}
