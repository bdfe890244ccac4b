/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients of the guest share where they run, and the link's clock and counters. This file is for a program
 * with die(), `link_fd`, `start_ns` and `counters`, and CLIENT_NETNS and CLOCK_POLL_NS.
 */
#ifndef LABLINK_CLIENT_H
#define LABLINK_CLIENT_H

static void enter_netns(void)
{
	int fd = open(CLIENT_NETNS, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || setns(fd, CLONE_NEWNET))
		die(CLIENT_NETNS);
	close(fd);
}

static void read_link(void)
{
	if (read(link_fd, &counters, sizeof(counters)) != sizeof(counters))
		die("/dev/lablink");
}

/* Another process starts the link's clock. */
static void await_link(void)
{
	struct timespec pause = { .tv_nsec = CLOCK_POLL_NS };

	link_fd = open("/dev/lablink", O_RDWR | O_CLOEXEC);
	if (link_fd < 0)
		die("/dev/lablink");
	for (read_link(); !counters.start_ns; read_link())
		nanosleep(&pause, NULL);
	start_ns = counters.start_ns;
}

#endif
