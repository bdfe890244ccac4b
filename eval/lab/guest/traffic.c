// SPDX-License-Identifier: Apache-2.0
/*
 * Source and sink of a scenario's flows in one process, and what is measured of them.
 *
 *   traffic SCHEDULE FLOWS END_MS OUT [PID]
 *
 * SCHEDULE is what /dev/lablink takes; writing it is time 0. FLOWS has one line a flow:
 * "congestion-control default-arm start-us stop-us", default-arm "-" where it does not matter. The
 * samples, one line a flow and 100 ms, go to OUT.csv, the totals to OUT.json, and a line of JSON each
 * 500 ms to the live channel. PID is a process whose processor time is reported.
 *
 * It spends little of the guest's time: the sink discards in the kernel (MSG_TRUNC) once in 10 ms,
 * and is never woken by a packet (SO_RCVLOWAT; it also makes the receiver acknowledge as one that
 * reads at once), and the source is woken once in half of TCP_NOTSENT_LOWAT.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "../link/lablink.h"

#define SAMPLE_MS 10
#define BIN_SAMPLES 10
#define LIVE_BINS 5
#define DRAIN_MS 10000
#define PORT 5001
#define CHUNK_BYTES (256 * 1024)
#define NOTSENT_BYTES (256 * 1024)
#define SOCKET_BUFFER_BYTES (256 * 1024 * 1024)
#define CLIENT_NET 0x0a010001U /* flow 0 is 10.1.0.1, at the server 10.2.0.1 */
#define SERVER_NET 0x0a020001U
#define SERVER_NETNS "/run/netns/server"
#define LIVE_FIFO "/run/lab/live"
#define ARM_PARAMETER "/sys/module/tcp_mutant/parameters/default_arm"
#define NAME_MAX_CC 16

/* The RTT histogram's upper edges grow by 2 % from 100 us: exact enough for a percentile. */
#define RTT_BINS 600
#define RTT_FIRST_US 100.0
#define RTT_GROWTH 1.02

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
	enum phase phase;
	int source, sink, listener;
	uint64_t sent_bytes, received_bytes, acked_bytes;
	uint64_t stop_received_bytes; /* of those received before stop_us */
	uint64_t retrans_pkts, lost_pkts, delivered_pkts;
	uint64_t switches;
	char held_by[NAME_MAX_CC];
	struct bin *bins;
	uint32_t rtt_histogram[RTT_BINS];
};

static struct flow *flows;
static int flow_count;
static int bin_count;
static uint64_t start_ns;
static uint32_t rtt_edge_us[RTT_BINS];
static struct lablink_counters counters;
static char chunk[CHUNK_BYTES];
static int epoll_fd, link_fd, live_fd;

static void die(const char *what)
{
	fprintf(stderr, "traffic: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (now.tv_sec * 1000000000ULL + now.tv_nsec - start_ns) / 1000;
}

static void *zalloc(size_t size)
{
	void *memory = calloc(1, size);

	if (!memory)
		die("calloc");
	return memory;
}

static void watch(int fd, uint32_t events, uint64_t tag)
{
	struct epoll_event event = { .events = events, .data.u64 = tag };

	if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event))
		die("epoll_ctl");
}

static struct sockaddr_in address(uint32_t net, int index, int port)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(net + index),
		.sin_port = htons(port),
	};
}

static int new_socket(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), size = SOCKET_BUFFER_BYTES;

	if (fd < 0)
		die("socket");
	/* No window and no buffer may hold a flow back; memory is taken only as it fills. */
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)) ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)))
		die("SO_SNDBUFFORCE");
	return fd;
}

static void listen_for(struct flow *flow, int index)
{
	struct sockaddr_in local = address(SERVER_NET, index, PORT);
	int one = 1;

	flow->listener = new_socket();
	setsockopt(flow->listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(flow->listener, (struct sockaddr *)&local, sizeof(local)) || listen(flow->listener, 1))
		die("listen");
}

