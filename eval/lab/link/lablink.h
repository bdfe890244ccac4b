/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * The data of /dev/lablink, in the byte order of the machine.
 *
 * Writing one schedule, whole, starts the link's clock at zero. Reading gives the clock's zero and
 * the counters as they stand.
 */
#ifndef LABLINK_H
#define LABLINK_H

#include <linux/types.h>

#define LABLINK_MAGIC 0x6b6e6c6cU /* "llnk" */
#define LABLINK_FLOWS 512
#define LABLINK_OPPORTUNITY_BYTES 1500

/* A written schedule: the header, then steps, flow delays and opportunities in this order. */
struct lablink_header {
	__u32 magic;
	__u32 queue_pkts; /* packets that the queue holds, the one in service included */
	__u32 steps; /* number of steps, 1 or more; the first is at 0 ns */
	__u32 flow_delays; /* number of entries; flows beyond have none of their own */
	__u32 opportunities; /* 0: the steps' rate counts */
	__u32 period_ms; /* time after which the opportunities repeat */
	__u64 seed; /* seed of the losses */
	__u64 police_bps; /* rate of the policer before the queue, bits a second; 0: none */
	__u64 police_burst_bytes; /* size of the policer's token bucket, full at the start */
};

/* The link's state from at_ns on. */
struct lablink_step {
	__u64 at_ns;
	__u64 rate_bps; /* bits a second; of no use where there are opportunities */
	__u64 delay_ns; /* delay of the path, both ways together */
	__u64 loss; /* probability of losing a data packet, times 2^32 */
};

/* Flow i comes from 10.1.0.0 + i; a delay of 0 means the link's. */
struct lablink_delay {
	__u64 delay_ns;
};

/* One LABLINK_OPPORTUNITY_BYTES may leave at this time; ascending, the last one not 0. */
struct lablink_opportunity {
	__u32 at_ms;
};

struct lablink_flow_counters {
	__u64 delivered_pkts;
	__u64 delivered_bytes; /* IP headers included */
	__u64 dropped_pkts; /* packets dropped for want of room */
	__u64 lost_pkts; /* packets lost at random */
};

struct lablink_counters {
	__u64 start_ns; /* CLOCK_MONOTONIC */
	__u32 queue_pkts;
	__u32 flows;
	struct lablink_flow_counters flow[LABLINK_FLOWS];
};

#endif
