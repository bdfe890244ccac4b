/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The files of tcp_mutant share this.
 *
 *	main	loading and unloading
 *	config	the module's parameters
 *	arms	finding protocols, pinning them, cloning their ops
 *	flow	the object of a flow: birth, death, look-up by socket
 *	index	flows by cookie
 *	queue	flows that have something to tell
 *	memory	the slab caches of flows' objects
 *	measure	the measures of a flow: its steps, the records that netlink shows
 *	dest	how many flows go to the same destination
 *	host	state that flows have saved for the next one to the same host
 *	event	multicast of birth, death and fallback
 *	trace	tracepoints for switch and fallback
 *	hooks	the code that runs for every ACK
 *	sample	a socket's values at an ACK
 *	fold	samples into records (pure logic)
 *	gap	the gaps between ACKs, by range (pure logic)
 *	step	steps that are written and closed at the same time (pure logic)
 *	echo	the fate of the packets sent under each control (pure logic)
 *	pulse	asking the path for more (pure logic)
 *	life	a flow's report on its whole life (pure logic)
 *	ring	the places of a ring of bounded size (pure logic)
 *	outcome	the result of each flow, told when it ends
 *	resume	the window that a flow begins with, from the saved state (pure logic)
 *	jump	the same on a socket
 *	path	RTT floor, rate, bandwidth-delay product, the window of a handover (pure logic)
 *	back	the queues on the way there and on the way back (pure logic)
 *	switch	leaving one arm and entering another
 *	freeze	an arm's state: started, frozen, restored, left behind
 *	info	a protocol's report on itself
 *	bbr	the known part of BBR's own state
 *	vegas	the known part of Vegas's own state
 *	executor the code that the learned arms run for every ACK
 *	law	the laws that they run, a table of ops each; window, aimd, cubic are pure logic
 *	marks	the learned arms under congestion marks (pure logic)
 *	control	the parameters of the learned arms: checked, kept, taken (pure logic)
 *	session	who may change flows and settings, and who steers
 *	start	the arms that flows begin on, by destination
 *	visit	flows to a destination that begin on the same arm, drawn by lot (pure logic)
 *	nl	the requests of the netlink family; flow, step, command and control have files of
 *		their own
 */
#ifndef _MUTANT_CORE_H
#define _MUTANT_CORE_H

#include <linux/list.h>
#include <linux/llist.h>
#include <linux/rhashtable-types.h>
#include <linux/spinlock.h>
#include <net/tcp.h>

#include "mutant_arms_gen.h"
#include "mutant_back.h"
#include "mutant_control.h"
#include "mutant_echo.h"
#include "mutant_life.h"
#include "mutant_marks.h"
#include "mutant_nl_gen.h"
#include "mutant_path.h"
#include "mutant_pulse.h"
#include "mutant_step.h"

struct mutant_dest;
struct mutant_jumper;
struct mutant_queue;
struct mutant_start_entry;
struct socket;

/* Settings of the module, each read and written on its own. */
struct mutant_config {
	u8 default_arm;			/* id */
	u8 fallback_arm;		/* id */
	u8 restore;			/* enum mutant_restore_mode */
	u8 handover;			/* enum mutant_handover_mode, never "configured" */
	u8 resume;			/* enum mutant_resume_mode */
	u32 resume_max_jump_kb;		/* the most to which a flow's window may jump, KiB */
	u32 flows_max;			/* a socket beyond it runs its first arm, and is no flow */
	u32 watchdog_ms;		/* 0: no watchdog */
	u32 watchdog_jiffies;		/* the watchdog's time in jiffies */
};

extern struct mutant_config mutant_config;

int mutant_config_init(void);
int mutant_config_check_arm(u8 id, bool fallback, const char **why);
void mutant_config_set_watchdog(u32 ms);

/*
 * An arm: a congestion control that a flow can run. `ops` is a clone of the protocol's own, with
 * our hooks over init, release and the one callback that runs for every ACK. A flow runs the arm
 * when its icsk_ca_ops points at the clone. Callbacks that are not hooked cost nothing. The clones
 * are registered: getsockopt() shows their names, and a program that sets such a name must not be
 * refused. An application that asks for a clone pins its flow to the arm.
 */
struct mutant_arm {
	struct tcp_congestion_ops ops;	/* the clone */
	const struct tcp_congestion_ops *orig;	/* the protocol's own, of which `ops` is a clone */
	struct socket *pin;		/* a socket that runs `orig`, to hold its module; or NULL */
	u8 id;
	u8 kind;			/* enum mutant_arm_kind */
	u8 state;			/* enum mutant_arm_state; last to become valid */
	bool registered;		/* applications can ask for it by its name, m/… */
	char name[MUTANT_ARM_NAME_MAX];
	const char *reason;		/* why the arm is not available, or NULL */
};

/* Indexed by id. Number 0 is `mutant` itself: the ops of a socket that is not a flow yet. */
extern struct mutant_arm mutant_arms[MUTANT_ARMS_MAX + 1];

