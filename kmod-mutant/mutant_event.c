// SPDX-License-Identifier: GPL-2.0-only
/* A flow as netlink shows it, and the multicast of its birth, fallback and death. */
#include <linux/llist.h>
#include <linux/workqueue.h>
#include <net/net_namespace.h>
#include <net/sock.h>

#include "mutant_trace.h"

static unsigned int mutant_address_size(const struct mutant_flow *f)
{
	return f->family == AF_INET6 ? sizeof(struct in6_addr) : sizeof(struct in_addr);
}

/* Put everything that is known of a flow into @skb; -EMSGSIZE if it does not fit. */
int mutant_put_flow(struct sk_buff *skb, const struct mutant_flow *f,
		    const struct mutant_record *rec)
{
	if (nla_put_u64_64bit(skb, MUTANT_A_FLOW_COOKIE, f->cookie, MUTANT_A_FLOW_PAD) ||
	    nla_put_u64_64bit(skb, MUTANT_A_FLOW_NETNS, f->netns, MUTANT_A_FLOW_PAD) ||
	    nla_put_u16(skb, MUTANT_A_FLOW_FAMILY, f->family) ||
	    nla_put(skb, MUTANT_A_FLOW_SADDR, mutant_address_size(f), f->saddr) ||
	    nla_put(skb, MUTANT_A_FLOW_DADDR, mutant_address_size(f), f->daddr) ||
	    nla_put_u16(skb, MUTANT_A_FLOW_SPORT, f->sport) ||
	    nla_put_u16(skb, MUTANT_A_FLOW_DPORT, f->dport) ||
	    nla_put_u64_64bit(skb, MUTANT_A_FLOW_AGE_NS, rec->time_ns - f->born_ns,
			      MUTANT_A_FLOW_PAD) ||
	    nla_put_u32(skb, MUTANT_A_FLOW_REASON, READ_ONCE(f->reason)) ||
	    nla_put(skb, MUTANT_A_FLOW_RECORD, sizeof(*rec), rec))
		return -EMSGSIZE;
	return 0;
}

static void mutant_multicast(struct net *net, struct mutant_flow *f, u8 cmd,
			     const struct mutant_record *rec)
{
	struct sk_buff *skb;
	void *header;

	if (!genl_has_listeners(&mutant_nl_family, net, MUTANT_NLGRP_EVENTS))
		return;
	skb = genlmsg_new(NLMSG_DEFAULT_SIZE, GFP_ATOMIC | __GFP_NOWARN);
	if (!skb)
		return;
	header = genlmsg_put(skb, 0, 0, &mutant_nl_family, 0, cmd);
	if (!header || mutant_put_flow(skb, f, rec)) {
		nlmsg_free(skb);
		return;
	}
	genlmsg_end(skb, header);
	/* An event that nobody got is no error: flow-get shows how things stand. */
	genlmsg_multicast_netns(&mutant_nl_family, net, skb, 0, MUTANT_NLGRP_EVENTS, GFP_ATOMIC);
}

static void mutant_tell(struct mutant_flow *f, u8 cmd, const struct mutant_record *rec)
{
	mutant_multicast(f->net, f, cmd, rec);
	if (!net_eq(f->net, &init_net))
		mutant_multicast(&init_net, f, cmd, rec);
}

/* Flows with events that nobody has been told of, the youngest first. */
static LLIST_HEAD(mutant_told);

static void mutant_events_work(struct work_struct *work)
{
	struct llist_node *node = llist_reverse_order(llist_del_all(&mutant_told));
	struct mutant_flow *f, *next;
	struct mutant_record rec;
	struct net *net;
	int events;

	llist_for_each_entry_safe(f, next, node, told) {
		rcu_read_lock();
		net = f->net;
		/* From here on the flow may come into the list anew, or end and be freed. */
		events = atomic_xchg(&f->events, 0);
		mutant_flow_peek(f, &rec);
		if (events & MUTANT_EVENT_BIRTH)
			mutant_tell(f, MUTANT_CMD_FLOW_BIRTH, &rec);
		if (events & MUTANT_EVENT_FALLBACK)
			mutant_tell(f, MUTANT_CMD_FLOW_FALLBACK, &rec);
		if (events & MUTANT_EVENT_DEATH)
			mutant_tell(f, MUTANT_CMD_FLOW_DEATH, &rec);
		if (events & MUTANT_EVENT_END)
			mutant_flow_free_soon(f);
		rcu_read_unlock();
		put_net(net);
		cond_resched();
	}
}

static DECLARE_WORK(mutant_events_job, mutant_events_work);

static bool mutant_listeners(const struct mutant_flow *f)
{
	return genl_has_listeners(&mutant_nl_family, f->net, MUTANT_NLGRP_EVENTS) ||
	       genl_has_listeners(&mutant_nl_family, &init_net, MUTANT_NLGRP_EVENTS);
}

/*
 * Something has happened to a flow: tell the listeners in its namespace, and those in the initial
 * one, where the daemon of the whole machine runs. That takes a while, so it is done later, outside
 * of the lock of the flow's socket, which the caller holds. @event: enum mutant_event_bits.
 */
void mutant_event(struct mutant_flow *f, int event)
{
	bool end = event & MUTANT_EVENT_END;

	if (event & MUTANT_EVENT_FALLBACK)
		trace_mutant_fallback(f);
	if (!mutant_listeners(f))
		event &= MUTANT_EVENT_END;
	/* Already in the list: the work takes the new events along, and frees the flow. */
	if (!event || atomic_fetch_or(event, &f->events))
		return;
	/* A namespace that is being torn down has nobody left to tell. */
	if (event != MUTANT_EVENT_END && maybe_get_net(f->net)) {
		llist_add(&f->told, &mutant_told);
		schedule_work(&mutant_events_job);
	} else if (end) {
		mutant_flow_free_soon(f);
	} else {
		atomic_set(&f->events, 0);
	}
}

/* No flow is left: tell the rest. */
void mutant_events_flush(void)
{
	flush_work(&mutant_events_job);
}
