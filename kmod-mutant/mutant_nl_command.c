// SPDX-License-Identifier: GPL-2.0-only
/* Netlink requests that give flows their arms: batches of commands, pins. */
#include "mutant_index.h"
#include "mutant_nl.h"
#include "mutant_session.h"

enum mutant_verdict { APPLIED, UNKNOWN, REFUSED, VERDICTS };

static enum mutant_verdict mutant_nl_command(struct sk_buff *skb, const struct mutant_command *cmd)
{
	enum mutant_verdict verdict = REFUSED;
	struct mutant_flow *f;

	f = mutant_flow_by_cookie(cmd->cookie);
	if (!f || !mutant_steers(skb, f))
		return UNKNOWN;
	spin_lock_bh(&f->lock);
	WRITE_ONCE(f->heard, tcp_jiffies32);
	WRITE_ONCE(f->abandoned, false);
	if (!(f->flags & MUTANT_FLOW_FLAGS_PINNED) && mutant_arm_available(cmd->arm) &&
	    !(READ_ONCE(f->refused) & BIT(cmd->arm))) {
		WRITE_ONCE(f->want, cmd->arm);
		f->handover = cmd->handover;
		f->restore = cmd->restore;
		WRITE_ONCE(f->pulse, cmd->pulse);
		WRITE_ONCE(f->flags, (f->flags & ~MUTANT_FLOW_FLAGS_FALLEN_BACK) |
			   MUTANT_FLOW_FLAGS_STEERED);
		verdict = APPLIED;
	}
	spin_unlock_bh(&f->lock);
	return verdict;
}

int mutant_nl_select_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct nlattr *attr = info->attrs[MUTANT_A_COMMAND_COMMANDS];
	u32 count[VERDICTS] = {};
	const struct mutant_command *commands;
	struct mutant_command cmd;
	struct sk_buff *msg;
	void *header;
	int i, n, err;

	err = mutant_session_check(skb, info->extack);
	if (err)
		return err;
	n = mutant_batch_count(info, attr, sizeof(cmd));
	if (n < 0)
		return n;
	commands = nla_data(attr);
	/* A message that is itself wrong changes nothing. */
	for (i = 0; i < n; i++) {
		memcpy(&cmd, &commands[i], sizeof(cmd));
		if (cmd.reserved) {
			NL_SET_ERR_MSG_ATTR(info->extack, attr, "reserved must be 0");
			return -EINVAL;
		}
		if (cmd.pulse > MUTANT_PULSE_KIND_FILL) {
			NL_SET_ERR_MSG_ATTR(info->extack, attr, "no such kind of pulse");
			return -EINVAL;
		}
		if (cmd.handover > MUTANT_HANDOVER_MODE_DRAIN ||
		    cmd.restore > MUTANT_RESTORE_MODE_REINIT + 1) {
			NL_SET_ERR_MSG_ATTR(info->extack, attr, "no such handover or restore mode");
			return -EINVAL;
		}
	}
	msg = mutant_reply_new(info, MUTANT_CMD_SELECT, &header);
	if (!msg)
		return -ENOMEM;
	rcu_read_lock();
	for (i = 0; i < n; i++) {
		/* An attribute is aligned to 4 bytes only. */
		memcpy(&cmd, &commands[i], sizeof(cmd));
		count[mutant_nl_command(skb, &cmd)]++;
	}
	rcu_read_unlock();
	err = nla_put_u32(msg, MUTANT_A_COMMAND_APPLIED, count[APPLIED]) ?:
	      nla_put_u32(msg, MUTANT_A_COMMAND_UNKNOWN, count[UNKNOWN]) ?:
	      nla_put_u32(msg, MUTANT_A_COMMAND_REFUSED, count[REFUSED]);
	return mutant_reply_send(msg, header, err, info);
}

/* The flow of a pin or unpin, under RCU; else an error, with its text. */
static struct mutant_flow *mutant_nl_flow_to_change(struct sk_buff *skb, struct genl_info *info)
{
	struct nlattr *attr = info->attrs[MUTANT_A_PIN_COOKIE];
	struct mutant_flow *f = mutant_flow_by_cookie(nla_get_u64(attr));

	if (!f || !mutant_may_see(skb, f)) {
		NL_SET_ERR_MSG_ATTR(info->extack, attr, "no flow has this cookie");
		return ERR_PTR(-ENOENT);
	}
	if (!mutant_may_change(skb, f)) {
		NL_SET_ERR_MSG_ATTR(info->extack, attr,
				    "needs CAP_NET_ADMIN in the flow's user namespace, from its network namespace or the initial one");
		return ERR_PTR(-EPERM);
	}
	return f;
}

int mutant_nl_pin_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct nlattr *attr = info->attrs[MUTANT_A_PIN_ARM];
	struct nlattr *handover = info->attrs[MUTANT_A_PIN_HANDOVER];
	struct nlattr *restore = info->attrs[MUTANT_A_PIN_RESTORE];
	struct mutant_flow *f;
	int err = 0;
	u32 arm;

	if (GENL_REQ_ATTR_CHECK(info, MUTANT_A_PIN_COOKIE) ||
	    GENL_REQ_ATTR_CHECK(info, MUTANT_A_PIN_ARM)) {
		GENL_SET_ERR_MSG(info, "cookie or arm is missing");
		return -EINVAL;
	}
	arm = nla_get_u32(attr);
	if (!mutant_arm_retry(arm)) {
		NL_SET_ERR_MSG_ATTR(info->extack, attr, "arm is not available");
		return -EOPNOTSUPP;
	}
	rcu_read_lock();
	f = mutant_nl_flow_to_change(skb, info);
	if (IS_ERR(f)) {
		err = PTR_ERR(f);
		goto out;
	}
	spin_lock_bh(&f->lock);
	if (READ_ONCE(f->refused) & BIT(arm)) {
		NL_SET_ERR_MSG_ATTR(info->extack, attr, "arm has refused this flow");
		err = -EOPNOTSUPP;
	} else {
		WRITE_ONCE(f->want, arm);
		f->handover = handover ? nla_get_u32(handover) : MUTANT_HANDOVER_MODE_CONFIGURED;
		f->restore = restore ? nla_get_u32(restore) : 0;
		WRITE_ONCE(f->flags, (f->flags & ~MUTANT_FLOW_FLAGS_FALLEN_BACK) |
			   MUTANT_FLOW_FLAGS_PINNED);
	}
	spin_unlock_bh(&f->lock);
out:
	rcu_read_unlock();
	return err;
}

int mutant_nl_unpin_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct mutant_flow *f;
	int err = 0;

	if (GENL_REQ_ATTR_CHECK(info, MUTANT_A_PIN_COOKIE)) {
		GENL_SET_ERR_MSG(info, "cookie is missing");
		return -EINVAL;
	}
	rcu_read_lock();
	f = mutant_nl_flow_to_change(skb, info);
	if (IS_ERR(f)) {
		err = PTR_ERR(f);
		goto out;
	}
	spin_lock_bh(&f->lock);
	/* The watchdog did not watch a pinned flow: it starts to wait now. */
	WRITE_ONCE(f->heard, tcp_jiffies32);
	WRITE_ONCE(f->flags, f->flags & ~MUTANT_FLOW_FLAGS_PINNED);
	spin_unlock_bh(&f->lock);
out:
	rcu_read_unlock();
	return err;
}
