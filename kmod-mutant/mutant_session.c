// SPDX-License-Identifier: GPL-2.0-only
/* Authority and steering sessions; mutant_session.h explains the whole. */
#include <linux/netlink.h>
#include <linux/sched.h>
#include <net/net_namespace.h>
#include <net/netns/generic.h>
#include <net/sock.h>

#include "mutant_index.h"
#include "mutant_nl.h"
#include "mutant_session.h"

static unsigned int mutant_net_id;

/* Orders those who open and close sessions. */
static DEFINE_MUTEX(mutant_session_mutex);

struct mutant_net *mutant_net_of(const struct net *net)
{
	return net_generic(net, mutant_net_id);
}

bool mutant_may_change(const struct sk_buff *skb, const struct mutant_flow *f)
{
	const struct net *net = sock_net(skb->sk);

	return (net_eq(net, f->net) || net_eq(net, &init_net)) &&
	       netlink_ns_capable(skb, f->net->user_ns, CAP_NET_ADMIN);
}

bool mutant_may_see(const struct sk_buff *skb, const struct mutant_flow *f)
{
	return net_eq(f->net, sock_net(skb->sk)) || mutant_may_change(skb, f);
}

bool mutant_viewer_permits(struct mutant_viewer *viewer, struct sk_buff *skb,
			   const struct mutant_flow *f)
{
	if (viewer->net != f->net) {
		viewer->net = f->net;
		viewer->answer = viewer->may(skb, f);
	}
	return viewer->answer;
}

/* Let others run, if somebody waits; ends an RCU section and begins another. */
void mutant_viewer_pause(struct mutant_viewer *viewer)
{
	if (!need_resched())
		return;
	rcu_read_unlock();
	cond_resched();
	rcu_read_lock();
	/* The namespace may be gone, and its memory another's. */
	viewer->net = NULL;
}

/* Settings and arms are the whole machine's. */
bool mutant_in_initial_namespaces(const struct sk_buff *skb)
{
	return net_eq(sock_net(skb->sk), &init_net) && netlink_capable(skb, CAP_NET_ADMIN);
}

/* The namespace whose session steers the flows of @net. */
const struct net *mutant_session_net(const struct net *net)
{
	return READ_ONCE(mutant_net_of(net)->portid) ? net : &init_net;
}

bool mutant_steers(const struct sk_buff *skb, const struct mutant_flow *f)
{
	return net_eq(sock_net(skb->sk), mutant_session_net(f->net)) && mutant_may_change(skb, f);
}

/* 0 if the caller's socket has its namespace's session, else an error, with its text. */
int mutant_session_check(const struct sk_buff *skb, struct netlink_ext_ack *extack)
{
	u32 portid = READ_ONCE(mutant_net_of(sock_net(skb->sk))->portid);

	if (portid == NETLINK_CB(skb).portid)
		return 0;
	if (portid) {
		NL_SET_ERR_MSG(extack, "another socket steers this network namespace");
		return -EBUSY;
	}
	NL_SET_ERR_MSG(extack, "this socket does not steer: open a session first");
	return -ENOTCONN;
}

/* The session of @net asks for steps. Returns a step's least time, quarters of the RTT. */
u32 mutant_session_heard(const struct net *net)
{
	struct mutant_net *mn = mutant_net_of(net);

	WRITE_ONCE(mn->heard, tcp_jiffies32);
	return READ_ONCE(mn->rtt_quarters);
}

/* Whether the session that steers the flow has been silent, too; else its sign of life is noted. */
bool mutant_session_silent(struct mutant_flow *f, u32 limit)
{
	const struct mutant_net *mn = mutant_net_of(mutant_session_net(f->net));
	u32 heard = READ_ONCE(mn->heard);

	if (!READ_ONCE(mn->portid) || (s32)(tcp_jiffies32 - heard) > (s32)limit)
		return true;
	WRITE_ONCE(f->heard, heard);
	return false;
}

/* The table by which flows of @net start; NULL while no session wants it. */
const struct mutant_starts *mutant_session_starts(const struct net *net)
{
	const struct mutant_net *mn = mutant_net_of(net);

	return READ_ONCE(mn->portid) && READ_ONCE(mn->starts.wanted) ? &mn->starts : NULL;
}

/* The changes for a session's flows when it begins or ends. */
struct mutant_turn {
	enum {
		MUTANT_TURN_HEARD,	/* the last sign of life becomes `heard` */
		MUTANT_TURN_ABANDONED,	/* flows go to the fallback arm */
		MUTANT_TURN_MOVED,	/* flows wait where their session looks */
	} what;
	u32 heard;			/* jiffies */
};

static void mutant_turn_flow(struct mutant_flow *f, const struct mutant_turn *turn)
{
	if (turn->what == MUTANT_TURN_MOVED) {
		mutant_queue_change(f);
		return;
	}
	spin_lock_bh(&f->lock);
	if (turn->what == MUTANT_TURN_HEARD) {
		WRITE_ONCE(f->abandoned, false);
		WRITE_ONCE(f->heard, turn->heard);
	} else if (f->flags & MUTANT_FLOW_FLAGS_STEERED) {
		WRITE_ONCE(f->abandoned, true);
	}
	spin_unlock_bh(&f->lock);
}

/* Tell all flows that the session of @net steers, or did. */
static void mutant_turn_flows(const struct net *net, const struct mutant_turn *turn)
{
	struct mutant_flow *f;
	u64 cookie;

	rcu_read_lock();
	for (cookie = 0; (f = mutant_flow_next(net, &cookie)); cookie++) {
		if (net_eq(net, f->net) || net_eq(net, mutant_session_net(f->net)))
			mutant_turn_flow(f, turn);
		if (need_resched()) {
			rcu_read_unlock();
			cond_resched();
			rcu_read_lock();
		}
	}
	rcu_read_unlock();
}

