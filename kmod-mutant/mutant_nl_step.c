// SPDX-License-Identifier: GPL-2.0-only
/* The netlink request that closes steps and hands their records over. */
#include "mutant_index.h"
#include "mutant_nl.h"
#include "mutant_session.h"

/*
 * Append the records of as many flows as fit, from @cookie on; returns the cookie to go on with. A
 * step is closed only when there is room for its record.
 */
static u64 mutant_put_steps(struct sk_buff *skb, struct netlink_callback *cb, struct nlattr *attr,
			    u64 cookie)
{
	struct mutant_viewer viewer = { .may = mutant_steers };
	const struct net *net = sock_net(cb->skb->sk);
	u32 quarters = mutant_session_heard(net);
	struct mutant_record rec;
	struct mutant_flow *f;

	rcu_read_lock();
	for (; (f = mutant_flow_next_marked(net, &cookie)); cookie++) {
		if (skb_tailroom(skb) < sizeof(rec) ||
		    attr->nla_len + sizeof(rec) > U16_MAX)
			break;
		if (mutant_viewer_permits(&viewer, cb->skb, f) &&
		    mutant_flow_close(f, quarters, &rec)) {
			skb_put_data(skb, &rec, sizeof(rec));
			attr->nla_len += sizeof(rec);
		}
		mutant_viewer_pause(&viewer);
	}
	rcu_read_unlock();
	return cookie;
}

int mutant_nl_step_get_dumpit(struct sk_buff *skb, struct netlink_callback *cb)
{
	struct nlattr *attr;
	void *header;
	int err;

	err = mutant_session_check(cb->skb, cb->extack);
	if (err)
		return err;
	header = genlmsg_put(skb, NETLINK_CB(cb->skb).portid, cb->nlh->nlmsg_seq,
			     &mutant_nl_family, NLM_F_MULTI, MUTANT_CMD_STEP_GET);
	if (!header)
		return -EMSGSIZE;
	if (nla_put_u32(skb, MUTANT_A_STEP_RECORD_SIZE, sizeof(struct mutant_record)) ||
	    nla_put_u32(skb, MUTANT_A_STEP_RECORD_VERSION, MUTANT_RECORD_VERSION))
		goto cancel;
	attr = nla_reserve(skb, MUTANT_A_STEP_RECORDS, 0);
	if (!attr)
		goto cancel;
	cb->args[0] = mutant_put_steps(skb, cb, attr, cb->args[0]);
	if (!nla_len(attr)) {
		genlmsg_cancel(skb, header);
		return 0;
	}
	genlmsg_end(skb, header);
	return skb->len;

cancel:
	genlmsg_cancel(skb, header);
	return -EMSGSIZE;
}
