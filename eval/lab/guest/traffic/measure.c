// SPDX-License-Identifier: Apache-2.0
/* One sample of a flow, and the processor time spent. */
#define _GNU_SOURCE
#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "traffic.h"

#define RTT_FIRST_US 100.0
#define RTT_GROWTH 1.02

static uint32_t rtt_edge_us[RTT_BINS];

void measure_init(void)
{
	double edge = RTT_FIRST_US;

	for (int i = 0; i < RTT_BINS; i++, edge *= RTT_GROWTH)
		rtt_edge_us[i] = edge;
}

uint32_t rtt_upper_us(int bin)
{
	return rtt_edge_us[bin];
}

static void count_rtt(struct flow *flow, struct bin *bin, uint32_t rtt_us)
{
	int low = 0, high = RTT_BINS - 1;

	bin->rtt_sum_us += rtt_us;
	bin->rtt_min_us = bin->rtts && bin->rtt_min_us < rtt_us ? bin->rtt_min_us : rtt_us;
	bin->rtt_max_us = bin->rtt_max_us > rtt_us ? bin->rtt_max_us : rtt_us;
	bin->rtts++;
	while (low < high) {
		int middle = (low + high) / 2;

		if (rtt_edge_us[middle] < rtt_us)
			low = middle + 1;
		else
			high = middle;
	}
	flow->rtt_histogram[low]++;
}

static void read_arm(struct flow *flow, struct bin *bin)
{
	char name[NAME_MAX_CC] = "";
	socklen_t length = sizeof(name);
	const char *arm = name;

	if (getsockopt(flow->source, IPPROTO_TCP, TCP_CONGESTION, name, &length))
		die("TCP_CONGESTION");
	/* An arm of mutant is named "m/" and the protocol. */
	if (!strncmp(name, "m/", 2))
		arm += 2;
	if (flow->held_by[0] && strcmp(flow->held_by, arm))
		flow->switches++;
	strcpy(flow->held_by, arm);
	memcpy(bin->arm, flow->held_by, sizeof(bin->arm));
}

static bool ask(const struct flow *flow, struct tcp_info *info)
{
	socklen_t length = sizeof(*info);

	if (flow->phase != SENDING && flow->phase != DRAINING)
		return false;
	if (getsockopt(flow->source, IPPROTO_TCP, TCP_INFO, info, &length))
		die("TCP_INFO");
	return true;
}

static void note_acked(struct flow *flow, const struct tcp_info *info)
{
	flow->acked_bytes = info->tcpi_bytes_acked ? info->tcpi_bytes_acked - 1 : 0; /* less the SYN */
}

/* A flow has stopped: only count the data that is still in flight. */
void drain(struct flow *flow)
{
	struct tcp_info info = {};

	if (flow->phase != DRAINING)
		return;
	drain_sink(flow);
	if (ask(flow, &info))
		note_acked(flow, &info);
}

/* Folds one sample of a flow that has not stopped into its bin, differences of running totals. */
void measure(struct flow *flow, int index, struct bin *bin)
{
	const struct lablink_flow_counters *link = &counters.flow[(index + 1) % LABLINK_FLOWS];
	uint64_t lost = link->dropped_pkts + link->lost_pkts, received = flow->received_bytes;
	struct tcp_info info = {};

	if (flow->phase == CONNECTING || flow->phase == SENDING)
		drain_sink(flow);
	bin->received_bytes += flow->received_bytes - received;
	bin->lost_pkts += lost - flow->lost_pkts;
	bin->delivered_pkts += link->delivered_pkts - flow->delivered_pkts;
	flow->lost_pkts = lost;
	flow->delivered_pkts = link->delivered_pkts;
	if (!ask(flow, &info))
		return;
	bin->open = true;
	bin->retrans_pkts += info.tcpi_total_retrans - flow->retrans_pkts;
	flow->retrans_pkts = info.tcpi_total_retrans;
	note_acked(flow, &info);
	bin->cwnd_pkts = info.tcpi_snd_cwnd;
	bin->rate_Bps = info.tcpi_delivery_rate;
	if (info.tcpi_rtt)
		count_rtt(flow, bin, info.tcpi_rtt);
	read_arm(flow, bin);
}

/* Nanoseconds that processor 0 was idle, from the kernel's own exact count. */
uint64_t idle_ns(void)
{
	unsigned long long idle = 0;
	char line[256];
	FILE *file = fopen("/proc/timer_list", "r");

	if (!file)
		die("/proc/timer_list");
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, " .idle_sleeptime : %llu nsecs", &idle) == 1)
			break;
	fclose(file);
	return idle;
}

/* Nanoseconds of processor time of a process's first thread. */
uint64_t process_ns(const char *pid)
{
	unsigned long long ran = 0;
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%s/schedstat", pid);
	file = fopen(path, "r");
	if (!file)
		return 0;
	if (fscanf(file, "%llu", &ran) != 1)
		ran = 0;
	fclose(file);
	return ran;
}
