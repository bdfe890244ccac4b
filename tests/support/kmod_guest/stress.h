/* SPDX-License-Identifier: GPL-2.0-only */
/* What the parts of `stress` share: traffic, steering, and the sums. */
#ifndef STRESS_H
#define STRESS_H

#include <netinet/in.h>
#include <stdbool.h>

#include "genl.h"

#define FLOWS_MAX	1024
#define SINKS_MAX	2048

/* What a flow's steps add up to. */
struct sums {
	__u64 samples, delivered, lost, acked, retrans;
};

/* Every flow that ever was, by cookie. */
struct life {
	__u64 cookie;
	struct sums steps;
	__u64 switches;
	__u64 sent;
	bool ended, finished;
};

struct source {
	int fd;
	__u32 id;
	__u64 quota, sent;
	bool reset, connected, shut;
	struct life *life;
};

struct stress_count {
	__u64 started, completed, reset, bytes_sent, bytes_received, wrong_bytes, wrong_lengths;
	__u64 batches, applied, unknown, refused, controlled, unfit, clamped;
	__u64 records, births, deaths, fallbacks;
	__u64 totals_wrong, credits_wrong, acked_wrong, events_lost, foreign;
};

extern struct source sources[FLOWS_MAX];
extern struct stress_count count;
extern struct sockaddr_in target;
extern __u64 seed;
extern int control;	/* netlink socket for requests */
extern __u16 family;
extern bool draining;	/* a flow that ends is not followed by another */

struct life *life_of(__u64 cookie);
__s64 now_ns(void);

void select_at_random(size_t flows);
void control_at_random_all(size_t flows);

void traffic_start(size_t flows, const char *netns);
size_t traffic_serve(int timeout_ms);
void traffic_end(void);

#endif