/* Sockets belong to the network namespace in which they were made. */
static void make_listeners(void)
{
	int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	int server = open(SERVER_NETNS, O_RDONLY | O_CLOEXEC);

	if (home < 0 || server < 0 || setns(server, CLONE_NEWNET))
		die(SERVER_NETNS);
	for (int i = 0; i < flow_count; i++)
		listen_for(&flows[i], i);
	if (setns(home, CLONE_NEWNET))
		die("setns");
	close(server);
	close(home);
}

static void set_default_arm(const char *arm)
{
	int fd = open(ARM_PARAMETER, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, arm, strlen(arm)) < 0)
		die(ARM_PARAMETER);
	close(fd);
}

static void start(struct flow *flow, int index)
{
	struct sockaddr_in local = address(CLIENT_NET, index, 0), remote = address(SERVER_NET, index, PORT);
	int lowat = NOTSENT_BYTES;

	if (strcmp(flow->arm, "-"))
		set_default_arm(flow->arm);
	flow->source = new_socket();
	if (bind(flow->source, (struct sockaddr *)&local, sizeof(local)))
		die("bind");
	if (setsockopt(flow->source, IPPROTO_TCP, TCP_CONGESTION, flow->cc, strlen(flow->cc)))
		die(flow->cc);
	setsockopt(flow->source, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &lowat, sizeof(lowat));
	if (connect(flow->source, (struct sockaddr *)&remote, sizeof(remote)) && errno != EINPROGRESS)
		die("connect");
	flow->phase = CONNECTING;
	watch(flow->source, EPOLLOUT | EPOLLET, index);
}

static void supply(struct flow *flow)
{
	ssize_t done;

	if (flow->phase == CONNECTING)
		flow->phase = SENDING;
	if (flow->phase != SENDING)
		return;
	while ((done = send(flow->source, chunk, sizeof(chunk), MSG_NOSIGNAL)) > 0)
		flow->sent_bytes += done;
	if (done < 0 && errno != EAGAIN)
		die("send");
}

