// SPDX-License-Identifier: Apache-2.0
/*
 * Source and sink of a scenario's flows in one process, with their measurements.
 *
 *   traffic SCHEDULE FLOWS END_MS OUT [PID]
 *
 * SCHEDULE is the input of /dev/lablink; writing it is time 0. FLOWS has one line a flow:
 * "congestion-control default-arm start-us stop-us server", default-arm "-" where it does not matter,
 * server the number of the address to which the flow goes, from 0. The samples, one line a flow and
 * 100 ms, go to OUT.csv, the totals to OUT.json, and a line of JSON each 500 ms to the live channel. PID
 * is a process whose processor time is reported.
 *
 * PATH_HEADER names the header that knows the path between source and sink; by default the lab's.
 *
 * It spends little of the guest's time. The sink discards in the kernel (MSG_TRUNC) once in 10 ms,
 * and no packet wakes it (SO_RCVLOWAT, which also makes the receiver acknowledge as one that reads
 * at once). The source wakes once in half of TCP_NOTSENT_LOWAT.
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

#include "traffic.h"

#define DRAIN_MS 10000
#define PORT 5001 /* port of flow 0; the others' follow, as flows may share an address */
#define CHUNK_BYTES (256 * 1024)
#define NOTSENT_BYTES (256 * 1024)
#define SOCKET_BUFFER_BYTES (256 * 1024 * 1024)
#define SERVER_NET 0x0a020001U /* address of server 0: 10.2.0.1 */
#define ARM_PARAMETER "/sys/module/tcp_mutant/parameters/default_arm"

struct flow *flows;
int flow_count;
int bin_count;
uint64_t start_ns;
struct lablink_counters counters;

static char chunk[CHUNK_BYTES];
static int epoll_fd;

void die(const char *what)
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

#ifndef PATH_HEADER
#define PATH_HEADER "lab_path.h"
#endif
#include PATH_HEADER

static void listen_for(struct flow *flow, int index)
{
	struct sockaddr_in local = address(SERVER_NET, flow->server, PORT + index);
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
	struct sockaddr_in remote = address(SERVER_NET, flow->server, PORT + index);
	int lowat = NOTSENT_BYTES;

	if (strcmp(flow->arm, "-"))
		set_default_arm(flow->arm);
	flow->source = path_source(index);
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

void drain_sink(struct flow *flow)
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

static void tick(int index)
{
	int bin_index = index / BIN_SAMPLES;
	uint64_t now = now_us();

	path_read();
	for (int i = 0; i < flow_count; i++) {
		struct flow *flow = &flows[i];
		struct bin *bin = &flow->bins[bin_index];

		if (flow->phase == DRAINING || flow->phase == CLOSED)
			drain(flow);
		else
			measure(flow, i, bin);
		bin->queue_pkts = counters.queue_pkts;
		if (flow->phase == SENDING && now >= flow->stop_us) {
			flow->stop_received_bytes = flow->received_bytes;
			shutdown(flow->source, SHUT_WR);
			flow->phase = DRAINING;
		}
	}
	if ((index + 1) % (BIN_SAMPLES * LIVE_BINS) == 0)
		report_live(bin_index);
}

static void read_flows(const char *path)
{
	unsigned long long start, stop;
	struct flow flow = { .source = -1, .sink = -1, .listener = -1 };
	FILE *file = fopen(path, "r");
	int fields;

	if (!file)
		die(path);
	flows = zalloc((LABLINK_FLOWS - 1) * sizeof(*flows));
	while ((fields = fscanf(file, "%15s %15s %llu %llu %d", flow.cc, flow.arm, &start, &stop,
				&flow.server)) == 5) {
		if (flow_count == LABLINK_FLOWS - 1) {
			fprintf(stderr, "traffic: %s: more than %d flows\n", path, flow_count);
			exit(1);
		}
		flow.start_us = start;
		flow.stop_us = stop;
		flow.bins = zalloc(bin_count * sizeof(*flow.bins));
		flows[flow_count++] = flow;
	}
	if (fields != EOF || ferror(file)) {
		fprintf(stderr, "traffic: %s: line %d is not a flow\n", path, flow_count + 1);
		exit(1);
	}
	fclose(file);
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

/* After the end, data in flight arrives, so that sent and received bytes can be compared. */
static void settle(void)
{
	struct timespec pause = { .tv_nsec = SAMPLE_MS * 1000000L };
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
			drain(flow);
			open |= flow->phase == DRAINING;
		}
	}
}

int main(int argc, char *argv[])
{
	uint64_t idle, busy, process, end;
	int samples;

	if (argc < 5) {
		fprintf(stderr, "usage: traffic SCHEDULE FLOWS END_MS OUT [PID]\n");
		return 2;
	}
	samples = (atoi(argv[3]) + SAMPLE_MS - 1) / SAMPLE_MS;
	bin_count = (samples + BIN_SAMPLES - 1) / BIN_SAMPLES;
	measure_init();
	report_open();
	read_flows(argv[2]);
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	make_listeners();
	path_start(argv[1]);
	idle = idle_ns();
	process = argc > 5 ? process_ns(argv[5]) : 0;
	run(samples);
	end = now_us();
	idle = idle_ns() - idle;
	busy = end * 1000 - idle;
	process = argc > 5 ? process_ns(argv[5]) - process : 0;
	settle();
	report_bins(argv[4]);
	report_totals(argv[4], busy, idle, process);
	return 0;
}
