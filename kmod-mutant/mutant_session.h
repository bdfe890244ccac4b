/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Authority and steering of flows.
 *
 * Authority: a flow is changed by a caller with CAP_NET_ADMIN in the flow's user namespace, from
 * the flow's network namespace or from the initial one. So a container that has CAP_NET_ADMIN in
 * the initial user namespace rules over its own flows alone.
 *
 * Steering: one socket of a network namespace at a time steers its flows: it closes their steps,
 * selects their arms, and controls the learned ones. The session of the initial namespace steers
 * the flows of all namespaces that have none of their own. A session ends with its socket: its
 * flows go to the fallback arm at their next ACK. One that is closed in order leaves them as they
 * are for a time of grace, in which the next one may take over.
 */
#ifndef _MUTANT_SESSION_H
#define _MUTANT_SESSION_H

#include <linux/xarray.h>
#include <net/genetlink.h>

#include "mutant_core.h"
#include "mutant_host.h"
#include "mutant_outcome.h"
#include "mutant_queue.h"
#include "mutant_start.h"

/* The module keeps this of a network namespace. */
struct mutant_net {
	u32 portid;			/* port of the socket that steers; 0: nobody does */
	u32 heard;			/* time of the last request for steps, jiffies */
	u8 rtt_quarters;		/* least time of a step, quarters of its flow's RTT */
	struct xarray flows;		/* see mutant_index.h; empty in the initial namespace */
	struct mutant_queue queue;	/* see mutant_queue.h; the initial namespace has others */
	atomic_t live;			/* flows, where it is not the initial namespace */
	struct mutant_starts starts;	/* the arms that flows begin on, by destination */
	struct mutant_outcomes outcomes;	/* outcomes that wait for the session */
	struct mutant_hosts hosts;	/* state that flows have saved for the next ones, by host */
};

/* A dump meets many flows of one namespace in a row: ask once. */
struct mutant_viewer {
	bool (*may)(const struct sk_buff *skb, const struct mutant_flow *f);
	const struct net *net;		/* namespace that was asked about last */
	bool answer;			/* answer for that namespace */
};

int mutant_sessions_init(void);
void mutant_sessions_exit(void);

bool mutant_may_change(const struct sk_buff *skb, const struct mutant_flow *f);
bool mutant_may_see(const struct sk_buff *skb, const struct mutant_flow *f);
void mutant_viewer_pause(struct mutant_viewer *viewer);
bool mutant_viewer_permits(struct mutant_viewer *viewer, struct sk_buff *skb,
			   const struct mutant_flow *f);
bool mutant_in_initial_namespaces(const struct sk_buff *skb);
bool mutant_steers(const struct sk_buff *skb, const struct mutant_flow *f);
const struct mutant_starts *mutant_session_starts(const struct net *net);
struct mutant_net *mutant_net_of(const struct net *net);
const struct net *mutant_session_net(const struct net *net);
int mutant_session_check(const struct sk_buff *skb, struct netlink_ext_ack *extack);
u32 mutant_session_heard(const struct net *net);

#endif /* _MUTANT_SESSION_H */
