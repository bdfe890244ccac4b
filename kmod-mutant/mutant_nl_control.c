// SPDX-License-Identifier: GPL-2.0-only
/* The netlink request that gives the learned arms their parameters. */
#include "mutant_index.h"
#include "mutant_memory.h"
#include "mutant_nl.h"
#include "mutant_session.h"

struct mutant_tally {
	u32 applied;
	u32 unknown;
	u32 refused;
	u32 clamped;
};

/* The time for which a window's bounds stay, whatever controls come: the shortest step. */
#define BOUND_MS	10

/*
 * The part that the flow may have of a window sent for @arm. Where it runs the arm, and is still on
 * its way to the window sent before, all between the two is its own. The caller has f->lock.
 */
static u32 mutant_permitted_window(struct mutant_flow *f, u32 arm, u32 wanted)
{
	u32 now = tcp_jiffies32;
	/* Sockets' memory stays sockets' memory under RCU; the worst is a window just gone by. */
	u32 window = data_race(READ_ONCE(tcp_sk(f->sk)->snd_cwnd)), target = window;
	const struct mutant_kept *kept = mutant_learned_kept(f->learned, arm);

	if (f->want == arm && mutant_kept_number(kept))
		target = kept->setting[0].value[0];
	/* A batch may name a flow more than once: its window doubles once all the same. */
	if (!f->bound.high || now - f->bound.since >= msecs_to_jiffies(BOUND_MS)) {
		f->bound.since = now;
		f->bound.low = min(window, target);
		f->bound.high = max(window, target);
	}
	return mutant_control_window(wanted, f->bound.low, f->bound.high,
				     READ_ONCE(f->snd_cwnd_clamp));
}

/* The flow's state for the learned arms; NULL without memory. The caller has f->lock. */
static struct mutant_learned *mutant_flow_learned(struct mutant_flow *f)
{
	struct mutant_learned *learned = f->learned;

	if (learned)
		return learned;
	learned = mutant_part_new(MUTANT_PART_LEARNED);
	/* It is empty before it is seen; pairs with mutant_take_control(). */
	smp_store_release(&f->learned, learned);
	return learned;
}

static void mutant_nl_control_one(struct sk_buff *skb, const struct mutant_control *c,
				  struct mutant_tally *count)
{
	struct mutant_setting setting = { .law = c->law, .since = tcp_jiffies32 };
	struct mutant_flow *f;

	f = mutant_flow_by_cookie(c->cookie);
	if (!f || !mutant_steers(skb, f)) {
		count->unknown++;
		return;
	}
	WRITE_ONCE(f->heard, tcp_jiffies32);
	if (!mutant_control_fits(c->arm, c->law, c->value)) {
		count->refused++;
		return;
	}
	memcpy(setting.value, c->value, sizeof(setting.value));
	spin_lock_bh(&f->lock);
	if (!mutant_flow_learned(f)) {
		count->refused++;
		goto unlock;
	}
	if (c->law == MUTANT_CONTROL_LAW_WINDOW)
		setting.value[0] = mutant_permitted_window(f, c->arm, c->value[0]);
	mutant_control_keep(mutant_learned_kept(f->learned, c->arm), &setting);
	count->applied++;
	count->clamped += setting.value[0] != c->value[0];
unlock:
	spin_unlock_bh(&f->lock);
}

int mutant_nl_control_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct nlattr *attr = info->attrs[MUTANT_A_CONTROL_CONTROLS];
	int i, n, err = mutant_session_check(skb, info->extack);
	struct mutant_tally count = {};
	struct mutant_control c;
	struct sk_buff *msg;
	void *header;

	if (err)
		return err;
	n = mutant_batch_count(info, attr, sizeof(struct mutant_control));
	if (n < 0)
		return n;
	msg = mutant_reply_new(info, MUTANT_CMD_CONTROL, &header);
	if (!msg)
		return -ENOMEM;
	rcu_read_lock();
	for (i = 0; i < n; i++) {
		/* An attribute is aligned to 4 bytes only. */
		memcpy(&c, nla_data(attr) + i * sizeof(c), sizeof(c));
		mutant_nl_control_one(skb, &c, &count);
	}
	rcu_read_unlock();
	err = nla_put_u32(msg, MUTANT_A_CONTROL_APPLIED, count.applied) ?:
	      nla_put_u32(msg, MUTANT_A_CONTROL_UNKNOWN, count.unknown) ?:
	      nla_put_u32(msg, MUTANT_A_CONTROL_REFUSED, count.refused) ?:
	      nla_put_u32(msg, MUTANT_A_CONTROL_CLAMPED, count.clamped);
	return mutant_reply_send(msg, header, err, info);
}
