/* SPDX-License-Identifier: GPL-2.0-only */
/* What the parts of `churn` share: flows over loopback, steering, and the sums. */
#ifndef CHURN_H
#define CHURN_H

#include <linux/mutant.h>
#include <netinet/in.h>
#include <stdbool.h>

#include "genl.h"

#define FLOWS_MAX	24
#define CROWD		128	/* flows of `switches` */

/* In memory that all processes share; added to atomically. */
struct tally {
	__u64 rounds, broken, flows, commands, applied, records, options, sessions, dumps, sums_wrong;
	__u64 switches, asked;
	__u64 cookie[FLOWS_MAX];	/* of the flows of `options`, for whoever steers them */
};

struct pair {
	int client, server;
	__u64 cookie;
};

extern struct tally *tally;
extern __u64 seed;

#define ADD(name, n)	__atomic_fetch_add(&(*tally).name, n, __ATOMIC_RELAXED)

/* churn_flows.c */
void namespace_enter(void);
void flows_listen(void);
void flow_open(struct pair *p);
void flow_close(struct pair *p, bool reset);
void flow_talk(struct pair *p, bool read);
void flow_option(struct pair *p);
void flow_reconnect(struct pair *p);

/* churn_steer.c */
int steer_open(__u16 *family);
bool steer_session(int control, __u16 family);
void steer_end(int control, __u16 family, __u32 grace_ms);
void steer_batch(int control, __u16 family, const __u64 *cookies, size_t n);
void steer_step(int control, __u16 family);
void steer_look(int control, __u16 family, __u64 cookie);
void steer_listen(int control);
__u64 flows_switches(__u16 family);
int steer_load(const char *name);
ssize_t ask(int control, const struct request *r, __u8 *reply, size_t len);

/* churn_ask.c */
int ask_until(const char *kind, const char *arm, const char *file);

/* churn_steps.c */
void round_steps(void);

/* churn_switches.c */
void round_switches(void);

#endif