void mutant_arms_init(void);
void mutant_arms_register(void);
void mutant_arms_unregister(void);
void mutant_arms_exit(void);
int mutant_arm_load(const char *name, struct mutant_arm *result);
bool mutant_arm_retry(u8 id);
u8 mutant_arm_by_name(const char *name);

static inline bool mutant_arm_available(u32 id)
{
	if (!id || id > MUTANT_ARMS_MAX)
		return false;
	/* Pairs with mutant_arm_open(). */
	return smp_load_acquire(&mutant_arms[id].state) == MUTANT_ARM_STATE_AVAILABLE;
}

/* A flow's frozen arm, with its settings in the socket outside its own state. */
struct mutant_slot {
	u64 priv[ICSK_CA_PRIV_SIZE / sizeof(u64)];	/* the arm's private bytes */
	u64 frozen_us;			/* tcp_mstamp when it was frozen, µs */
	u64 frozen_bytes;		/* bytes acknowledged when it was frozen */
	u32 frozen_jiffies;		/* time when the arm was frozen, jiffies */
	u32 snd_cwnd_clamp;		/* the arm's own, packets; ~0: none */
	u32 snd_cwnd_cnt;		/* a fraction of a packet, in the arm's own unit */
	u32 ssthresh;			/* packets */
	u8 ca_state;			/* TCP_CA_* that the arm last heard of */
	bool used;			/* true if an arm is frozen here: the arm's init has run */
	bool paces;			/* the arm asked the stack to pace */
};

/* A flow that has switched keeps this of the arms that it left. */
struct mutant_past {
	struct mutant_epoch epoch[MUTANT_EPOCHS];
	struct mutant_slot *slot[MUTANT_ARMS_MAX + 1];	/* frozen arms, by id; NULL: never left */
	struct mutant_shares shares;
};

/* The measures of a flow, from the first time on that somebody asks for its steps. */
struct mutant_measures {
	struct mutant_steps steps;
	u64 closed_ns;			/* time when the last step was closed, CLOCK_MONOTONIC */
	u64 due_ns;			/* no step is closed before */
	u64 rate;			/* last delivery rate sample, bytes per second */
	u32 rate_delivered;		/* the rate sample that `rate` was computed from, packets */
	u32 rate_interval_us;		/* time of that sample, µs */
	struct mutant_path path;
	struct mutant_back back;
	struct mutant_pulse pulse;
	struct mutant_epochs epochs;
	struct mutant_dest *dest;	/* NULL: no memory for it */
	u32 told_us;			/* time when the flow's last outcome was told, µs; wraps */
	bool draining;			/* the active arm empties the queue, as of this step */
};

/* A flow that was ever controlled keeps this for the learned arms. */
struct mutant_learned {
	struct mutant_kept kept[MUTANT_LEARNED_ARMS];	/* controls by arm */
	struct mutant_echoes echoes;
};

/* The windows that controls may ask for; they stay for a shortest step (mutant_nl_control.c). */
struct mutant_bound {
	u32 since;			/* time when the windows were set, jiffies */
	u32 low;			/* the smaller of the flow's own windows, packets */
	u32 high;			/* the larger of them, packets; 0 before it is set */
};

/* How a flow stood when it ended, if nothing was measured of it. */
struct mutant_end {
	u32 srtt_us;			/* µs */
	u32 min_rtt_us;			/* µs */
	u32 snd_cwnd;			/* packets */
	u32 mss;			/* bytes */
};

/*
 * A flow. It is small, for most connections are short. Measures, switches and controls have objects
 * of their own, which come when they are needed and stay until the flow ends. Members up to `start`
 * are used under the socket's lock only.
 */
struct mutant_flow {
	struct rhash_head node;		/* place in the table of flows by socket */
	struct sock *sk;
	struct mutant_past *past;	/* NULL before the first switch */
	struct mutant_jumper *jumper;	/* NULL: takes no part in Careful Resume; read under RCU */
	u8 arm;				/* id of the active arm */
	bool paces;			/* the active arm asked the stack to pace */
	bool folded;			/* the ACK being processed has been folded already */
	bool guest;			/* true outside of the initial namespace; constant */
	u32 entry_lost;			/* packets lost when the active arm was entered */
	struct mutant_counters last;	/* the socket's counters when they were last folded */
	u32 snd_cwnd_clamp;		/* the flow's own, whatever an arm made of it, packets */
	u32 arm_clamp;			/* clamp that the active arm made of it, packets */
	u32 entry_ssthresh;		/* threshold when the active arm was entered, packets */
	struct mutant_marks marks;	/* congestion marks, as the learned arms answer them */
	struct mutant_life life;
	u8 first_arm;			/* id of the arm that the flow began on */
	u8 cause;			/* why: enum mutant_start_cause */
	u16 weight;			/* weight of that arm, as the visit drew it; 0: none did */
	u16 weights;			/* sum of them */
	u16 family;			/* AF_INET, for v4-mapped addresses too, or AF_INET6 */
	u32 visit;			/* number of the prefix's visit; 0: none */
	u32 generation;			/* generation of the weights */
	struct mutant_start_entry *start;	/* the prefix that has the visit; NULL: none */