static void drain_sink(struct flow *flow)
{
	int lowat = SOCKET_BUFFER_BYTES / 2;
	ssize_t got;

	if (flow->sink < 0) {
		flow->sink = accept4(flow->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (flow->sink < 0)
			return;
		close(flow->listener);
		flow->listener = -1;
		if (setsockopt(flow->sink, SOL_SOCKET, SO_RCVLOWAT, &lowat, sizeof(lowat)))
			die("SO_RCVLOWAT");
	}
	while ((got = recv(flow->sink, NULL, 1 << 30, MSG_TRUNC | MSG_DONTWAIT)) > 0)
		flow->received_bytes += got;
	if (got == 0 && flow->phase == DRAINING) {
		flow->phase = CLOSED;
		close(flow->source);
		close(flow->sink);
	}
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

/* Folds one sample of a flow into its bin; counters of a bin are differences of running totals. */
static void sample(struct flow *flow, int index, struct bin *bin)
{
	const struct lablink_flow_counters *link = &counters.flow[(index + 1) % LABLINK_FLOWS];
	uint64_t lost = link->dropped_pkts + link->lost_pkts, received = flow->received_bytes;
	struct tcp_info info = {};
	socklen_t length = sizeof(info);

	if (flow->phase != WAITING && flow->phase != CLOSED)
		drain_sink(flow);
	bin->received_bytes += flow->received_bytes - received;
	bin->lost_pkts += lost - flow->lost_pkts;
	bin->delivered_pkts += link->delivered_pkts - flow->delivered_pkts;
	flow->lost_pkts = lost;
	flow->delivered_pkts = link->delivered_pkts;
	if (flow->phase != SENDING && flow->phase != DRAINING)
		return;
	if (getsockopt(flow->source, IPPROTO_TCP, TCP_INFO, &info, &length))
		die("TCP_INFO");
	bin->open = true;
	bin->retrans_pkts += info.tcpi_total_retrans - flow->retrans_pkts;
	flow->retrans_pkts = info.tcpi_total_retrans;
	flow->acked_bytes = info.tcpi_bytes_acked ? info.tcpi_bytes_acked - 1 : 0; /* without the SYN */
	bin->cwnd_pkts = info.tcpi_snd_cwnd;
	bin->rate_Bps = info.tcpi_delivery_rate;
	if (info.tcpi_rtt)
		count_rtt(flow, bin, info.tcpi_rtt);
	read_arm(flow, bin);
}

static void tell_live(int bin_index)
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

static void tick(int index)
{
	size_t wanted = offsetof(struct lablink_counters, flow[flow_count + 1]);
	int bin_index = index / BIN_SAMPLES;
	uint64_t now = now_us();

	if (read(link_fd, &counters, wanted) != (ssize_t)wanted)
		die("/dev/lablink");
	for (int i = 0; i < flow_count; i++) {
		struct flow *flow = &flows[i];
		struct bin *bin = &flow->bins[bin_index];

		sample(flow, i, bin);
		bin->queue_pkts = counters.queue_pkts;
		if (flow->phase == SENDING && now >= flow->stop_us) {
			flow->stop_received_bytes = flow->received_bytes;
			shutdown(flow->source, SHUT_WR);
			flow->phase = DRAINING;
		}
	}
	if ((index + 1) % (BIN_SAMPLES * LIVE_BINS) == 0)
		tell_live(bin_index);
}

/* Nanoseconds that processor 0 was idle, from the kernel's own exact count. */
static uint64_t idle_ns(void)
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

/* Nanoseconds of processor time of all threads of a process. */
static uint64_t process_ns(const char *pid)
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

static void read_flows(const char *path)
{
	unsigned long long start, stop;
	struct flow flow = { .source = -1, .sink = -1, .listener = -1 };
	FILE *file = fopen(path, "r");

	if (!file)
		die(path);
	flows = zalloc((LABLINK_FLOWS - 1) * sizeof(*flows));
	while (flow_count < LABLINK_FLOWS - 1 &&
	       fscanf(file, "%15s %15s %llu %llu", flow.cc, flow.arm, &start, &stop) == 4) {
		flow.start_us = start;
		flow.stop_us = stop;
		flow.bins = zalloc(bin_count * sizeof(*flow.bins));
		flows[flow_count++] = flow;
	}
	fclose(file);
}

static void start_link(const char *path)
{
	struct stat info;
	char *schedule;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &info))
		die(path);
	schedule = zalloc(info.st_size);
	if (read(fd, schedule, info.st_size) != info.st_size)
		die(path);
	close(fd);
	link_fd = open("/dev/lablink", O_RDWR | O_CLOEXEC);
	if (link_fd < 0 || write(link_fd, schedule, info.st_size) != info.st_size ||
	    read(link_fd, &counters, sizeof(counters)) != sizeof(counters))
		die("/dev/lablink");
	start_ns = counters.start_ns;
	free(schedule);
}

static int timer(uint64_t at_ns, uint64_t every_ns)
{
	struct itimerspec when = {
		.it_value = { .tv_sec = at_ns / 1000000000, .tv_nsec = at_ns % 1000000000 },
		.it_interval = { .tv_sec = every_ns / 1000000000, .tv_nsec = every_ns % 1000000000 },
	};
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);

	if (fd < 0 || timerfd_settime(fd, TFD_TIMER_ABSTIME, &when, NULL))
		die("timerfd");
	return fd;
}

#define TAG_TICK 1000000
#define TAG_START 2000000

