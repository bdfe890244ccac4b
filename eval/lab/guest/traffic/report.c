// SPDX-License-Identifier: Apache-2.0
/* Output: live lines on the way, bins and totals at the end. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "traffic.h"

#define LIVE_FIFO "/run/lab/live"

static int live_fd = -1;

void report_open(void)
{
	live_fd = open(LIVE_FIFO, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
}

void report_live(int bin_index)
{
	char text[65536];
	int used;

	used = snprintf(text, sizeof(text), "{\"t_ms\":%d,\"queue_pkts\":%u,\"flows\":[",
			(bin_index + 1) * SAMPLE_MS * BIN_SAMPLES, counters.queue_pkts);
	for (int i = 0; i < flow_count; i++) {
		const struct flow *flow = &flows[i];
		uint64_t bytes = 0, rtt_us = 0, rtts = 0, lost = 0, delivered = 0;
		const struct bin *last = &flow->bins[bin_index];

		for (const struct bin *bin = last - LIVE_BINS + 1; bin <= last; bin++) {
			bytes += bin->received_bytes;
			rtt_us += bin->rtt_sum_us;
			rtts += bin->rtts;
			lost += bin->lost_pkts;
			delivered += bin->delivered_pkts;
		}
		used += snprintf(text + used, sizeof(text) - used,
				 "%s{\"flow\":%d,\"arm\":\"%s\",\"cwnd_pkts\":%u,\"rtt_us\":%llu,"
				 "\"rate_Bps\":%llu,\"received_bytes\":%llu,\"lost_pkts\":%llu,"
				 "\"delivered_pkts\":%llu,\"switches\":%llu}",
				 i ? "," : "", i, last->arm, last->cwnd_pkts,
				 (unsigned long long)(rtts ? rtt_us / rtts : 0),
				 (unsigned long long)last->rate_Bps, (unsigned long long)bytes,
				 (unsigned long long)lost, (unsigned long long)delivered,
				 (unsigned long long)flow->switches);
		if (used > (int)sizeof(text) - 512)
			break;
	}
	used += snprintf(text + used, sizeof(text) - used, "]}\n");
	if (live_fd >= 0 && write(live_fd, text, used) < 0 && errno != EAGAIN)
		die(LIVE_FIFO);
}

static FILE *output(const char *stem, const char *suffix)
{
	char path[512];
	FILE *file;

	snprintf(path, sizeof(path), "%s%s", stem, suffix);
	file = fopen(path, "w");
	if (!file)
		die(path);
	return file;
}

void report_bins(const char *stem)
{
	FILE *file = output(stem, ".csv");

	fprintf(file, "bin,flow,received_bytes,rtt_sum_us,rtts,rtt_min_us,rtt_max_us,cwnd_pkts,rate_Bps,"
		"lost_pkts,delivered_pkts,retrans_pkts,arm,queue_pkts\n");
	for (int n = 0; n < bin_count; n++)
		for (int i = 0; i < flow_count; i++) {
			const struct bin *bin = &flows[i].bins[n];

			if (!bin->open)
				continue;
			fprintf(file, "%d,%d,%llu,%llu,%u,%u,%u,%u,%llu,%llu,%llu,%llu,%s,%u\n", n, i,
				(unsigned long long)bin->received_bytes,
				(unsigned long long)bin->rtt_sum_us, bin->rtts, bin->rtt_min_us,
				bin->rtt_max_us, bin->cwnd_pkts, (unsigned long long)bin->rate_Bps,
				(unsigned long long)bin->lost_pkts,
				(unsigned long long)bin->delivered_pkts,
				(unsigned long long)bin->retrans_pkts, bin->arm, bin->queue_pkts);
		}
	if (fclose(file))
		die("csv");
}

void report_totals(const char *stem, uint64_t busy_ns, uint64_t idle, uint64_t process)
{
	FILE *file = output(stem, ".json");

	fprintf(file, "{\"busy_ns\":%llu,\"idle_ns\":%llu,\"process_ns\":%llu,\"flows\":[",
		(unsigned long long)busy_ns, (unsigned long long)idle, (unsigned long long)process);
	for (int i = 0; i < flow_count; i++) {
		const struct flow *flow = &flows[i];

		fprintf(file, "%s{\"sent_bytes\":%llu,\"received_bytes\":%llu,\"acked_bytes\":%llu,"
			"\"stop_received_bytes\":%llu,\"drained\":%s,\"retrans_pkts\":%llu,"
			"\"lost_pkts\":%llu,\"delivered_pkts\":%llu,\"switches\":%llu,\"rtt_counts\":[",
			i ? "," : "", (unsigned long long)flow->sent_bytes,
			(unsigned long long)flow->received_bytes, (unsigned long long)flow->acked_bytes,
			(unsigned long long)flow->stop_received_bytes,
			flow->phase == CLOSED ? "true" : "false", (unsigned long long)flow->retrans_pkts,
			(unsigned long long)flow->lost_pkts, (unsigned long long)flow->delivered_pkts,
			(unsigned long long)flow->switches);
		for (int n = 0; n < RTT_BINS; n++)
			fprintf(file, "%s%u", n ? "," : "", flow->rtt_histogram[n]);
		fprintf(file, "]}");
	}
	fprintf(file, "],\"rtt_upper_us\":[");
	for (int n = 0; n < RTT_BINS; n++)
		fprintf(file, "%s%u", n ? "," : "", rtt_upper_us(n));
	fprintf(file, "]}\n");
	if (fclose(file))
		die("json");
}
