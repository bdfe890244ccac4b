// SPDX-License-Identifier: GPL-2.0-only
/*
 * The netlink family's requests that concern arms and settings, as mutant.yaml describes them, and
 * the code for all requests. Flows, steps, commands and controls have files of their own.
 *
 * Requests run in parallel: they read under RCU. Commands, and requests that close or read a flow's
 * steps, take the flow's own lock. Arms have a mutex of their own.
 */
#include "mutant_jump.h"
#include "mutant_nl.h"
#include "mutant_session.h"

/* A reply to a request, begun; NULL without memory. */
struct sk_buff *mutant_reply_new(struct genl_info *info, u8 cmd, void **header)
{
	struct sk_buff *msg = genlmsg_new(NLMSG_DEFAULT_SIZE, GFP_KERNEL);

	if (!msg)
		return NULL;
	*header = genlmsg_put_reply(msg, info, &mutant_nl_family, 0, cmd);
	return msg;
}

/* Send a reply, or only the error if there is one. */
int mutant_reply_send(struct sk_buff *msg, void *header, int err, struct genl_info *info)
{
	if (err) {
		nlmsg_free(msg);
		return err;
	}
	genlmsg_end(msg, header);
	return genlmsg_reply(msg, info);
}

/* How many records of @size bytes a batch holds; an error, with its text, if it is none. */
int mutant_batch_count(struct genl_info *info, const struct nlattr *attr, size_t size)
{
	if (!attr) {
		GENL_SET_ERR_MSG(info, "the batch is missing");
		return -EINVAL;
	}
	if (!nla_len(attr) || nla_len(attr) % size) {
		NL_SET_ERR_MSG_ATTR(info->extack, attr, "not a whole number of records");
		return -EINVAL;
	}
	return nla_len(attr) / size;
}

/* Arms */

static int mutant_put_arm(struct sk_buff *skb, const struct mutant_arm *arm)
{
	const char *reason = READ_ONCE(arm->reason);

	if (nla_put_u32(skb, MUTANT_A_ARM_ID, arm->id) ||
	    nla_put_string(skb, MUTANT_A_ARM_NAME, arm->name) ||
	    nla_put_u32(skb, MUTANT_A_ARM_STATE, READ_ONCE(arm->state)) ||
	    nla_put_u32(skb, MUTANT_A_ARM_KIND, arm->kind) ||
	    (reason && nla_put_string(skb, MUTANT_A_ARM_REASON, reason)))
		return -EMSGSIZE;
	return 0;
}

static int mutant_reply_arm(struct genl_info *info, u8 cmd, const struct mutant_arm *arm)
{
	void *header;
	struct sk_buff *msg = mutant_reply_new(info, cmd, &header);

	if (!msg)
		return -ENOMEM;
	return mutant_reply_send(msg, header, mutant_put_arm(msg, arm), info);
}

int mutant_nl_arm_get_doit(struct sk_buff *skb, struct genl_info *info)
{
	u32 id;

	if (GENL_REQ_ATTR_CHECK(info, MUTANT_A_ARM_ID)) {
		GENL_SET_ERR_MSG(info, "id is missing");
		return -EINVAL;
	}
	id = nla_get_u32(info->attrs[MUTANT_A_ARM_ID]);
	if (!mutant_arms[id].name[0]) {
		NL_SET_ERR_MSG_ATTR(info->extack, info->attrs[MUTANT_A_ARM_ID],
				    "no arm has this id");
		return -ENOENT;
	}
	return mutant_reply_arm(info, MUTANT_CMD_ARM_GET, &mutant_arms[id]);
}

int mutant_nl_arm_get_dumpit(struct sk_buff *skb, struct netlink_callback *cb)
{
	void *header;
	u8 id;

	for (id = cb->args[0] + 1; id <= MUTANT_ARMS_MAX; id++) {
		if (!mutant_arms[id].name[0])
			continue;
		header = genlmsg_put(skb, NETLINK_CB(cb->skb).portid, cb->nlh->nlmsg_seq,
				     &mutant_nl_family, NLM_F_MULTI, MUTANT_CMD_ARM_GET);
		if (!header)
			break;
		if (mutant_put_arm(skb, &mutant_arms[id])) {
			genlmsg_cancel(skb, header);
			break;
		}
		genlmsg_end(skb, header);
	}
	cb->args[0] = id - 1;
	return skb->len;
}

int mutant_nl_arm_load_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct mutant_arm arm;
	int err;

	if (!mutant_in_initial_namespaces(skb)) {
		GENL_SET_ERR_MSG(info, "arms are loaded from the initial network namespace alone");
		return -EPERM;
	}
	if (GENL_REQ_ATTR_CHECK(info, MUTANT_A_ARM_NAME)) {
		GENL_SET_ERR_MSG(info, "name is missing");
		return -EINVAL;
	}
	if (!nla_len(info->attrs[MUTANT_A_ARM_NAME]) ||
	    !*(const char *)nla_data(info->attrs[MUTANT_A_ARM_NAME])) {
		NL_SET_ERR_MSG_ATTR(info->extack, info->attrs[MUTANT_A_ARM_NAME],
				    "name is empty");
		return -EINVAL;
	}
	err = mutant_arm_load(nla_data(info->attrs[MUTANT_A_ARM_NAME]), &arm);
	if (err == -EAGAIN)
		GENL_SET_ERR_MSG(info, "the module is being loaded or unloaded: ask again");
	else if (err)
		GENL_SET_ERR_MSG(info, "no id is left for another arm");
	if (err)
		return err;
	return mutant_reply_arm(info, MUTANT_CMD_ARM_LOAD, &arm);
}

/* Settings */

