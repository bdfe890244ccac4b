// SPDX-License-Identifier: GPL-2.0-only
/* Netlink requests that look at flows. */
#include "mutant_index.h"
#include "mutant_nl.h"
#include "mutant_session.h"

int mutant_nl_flow_get_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct mutant_record rec;
	struct mutant_flow *f;
	struct sk_buff *msg;
	int err = -ENOENT;
	void *header;

	if (GENL_REQ_ATTR_CHECK(info, MUTANT_A_FLOW_COOKIE)) {
		GENL_SET_ERR_MSG(info, "cookie is missing");
		return -EINVAL;
	}
	msg = mutant_reply_new(info, MUTANT_CMD_FLOW_GET, &header);
	if (!msg)
		return -ENOMEM;
	rcu_read_lock();
	f = mutant_flow_by_cookie(nla_get_u64(info->attrs[MUTANT_A_FLOW_COOKIE]));
	if (f && mutant_may_see(skb, f)) {
		mutant_flow_peek(f, &rec);
		err = mutant_put_flow(msg, f, &rec);
	}
	rcu_read_unlock();
	if (err == -ENOENT)
		NL_SET_ERR_MSG_ATTR(info->extack, info->attrs[MUTANT_A_FLOW_COOKIE],
				    "no flow has this cookie");
	return mutant_reply_send(msg, header, err, info);
}

int mutant_nl_flow_get_dumpit(struct sk_buff *skb, struct netlink_callback *cb)
{
	struct mutant_viewer viewer = { .may = mutant_may_see };
	const struct net *net = sock_net(cb->skb->sk);
	struct mutant_record rec;
	struct mutant_flow *f;
	u64 cookie;
	void *header;

	rcu_read_lock();
	for (cookie = cb->args[0]; (f = mutant_flow_next(net, &cookie)); cookie++) {
		if (!mutant_viewer_permits(&viewer, cb->skb, f))
			goto next;
		header = genlmsg_put(skb, NETLINK_CB(cb->skb).portid, cb->nlh->nlmsg_seq,
				     &mutant_nl_family, NLM_F_MULTI, MUTANT_CMD_FLOW_GET);
		if (!header)
			break;
		mutant_flow_peek(f, &rec);
		if (mutant_put_flow(skb, f, &rec)) {
			genlmsg_cancel(skb, header);
			break;
		}
		genlmsg_end(skb, header);
next:
		mutant_viewer_pause(&viewer);
	}
	rcu_read_unlock();
	cb->args[0] = cookie;
	return skb->len;
}
