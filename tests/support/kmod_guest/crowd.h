/* SPDX-License-Identifier: GPL-2.0-only */
/* What the parts of `crowd` share: the connections, and those who look at them. */
#ifndef CROWD_H
#define CROWD_H

#include <linux/mutant.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>

#include "genl.h"

#define PACKET_BYTES	100
#define DESTINATIONS	8

static inline __s64 now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* Who looks at flows meanwhile. */
enum looker { NOBODY, OF_ANOTHER_NAMESPACE, OF_THIS_NAMESPACE };

/* An answer to a dump: objects (records of a step, or flows), and how long it took. */
struct dumped {
	size_t objects;
	__s64 took_ns;
};

pid_t serve(const char *netns, __u16 port);
void connect_all(size_t count, const char *address, __u16 port);
void first_packets(size_t count);
void live_start(size_t count, __u64 *seed);
void live_send(__s64 now);
void live_resume(__s64 now);
struct dumped ask(int fd, __u16 family, __u8 cmd);
pid_t look(enum looker who);

#endif
