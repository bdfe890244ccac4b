/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the parts of `traffic`: the flows and their measurements. */
#ifndef TRAFFIC_H
#define TRAFFIC_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "../../link/lablink.h"

#define SAMPLE_MS 10
#define BIN_SAMPLES 10
#define LIVE_BINS 5
#define NAME_MAX_CC 16

/* The RTT histogram's upper edges grow by 2 % from 100 us: exact enough for a percentile. */
#define RTT_BINS 600

enum phase { WAITING, CONNECTING, SENDING, DRAINING, CLOSED };

struct bin {
	uint64_t received_bytes, retrans_pkts, lost_pkts, delivered_pkts;
	uint64_t rtt_sum_us;
	uint32_t rtt_min_us, rtt_max_us, rtts;
	uint32_t cwnd_pkts;
	uint64_t rate_Bps;
	uint32_t queue_pkts;
	char arm[NAME_MAX_CC];
	bool open;
};

struct flow {
	char cc[NAME_MAX_CC], arm[NAME_MAX_CC];
	uint64_t start_us, stop_us;
	int server;
	enum phase phase;
	int source, sink, listener;
	uint64_t sent_bytes, received_bytes, acked_bytes;
	uint64_t stop_received_bytes; /* the part received before stop_us */
	uint64_t retrans_pkts, lost_pkts, delivered_pkts;
	uint64_t switches;
	char held_by[NAME_MAX_CC];
	struct bin *bins;
	uint32_t rtt_histogram[RTT_BINS];
};

extern struct flow *flows;
extern int flow_count;
extern int bin_count;
extern uint64_t start_ns; /* CLOCK_MONOTONIC of time 0 */
extern struct lablink_counters counters; /* as they were at the last tick */

void die(const char *what) __attribute__((noreturn));

/* flows.c */
void drain_sink(struct flow *flow);

/* measure.c */
void measure_init(void);
void measure(struct flow *flow, int index, struct bin *bin);
void drain(struct flow *flow);
uint32_t rtt_upper_us(int bin);
uint64_t idle_ns(void);
uint64_t process_ns(const char *pid);

/* report.c */
void report_open(void);
void report_live(int bin_index);
void report_bins(const char *stem);
void report_totals(const char *stem, uint64_t busy_ns, uint64_t idle, uint64_t process);

#endif