/* The socket @portid steers @net from now on, nobody if it is 0. */
static void mutant_session_set(const struct net *net, u32 portid)
{
	const struct mutant_turn turn = { .what = MUTANT_TURN_MOVED };

	WRITE_ONCE(mutant_net_of(net)->portid, portid);
	if (!portid)
		mutant_outcomes_want(&mutant_net_of(net)->outcomes, 0);
	/* Its own flows wait in its own queues all the time. */
	if (net_eq(net, &init_net))
		return;
	/* A flow that is born sees the change, or is seen here; pairs with mutant_flow_init(). */
	smp_mb();
	mutant_turn_flows(net, &turn);
}

int mutant_nl_session_open_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct nlattr *start_arms = info->attrs[MUTANT_A_SESSION_START_ARMS];
	struct nlattr *quarters = info->attrs[MUTANT_A_SESSION_RTT_QUARTERS];
	struct nlattr *outcomes = info->attrs[MUTANT_A_SESSION_OUTCOMES_MAX];
	struct nlattr *seed = info->attrs[MUTANT_A_SESSION_START_SEED];
	struct mutant_turn turn = { .what = MUTANT_TURN_HEARD, .heard = tcp_jiffies32 };
	struct net *net = genl_info_net(info);
	struct mutant_net *mn = mutant_net_of(net);
	int err = 0;

	mutex_lock(&mutant_session_mutex);
	if (mn->portid && mn->portid != info->snd_portid) {
		GENL_SET_ERR_MSG(info, "another socket steers this network namespace");
		err = -EBUSY;
		goto unlock;
	}
	err = mutant_outcomes_want(&mn->outcomes, outcomes ? nla_get_u32(outcomes) : 0);
	if (err)
		goto unlock;
	WRITE_ONCE(mn->starts.wanted, start_arms && nla_get_u8(start_arms));
	WRITE_ONCE(mn->starts.seed, seed ? nla_get_u64(seed) : 0);
	WRITE_ONCE(mn->rtt_quarters, quarters ? nla_get_u8(quarters) : 0);
	WRITE_ONCE(mn->heard, turn.heard);
	mutant_session_set(net, info->snd_portid);
	mutant_turn_flows(net, &turn);
unlock:
	mutex_unlock(&mutant_session_mutex);
	return err;
}

int mutant_nl_session_close_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct nlattr *grace = info->attrs[MUTANT_A_SESSION_GRACE_MS];
	struct net *net = genl_info_net(info);
	struct mutant_turn turn = { .what = MUTANT_TURN_ABANDONED };
	int err;

	mutex_lock(&mutant_session_mutex);
	err = mutant_session_check(skb, info->extack);
	if (err)
		goto unlock;
	/* The watchdog ends the grace, as if the last sign of life had come that much later. */
	if (grace && nla_get_u32(grace)) {
		turn.what = MUTANT_TURN_HEARD;
		turn.heard = tcp_jiffies32 + msecs_to_jiffies(nla_get_u32(grace)) -
			     READ_ONCE(mutant_config.watchdog_jiffies);
	}
	mutant_turn_flows(net, &turn);
	mutant_session_set(net, 0);
unlock:
	mutex_unlock(&mutant_session_mutex);
	return err;
}

/* A socket is gone: if it steered, its flows go to the fallback arm. */
static int mutant_netlink_event(struct notifier_block *block, unsigned long event, void *data)
{
	const struct mutant_turn turn = { .what = MUTANT_TURN_ABANDONED };
	const struct netlink_notify *notify = data;
	struct mutant_net *mn;

	if (event != NETLINK_URELEASE || notify->protocol != NETLINK_GENERIC)
		return NOTIFY_DONE;
	mn = mutant_net_of(notify->net);
	if (READ_ONCE(mn->portid) != notify->portid)
		return NOTIFY_DONE;
	mutex_lock(&mutant_session_mutex);
	if (mn->portid == notify->portid) {
		mutant_turn_flows(notify->net, &turn);
		mutant_session_set(notify->net, 0);
	}
	mutex_unlock(&mutant_session_mutex);
	return NOTIFY_DONE;
}

static struct notifier_block mutant_netlink_notifier = {
	.notifier_call = mutant_netlink_event,
};

static int __net_init mutant_net_init(struct net *net)
{
	xa_init_flags(&mutant_net_of(net)->flows, XA_FLAGS_LOCK_BH);
	mutant_queue_init(&mutant_net_of(net)->queue);
	mutant_starts_begin(&mutant_net_of(net)->starts);
	mutant_outcomes_begin(&mutant_net_of(net)->outcomes, net->ns.inum);
	mutant_hosts_begin(&mutant_net_of(net)->hosts);
	return 0;
}

static void __net_exit mutant_net_exit(struct net *net)
{
	mutant_starts_forget(&mutant_net_of(net)->starts);
	mutant_outcomes_want(&mutant_net_of(net)->outcomes, 0);
	mutant_hosts_forget(&mutant_net_of(net)->hosts);
}

static struct pernet_operations mutant_net_ops = {
	.init = mutant_net_init,
	.exit = mutant_net_exit,
	.id = &mutant_net_id,
	.size = sizeof(struct mutant_net),
};

int mutant_sessions_init(void)
{
	int err;

	mutant_queues_init();
	err = register_pernet_subsys(&mutant_net_ops);
	if (err)
		return err;
	err = netlink_register_notifier(&mutant_netlink_notifier);
	if (err)
		unregister_pernet_subsys(&mutant_net_ops);
	return err;
}

void mutant_sessions_exit(void)
{
	netlink_unregister_notifier(&mutant_netlink_notifier);
	unregister_pernet_subsys(&mutant_net_ops);
}
