// SPDX-License-Identifier: GPL-2.0-only
/* The netlink request that closes steps and hands their records over. */
#include "mutant_nl.h"
#include "mutant_queue.h"
#include "mutant_session.h"

/* Flows taken out of a queue at a time, so that its lock is taken once for all of them. */
#define FLOWS_AT_A_TIME	16

/* How many more records fit. */
static unsigned int mutant_steps_room(const struct sk_buff *skb, const struct nlattr *attr)
{
	return min_t(unsigned int, skb_tailroom(skb), U16_MAX - attr->nla_len) /
	       sizeof(struct mutant_record);
}

/*
 * Append the records of as many flows as fit, from the queue @number on; returns the queue to go on
 * with. A step is closed only when there is room for its record.
 */
static unsigned int mutant_put_steps(struct sk_buff *skb, struct netlink_callback *cb,
				     struct nlattr *attr, unsigned int number)
{
	struct mutant_viewer viewer = { .may = mutant_steers };
	const struct net *net = sock_net(cb->skb->sk);
	u32 quarters = mutant_session_heard(net);
	struct mutant_flow *flows[FLOWS_AT_A_TIME];
	struct mutant_queue *queue;
	struct mutant_record rec;
	unsigned int i, n, room;

	rcu_read_lock();
	queue = mutant_queue_next(net, &number);
	while (queue) {
		room = mutant_steps_room(skb, attr);
		if (!room)
			break;
		n = mutant_queue_take(queue, flows, min_t(unsigned int, room, FLOWS_AT_A_TIME));
		for (i = 0; i < n; i++) {
			if (!mutant_viewer_permits(&viewer, cb->skb, flows[i])) {
				mutant_queue_change(flows[i]);
			} else if (mutant_flow_close(flows[i], quarters, &rec)) {
				skb_put_data(skb, &rec, sizeof(rec));
				attr->nla_len += sizeof(rec);
			}
		}
		mutant_viewer_pause(&viewer);
		if (!n) {
			number++;
			queue = mutant_queue_next(net, &number);
		}
	}
	rcu_read_unlock();
	return number;
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
	if (!cb->args[1])
		mutant_queues_begin(sock_net(cb->skb->sk));
	cb->args[1] = true;
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
