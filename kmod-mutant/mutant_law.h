/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A learned arm executes a law between two decisions, by the parameters of its last control. A law
 * is a table of ops; mutant_executor.c runs the one that the flow has.
 */
#ifndef _MUTANT_LAW_H
#define _MUTANT_LAW_H

#include "mutant_core.h"
#include "mutant_cubic.h"

/* The executor's memory of a flow, in its socket's private area. */
struct mutant_executor {
	struct mutant_flow *flow;
	u32 number;			/* number of the control that was taken */
	bool fresh;			/* true until the control is acted upon */
	struct mutant_setting setting;
	u32 proven;			/* tp->delivered that proves a kept window, or 0 */
	u32 fraction;			/* window above snd_cwnd; MUTANT_ONE is a packet */
	struct mutant_cubic cubic;
};

struct mutant_law {
	/* This runs for every ACK. */
	void (*run)(struct sock *sk, struct mutant_executor *e, const struct rate_sample *rs);
	/* The threshold that a loss event or a timeout leaves, packets. */
	u32 (*ssthresh)(struct sock *sk, struct mutant_executor *e);
	/* How much of a window to send in a smoothed round trip, percent. */
	u32 (*pace)(const struct tcp_sock *tp);
	/* Whether echoes tell the result of each control. */
	bool echoes;
};

/* Indexed by enum mutant_control_law. */
extern const struct mutant_law mutant_laws[];

#endif /* _MUTANT_LAW_H */
