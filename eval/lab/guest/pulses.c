// SPDX-License-Identifier: Apache-2.0
/*
 * Traffic that gives no way: full packets at a constant rate, in the times that a plan has.
 *
 *   pulses PLAN BITS_PER_S
 *
 * PLAN has a line for each time of sending: its begin and its end in microseconds after the link's
 * clock began. A packet has 1500 bytes with its headers. The other end takes none of them.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../link/lablink.h"

#define SOURCE_ADDRESS 0x0a010102U
#define SINK_ADDRESS 0x0a020102U
#define SINK_NETNS "/run/netns/server"
#define PORT 9
#define HEADERS_BYTES 28
#define CLOCK_POLL_NS 1000000

static void die(const char *what)
{
	fprintf(stderr, "pulses: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int bound(uint32_t address)
{
	struct sockaddr_in local = { .sin_family = AF_INET,
				     .sin_addr.s_addr = htonl(address),
				     .sin_port = htons(PORT) };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&local, sizeof(local)))
		die("bind");
	return fd;
}

/* A socket of the other end that nobody reads: without one, its kernel would answer each packet. */
static void make_sink(void)
{
	int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	int other = open(SINK_NETNS, O_RDONLY | O_CLOEXEC);

	if (home < 0 || other < 0 || setns(other, CLONE_NEWNET))
		die(SINK_NETNS);
	bound(SINK_ADDRESS);
	if (setns(home, CLONE_NEWNET))
		die("setns");
	close(other);
	close(home);
}

/* The zero of the link's clock, which another process starts. */
static uint64_t await_link(void)
{
	struct timespec pause = { .tv_nsec = CLOCK_POLL_NS };
	int fd = open("/dev/lablink", O_RDWR | O_CLOEXEC);
	static struct lablink_counters counters;

	if (fd < 0)
		die("/dev/lablink");
	for (;;) {
		if (read(fd, &counters, sizeof(counters)) != sizeof(counters))
			die("/dev/lablink");
		if (counters.start_ns)
			break;
		nanosleep(&pause, NULL);
	}
	close(fd);
	return counters.start_ns;
}

static void wait_until(uint64_t at_ns)
{
	struct timespec at = { .tv_sec = at_ns / 1000000000, .tv_nsec = at_ns % 1000000000 };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL))
		;
}

int main(int argc, char *argv[])
{
	static const char payload[LABLINK_OPPORTUNITY_BYTES - HEADERS_BYTES];
	struct sockaddr_in sink = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(SINK_ADDRESS),
				    .sin_port = htons(PORT) };
	unsigned long long begin_us, end_us;
	uint64_t start_ns, every_ns;
	FILE *plan;
	int fd;

	if (argc != 3) {
		fprintf(stderr, "usage: pulses PLAN BITS_PER_S\n");
		return 2;
	}
	plan = fopen(argv[1], "r");
	if (!plan)
		die(argv[1]);
	every_ns = LABLINK_OPPORTUNITY_BYTES * 8 * 1000000000ULL / strtoull(argv[2], NULL, 10);
	make_sink();
	fd = bound(SOURCE_ADDRESS);
	start_ns = await_link();
	while (fscanf(plan, "%llu %llu", &begin_us, &end_us) == 2)
		for (uint64_t at_ns = begin_us * 1000; at_ns < end_us * 1000; at_ns += every_ns) {
			wait_until(start_ns + at_ns);
			if (sendto(fd, payload, sizeof(payload), 0, (struct sockaddr *)&sink,
				   sizeof(sink)) != sizeof(payload))
				die("sendto");
		}
	return 0;
}
