// SPDX-License-Identifier: GPL-2.0-only
/* The connections of `crowd`: a sink in another namespace, and packets to it now and then. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/epoll.h>

#include "crowd.h"

/* A ring of milliseconds, longer than the longest time between two packets of a flow. */
#define SLOTS		1024
#define SHORTEST_MS	333
#define LONGEST_MS	1000

static int *sockets;
static size_t opened;

static struct {
	__u32 *next;		/* the flow after this one in its slot, plus 1 */
	__u32 *every_ms;
	__u32 slot[SLOTS];	/* the first flow, plus 1 */
	__s64 at_ms;		/* slots before this are done */
	__s64 start_ns;
} live;

static const char packet[PACKET_BYTES];

static void swallow(int port_socket)
{
	static char buffer[1 << 14];
	struct epoll_event events[256], event = { .events = EPOLLIN, .data.fd = port_socket };
	int poll = epoll_create1(0), n, i, fd;

	if (epoll_ctl(poll, EPOLL_CTL_ADD, port_socket, &event))
		die("epoll");
	for (;;) {
		n = epoll_wait(poll, events, 256, -1);
		for (i = 0; i < n; i++) {
			if (events[i].data.fd != port_socket) {
				if (recv(events[i].data.fd, buffer, sizeof(buffer), 0) <= 0)
					close(events[i].data.fd);
				continue;
			}
			while ((fd = accept4(port_socket, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
				event.data.fd = fd;
				if (epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event))
					die("epoll");
			}
		}
	}
}

/* Accept and read everything in @netns. */
pid_t serve(const char *netns, __u16 port)
{
	struct sockaddr_in here = { .sin_family = AF_INET, .sin_port = htons(port) };
	char path[256];
	pid_t child;
	int fd;

	snprintf(path, sizeof(path), "/var/run/netns/%s", netns);
	child = fork();
	if (child)
		return child;
	fd = open(path, O_RDONLY);
	if (fd < 0 || setns(fd, CLONE_NEWNET))
		die(path);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&here, sizeof(here)) || listen(fd, 4096))
		die("listening");
	swallow(fd);
	exit(0);
}

/* Open @count connections more, to addresses from @address on in turn. */
void connect_all(size_t count, const char *address, __u16 port)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port) };
	__u32 first = ntohl(inet_addr(address));
	int one = 1, fd;
	size_t i;

	sockets = realloc(sockets, (opened + count) * sizeof(*sockets));
	if (!sockets)
		die("memory");
	for (i = 0; i < count; i++) {
		fd = socket(AF_INET, SOCK_STREAM, 0);
		if (fd < 0 || setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "mutant", 6) ||
		    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)))
			die("a socket under mutant");
		to.sin_addr.s_addr = htonl(first + i % DESTINATIONS);
		if (connect(fd, (struct sockaddr *)&to, sizeof(to)))
			die("connecting");
		if (fcntl(fd, F_SETFL, O_NONBLOCK))
			die("nonblocking");
		sockets[opened++] = fd;
	}
}

/* The last @count connections send a packet each. */
void first_packets(size_t count)
{
	size_t i;

	for (i = opened - count; i < opened; i++)
		if (send(sockets[i], packet, sizeof(packet), 0) != sizeof(packet))
			die("sending");
}

static void live_put(__u32 flow, __s64 at_ms)
{
	__u32 *slot = &live.slot[at_ms % SLOTS];

	live.next[flow] = *slot;
	*slot = flow + 1;
}

/* From now on the first @count connections send 1 to 3 packets a second each. */
void live_start(size_t count, __u64 *seed)
{
	size_t i;

	live.next = calloc(count, sizeof(*live.next));
	live.every_ms = calloc(count, sizeof(*live.every_ms));
	if (!live.next || !live.every_ms)
		die("memory");
	live.start_ns = now_ns();
	for (i = 0; i < count; i++) {
		live.every_ms[i] = SHORTEST_MS + i * (LONGEST_MS - SHORTEST_MS) / count;
		live_put(i, rnd_below(seed, live.every_ms[i]));
	}
}

/* Go on to @now, and send what is due by then, or leave it out. */
static void live_until(__s64 now, bool sends)
{
	__s64 until_ms = (now - live.start_ns) / 1000000;
	__u32 flow, next;

	for (; live.at_ms < until_ms; live.at_ms++) {
		next = live.slot[live.at_ms % SLOTS];
		live.slot[live.at_ms % SLOTS] = 0;
		while (next) {
			flow = next - 1;
			next = live.next[flow];
			/* A full buffer only means that the sink is slow. */
			if (sends && send(sockets[flow], packet, sizeof(packet), 0) < 0 &&
			    errno != EAGAIN)
				die("sending");
			live_put(flow, live.at_ms + live.every_ms[flow]);
		}
	}
}

/* Send what is due by @now. */
void live_send(__s64 now)
{
	live_until(now, true);
}

/* Leave out what was due while nobody sent, so that it does not come all at once. */
void live_resume(__s64 now)
{
	live_until(now, false);
}
