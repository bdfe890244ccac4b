// SPDX-License-Identifier: GPL-2.0-only
/* A flow as netlink shows it, and the multicast of its birth, fallback and death. */
#include <net/net_namespace.h>
#include <net/sock.h>

#include "mutant_core.h"

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

/*
 * Tell the listeners in the flow's namespace, and those in the initial one, where the daemon of
 * the whole machine runs. Under the lock of the flow's socket.
 */
void mutant_event(struct mutant_flow *f, u8 cmd)
{
	struct mutant_record rec;

	if (!genl_has_listeners(&mutant_nl_family, f->net, MUTANT_NLGRP_EVENTS) &&
	    !genl_has_listeners(&mutant_nl_family, &init_net, MUTANT_NLGRP_EVENTS))
		return;
	mutant_flow_own_record(f, &rec);
	mutant_multicast(f->net, f, cmd, &rec);
	if (!net_eq(f->net, &init_net))
		mutant_multicast(&init_net, f, cmd, &rec);
}