static int mutant_put_resume(struct sk_buff *skb)
{
	static const u8 count[MUTANT_JUMP_COUNTS] = {
		[MUTANT_JUMPS] = MUTANT_A_CONFIG_RESUME_JUMPS,
		[MUTANT_JUMPS_VALIDATED] = MUTANT_A_CONFIG_RESUME_VALIDATED,
		[MUTANT_JUMPS_RETREATED] = MUTANT_A_CONFIG_RESUME_RETREATS,
		[MUTANT_JUMPS_CUT_BY_RECEIVER] = MUTANT_A_CONFIG_RESUME_CUT_BY_RECEIVER,
		[MUTANT_JUMPS_CUT_BY_BUFFER] = MUTANT_A_CONFIG_RESUME_CUT_BY_BUFFER,
	};
	int i, err;

	err = nla_put_u32(skb, MUTANT_A_CONFIG_RESUME, READ_ONCE(mutant_config.resume)) ?:
	      nla_put_u32(skb, MUTANT_A_CONFIG_RESUME_MAX_JUMP_KB,
			  READ_ONCE(mutant_config.resume_max_jump_kb));
	for (i = 0; i < MUTANT_JUMP_COUNTS && !err; i++)
		err = nla_put_u64_64bit(skb, count[i], mutant_jump_count(i), MUTANT_A_CONFIG_PAD);
	return err;
}

int mutant_nl_config_get_doit(struct sk_buff *skb, struct genl_info *info)
{
	void *header;
	struct sk_buff *msg = mutant_reply_new(info, MUTANT_CMD_CONFIG_GET, &header);
	int err;

	if (!msg)
		return -ENOMEM;
	err = nla_put_u32(msg, MUTANT_A_CONFIG_DEFAULT_ARM,
			  READ_ONCE(mutant_config.default_arm)) ?:
	      nla_put_u32(msg, MUTANT_A_CONFIG_FALLBACK_ARM,
			  READ_ONCE(mutant_config.fallback_arm)) ?:
	      nla_put_u32(msg, MUTANT_A_CONFIG_WATCHDOG_MS,
			  READ_ONCE(mutant_config.watchdog_ms)) ?:
	      nla_put_u32(msg, MUTANT_A_CONFIG_RESTORE, READ_ONCE(mutant_config.restore)) ?:
	      nla_put_u32(msg, MUTANT_A_CONFIG_HANDOVER, READ_ONCE(mutant_config.handover)) ?:
	      nla_put_u32(msg, MUTANT_A_CONFIG_FLOWS_MAX, READ_ONCE(mutant_config.flows_max)) ?:
	      nla_put_u32(msg, MUTANT_A_CONFIG_FLOWS, mutant_flow_count()) ?:
	      nla_put_u64_64bit(msg, MUTANT_A_CONFIG_FLOWS_REFUSED, mutant_flow_refusals(),
				MUTANT_A_CONFIG_PAD) ?:
	      mutant_put_resume(msg);
	return mutant_reply_send(msg, header, err, info);
}

/* 0 if @attr is absent or names an arm that may be the default (or the @fallback). */
static int mutant_nl_check_arm(struct genl_info *info, struct nlattr *attr, bool fallback)
{
	const char *why;
	int err;

	if (!attr)
		return 0;
	err = mutant_config_check_arm(nla_get_u32(attr), fallback, &why);
	if (err) {
		NL_SET_BAD_ATTR(info->extack, attr);
		info->extack->_msg = why;
	}
	return err;
}

int mutant_nl_config_set_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct nlattr **attrs = info->attrs;
	int err;

	if (!mutant_in_initial_namespaces(skb)) {
		GENL_SET_ERR_MSG(info, "settings change from the initial network namespace alone");
		return -EPERM;
	}
	err = mutant_nl_check_arm(info, attrs[MUTANT_A_CONFIG_DEFAULT_ARM], false) ?:
	      mutant_nl_check_arm(info, attrs[MUTANT_A_CONFIG_FALLBACK_ARM], true);
	if (err)
		return err;
	if (attrs[MUTANT_A_CONFIG_DEFAULT_ARM])
		WRITE_ONCE(mutant_config.default_arm,
			   nla_get_u32(attrs[MUTANT_A_CONFIG_DEFAULT_ARM]));
	if (attrs[MUTANT_A_CONFIG_FALLBACK_ARM])
		WRITE_ONCE(mutant_config.fallback_arm,
			   nla_get_u32(attrs[MUTANT_A_CONFIG_FALLBACK_ARM]));
	if (attrs[MUTANT_A_CONFIG_WATCHDOG_MS])
		mutant_config_set_watchdog(nla_get_u32(attrs[MUTANT_A_CONFIG_WATCHDOG_MS]));
	if (attrs[MUTANT_A_CONFIG_RESTORE])
		WRITE_ONCE(mutant_config.restore, nla_get_u32(attrs[MUTANT_A_CONFIG_RESTORE]));
	if (attrs[MUTANT_A_CONFIG_HANDOVER])
		WRITE_ONCE(mutant_config.handover,
			   nla_get_u32(attrs[MUTANT_A_CONFIG_HANDOVER]));
	if (attrs[MUTANT_A_CONFIG_FLOWS_MAX])
		WRITE_ONCE(mutant_config.flows_max,
			   nla_get_u32(attrs[MUTANT_A_CONFIG_FLOWS_MAX]));
	if (attrs[MUTANT_A_CONFIG_RESUME])
		WRITE_ONCE(mutant_config.resume, nla_get_u32(attrs[MUTANT_A_CONFIG_RESUME]));
	if (attrs[MUTANT_A_CONFIG_RESUME_MAX_JUMP_KB])
		WRITE_ONCE(mutant_config.resume_max_jump_kb,
			   nla_get_u32(attrs[MUTANT_A_CONFIG_RESUME_MAX_JUMP_KB]));
	return 0;
}