static void run(int samples)
{
	int clock = timer(start_ns + SAMPLE_MS * 1000000ULL, SAMPLE_MS * 1000000ULL), done = 0;
	struct epoll_event events[64];
	uint64_t expirations;

	watch(clock, EPOLLIN, TAG_TICK);
	for (int i = 0; i < flow_count; i++)
		watch(timer(start_ns + flows[i].start_us * 1000, 0), EPOLLIN | EPOLLONESHOT, TAG_START + i);
	while (done < samples) {
		int count = epoll_wait(epoll_fd, events, 64, -1);

		for (int i = 0; i < count; i++) {
			uint64_t tag = events[i].data.u64;

			if (tag == TAG_TICK) {
				if (read(clock, &expirations, sizeof(expirations)) != sizeof(expirations))
					continue;
				/* A late sample counts into the bin of its own time. */
				done += expirations;
				if (done <= samples)
					tick(done - 1);
			} else if (tag >= TAG_START) {
				start(&flows[tag - TAG_START], tag - TAG_START);
			} else {
				supply(&flows[tag]);
			}
		}
	}
	close(clock);
}

/* After the end, what is on its way arrives, so that sent and received can be compared. */
static void settle(void)
{
	struct timespec pause = { .tv_nsec = SAMPLE_MS * 1000000L };
	struct tcp_info info;
	socklen_t length;
	bool open = true;

	for (int waited = 0; open && waited < DRAIN_MS; waited += SAMPLE_MS) {
		open = false;
		nanosleep(&pause, NULL);
		for (int i = 0; i < flow_count; i++) {
			struct flow *flow = &flows[i];

			if (flow->phase == SENDING) {
				flow->stop_received_bytes = flow->received_bytes;
				shutdown(flow->source, SHUT_WR);
				flow->phase = DRAINING;
			}
			if (flow->phase == DRAINING) {
				drain_sink(flow);
				length = sizeof(info);
				if (flow->phase == DRAINING &&
				    !getsockopt(flow->source, IPPROTO_TCP, TCP_INFO, &info, &length))
					flow->acked_bytes = info.tcpi_bytes_acked - 1;
			}
			open |= flow->phase == DRAINING;
		}
	}
}

static void write_bins(FILE *file)
{
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
}

static void write_totals(FILE *file, uint64_t busy, uint64_t idle, uint64_t process)
{
	fprintf(file, "{\"busy_ns\":%llu,\"idle_ns\":%llu,\"process_ns\":%llu,\"flows\":[",
		(unsigned long long)busy, (unsigned long long)idle, (unsigned long long)process);
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
		fprintf(file, "%s%u", n ? "," : "", rtt_edge_us[n]);
	fprintf(file, "]}\n");
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

int main(int argc, char *argv[])
{
	uint64_t idle, busy, process, end;
	double edge = RTT_FIRST_US;
	int samples;
	FILE *file;

	if (argc < 5) {
		fprintf(stderr, "usage: traffic SCHEDULE FLOWS END_MS OUT [PID]\n");
		return 2;
	}
	samples = (atoi(argv[3]) + SAMPLE_MS - 1) / SAMPLE_MS;
	bin_count = (samples + BIN_SAMPLES - 1) / BIN_SAMPLES;
	for (int i = 0; i < RTT_BINS; i++, edge *= RTT_GROWTH)
		rtt_edge_us[i] = edge;
	read_flows(argv[2]);
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	live_fd = open(LIVE_FIFO, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	make_listeners();
	start_link(argv[1]);
	idle = idle_ns();
	process = argc > 5 ? process_ns(argv[5]) : 0;
	run(samples);
	end = now_us();
	idle = idle_ns() - idle;
	busy = end * 1000 - idle;
	process = argc > 5 ? process_ns(argv[5]) - process : 0;
	settle();
	file = output(argv[4], ".csv");
	write_bins(file);
	if (fclose(file))
		die("csv");
	file = output(argv[4], ".json");
	write_totals(file, busy, idle, process);
	if (fclose(file))
		die("json");
	return 0;
}