	/* Written under the socket's lock, read under RCU. */
	struct mutant_measures *measures;	/* NULL: nothing measured yet */
	struct mutant_end end;
	bool ended;			/* `end` and `last` are final; `sk` is another's */

	bool asked;			/* somebody wants to know of the flow's steps */

	/* Commands set these. */
	bool abandoned;			/* the session that steered the flow has ended */
	u8 want;			/* id of the arm to run */
	u8 handover;			/* how to get there: enum mutant_handover_mode */
	u8 restore;			/* 0: as configured; else 1 + enum mutant_restore_mode */
	u8 reason;			/* enum mutant_fallback_reason */
	u8 pulse;			/* wanted pulse: enum mutant_pulse_kind */
	u32 refused;			/* arms that refused the flow in their init, a bit each */
	spinlock_t lock;		/* orders writers of these, and those who close steps */
	u32 flags;			/* enum mutant_flow_flags, those that commands change */
	u32 heard;			/* last sign of life that was noted, jiffies */
	struct mutant_bound bound;

	/* Listeners have not been told of these yet. */
	atomic_t events;		/* enum mutant_event_bits */
	struct llist_node told;		/* place in the list of flows with events */

	struct mutant_learned *learned;	/* NULL before the first control */
	struct mutant_queue *queue;	/* the queue where the flow waits for a step; NULL: none */

	/* Who the flow is; constant. */
	u64 cookie;			/* cookie of the socket */
	struct net *net;		/* held by the socket */
	u64 born_ns;			/* CLOCK_MONOTONIC */
	u32 netns;			/* inode of the network namespace */
	u16 sport;			/* host order */
	u16 dport;			/* host order */
	u8 saddr[16];			/* network order; 4 bytes of it for AF_INET */
	u8 daddr[16];
	union {
		struct list_head queued;	/* place in `queue`, under the queue's lock */
		struct rcu_head rcu;		/* holds after the end: the flow waits nowhere */
	};
};

int mutant_flows_init(void);
void mutant_flows_exit(void);
void mutant_flow_init(struct sock *sk);
void mutant_flow_release(struct sock *sk);
void mutant_flow_free_soon(struct mutant_flow *f);
struct mutant_flow *mutant_flow_find(struct sock *sk);
u32 mutant_flow_count(void);
u64 mutant_flow_refusals(void);

struct mutant_measures *mutant_measure(struct sock *sk, struct mutant_flow *f);
void mutant_measures_free(struct mutant_measures *m);
bool mutant_flow_close(struct mutant_flow *f, u32 rtt_quarters, struct mutant_record *rec);
void mutant_flow_peek(struct mutant_flow *f, struct mutant_record *rec);

void mutant_switch(struct sock *sk, struct mutant_flow *f);

extern const struct tcp_congestion_ops mutant_executor_ops;

/* The last control of a flow for a learned arm. */
static inline struct mutant_kept *mutant_learned_kept(struct mutant_learned *learned, u32 arm)
{
	return &learned->kept[arm - MUTANT_FIRST_LEARNED];
}

/* Whether the arm sets its window by a model of its own, as BBR does. */
static inline bool mutant_arm_has_model(const struct mutant_arm *arm)
{
	return arm->orig->cong_control && arm->kind != MUTANT_ARM_KIND_LEARNED;
}

void mutant_hook(struct tcp_congestion_ops *clone);
void mutant_heard(struct sock *sk, s64 rtt_us);

enum mutant_event_bits {
	MUTANT_EVENT_BIRTH = 1,
	MUTANT_EVENT_FALLBACK = 2,
	MUTANT_EVENT_DEATH = 4,
	MUTANT_EVENT_END = 8,		/* nothing comes any more: the flow may be freed */
};

void mutant_event(struct mutant_flow *f, int event);
void mutant_events_flush(void);
int mutant_put_flow(struct sk_buff *skb, const struct mutant_flow *f,
		    const struct mutant_record *rec);

static inline struct mutant_arm *mutant_arm_of(const struct sock *sk)
{
	return container_of(inet_csk(sk)->icsk_ca_ops, struct mutant_arm, ops);
}

bool mutant_session_silent(struct mutant_flow *f, u32 limit);

/*
 * Whether whoever steered the flow is gone, or has not been heard of for too long. A session's
 * requests for steps are noted in the flow when the last sign of life is about to be too old.
 */
static inline bool mutant_flow_silent(struct mutant_flow *f)
{
	u32 limit = READ_ONCE(mutant_config.watchdog_jiffies);

	return READ_ONCE(f->abandoned) ||
	       (limit && unlikely((s32)(tcp_jiffies32 - READ_ONCE(f->heard)) > (s32)limit) &&
		mutant_session_silent(f, limit));
}

#endif /* _MUTANT_CORE_H */
