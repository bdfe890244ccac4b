// SPDX-License-Identifier: GPL-2.0-only
/* The traffic of `stress`: sources that send a pattern and end, sinks that check every byte. */
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/epoll.h>

#include "stress.h"

#define CHUNK		16384
#define PERIOD		251
#define PACE_MAX	40000	/* bytes per second of a flow, */
#define PACE_ALL	4000000	/* and of all together */
#define OPENED_AT_ONCE	8
#define GRACE_NS	3000000000LL

struct sink {
	int fd;
	__u32 header[3];
	size_t header_len;
	__u64 received;
	bool used;
};

struct source sources[FLOWS_MAX];
struct sockaddr_in target = { .sin_family = AF_INET };
bool draining;

static struct sink sinks[SINKS_MAX];
static __u8 pattern[CHUNK + PERIOD];
static int epoll, listener;
static size_t flows_wanted, flow_count;

static void watch(int fd, __u32 mask, void *owner)
{
	struct epoll_event e = { .events = mask, .data.ptr = owner };

	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e))
		die("epoll_ctl");
}

static void source_start(struct source *s)
{
	static __u32 ids;
	int cookie_len = sizeof(__u64), buffer = 65536, pace = PACE_ALL / flows_wanted;
	__u64 cookie;

	s->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (s->fd < 0)
		die("socket");
	if (setsockopt(s->fd, IPPROTO_TCP, TCP_CONGESTION, "mutant", 6))
		die("TCP_CONGESTION mutant");
	setsockopt(s->fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer));
	pace = pace < PACE_MAX ? pace : PACE_MAX;
	/* Most are paced, so that ACKs come one by one; the others fill the queue in bursts. */
	if (rnd_below(&seed, 4))
		setsockopt(s->fd, SOL_SOCKET, SO_MAX_PACING_RATE, &pace, sizeof(pace));
	if (connect(s->fd, (struct sockaddr *)&target, sizeof(target)) && errno != EINPROGRESS)
		die("connect");
	if (getsockopt(s->fd, SOL_SOCKET, SO_COOKIE, &cookie, (socklen_t *)&cookie_len))
		die("SO_COOKIE");
	s->id = ++ids;
	s->quota = 4096 + rnd_below(&seed, 150000);
	s->reset = rnd_below(&seed, 8) == 0;
	s->sent = 0;
	s->connected = false;
	s->shut = false;
	s->life = life_of(cookie);
	count.started++;
	watch(s->fd, EPOLLOUT | EPOLLIN | EPOLLET, s);
}

static void source_end(struct source *s)
{
	count.bytes_sent += s->reset ? 0 : s->sent;
	s->life->sent = s->sent;
	s->life->finished = !s->reset;
	close(s->fd);
	s->fd = -1;
	if (!draining)
		source_start(s);
}

static void source_write(struct source *s)
{
	static const struct linger reset = { .l_onoff = 1 };

	while (s->sent < s->quota) {
		__u32 header[3] = { s->id, s->quota, s->reset };
		const void *from = pattern + (s->sent + s->id) % PERIOD;
		size_t want = s->quota - s->sent;
		ssize_t n;

		if (s->sent < sizeof(header)) {
			from = (__u8 *)header + s->sent;
			want = sizeof(header) - s->sent;
		}
		n = send(s->fd, from, want < CHUNK ? want : CHUNK, MSG_NOSIGNAL);
		if (n < 0) {
			if (errno != EAGAIN)
				die("send");
			return;
		}
		s->sent += n;
		if (s->reset && s->sent > s->quota / 2) {
			setsockopt(s->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
			count.reset++;
			source_end(s);
			return;
		}
	}
	if (!s->shut) {
		shutdown(s->fd, SHUT_WR);
		s->shut = true;
	}
}

static void source_event(struct source *s, __u32 mask)
{
	__u8 byte;

	if (s->fd < 0)
		return;
	if (mask & EPOLLERR) {
		fprintf(stderr, "a flow broke after %llu bytes\n", (unsigned long long)s->sent);
		exit(1);
	}
	s->connected = true;
	if ((mask & EPOLLIN) && recv(s->fd, &byte, 1, 0) == 0) {
		count.completed++;
		source_end(s);
		return;
	}
	if (mask & EPOLLOUT)
		source_write(s);
}

static void sink_accept(void)
{
	int fd;

	while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		size_t i = 0;

		while (sinks[i].used)
			i++;
		sinks[i] = (struct sink){ .fd = fd, .used = true };
		watch(fd, EPOLLIN, &sinks[i]);
	}
}

static void sink_read(struct sink *k)
{
	static __u8 buffer[CHUNK];
	bool header = k->header_len < sizeof(k->header);
	ssize_t n;

	if (header)
		n = recv(k->fd, (__u8 *)k->header + k->header_len,
			 sizeof(k->header) - k->header_len, 0);
	else
		n = recv(k->fd, buffer, sizeof(buffer), 0);
	if (n < 0 && errno == EAGAIN)
		return;
	if (n > 0) {
		if (header)
			k->header_len += n;
		else if (memcmp(buffer, pattern + (k->received + k->header[0]) % PERIOD, n))
			count.wrong_bytes++;
		k->received += n;
		return;
	}
	if (header ? n == 0 : !k->header[2]) {
		count.bytes_received += k->received;
		if (n < 0 || header || k->received != k->header[1])
			count.wrong_lengths++;
	}
	close(k->fd);
	k->used = false;
}

/* Wait for something to happen, and deal with it. Returns the sources that are open. */
size_t traffic_serve(int timeout_ms)
{
	struct epoll_event ready[256];
	int i, n = epoll_wait(epoll, ready, 256, timeout_ms);
	size_t open = 0, s;

	for (i = 0; i < n; i++) {
		void *owner = ready[i].data.ptr;

		if (!owner)
			sink_accept();
		else if ((struct source *)owner >= sources &&
			 (struct source *)owner < sources + FLOWS_MAX)
			source_event(owner, ready[i].events);
		else
			sink_read(owner);
	}
	/* A busy kernel loses handshakes that come all at once. */
	for (i = 0; i < OPENED_AT_ONCE && flow_count < flows_wanted && !draining; i++)
		source_start(&sources[flow_count++]);
	for (s = 0; s < flow_count; s++)
		open += sources[s].fd >= 0;
	return open;
}

static void listen_in(const char *netns)
{
	char path[256];
	int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), there, one = 1;

	snprintf(path, sizeof(path), "/var/run/netns/%s", netns);
	there = open(path, O_RDONLY | O_CLOEXEC);
	if (home < 0 || there < 0 || setns(there, CLONE_NEWNET))
		die(path);
	listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(listener, (struct sockaddr *)&target, sizeof(target)) || listen(listener, 1024))
		die("listen");
	if (setns(home, CLONE_NEWNET))
		die("setns home");
	close(there);
	close(home);
	watch(listener, EPOLLIN, NULL);
}

/* Serve the sinks in a namespace; flows to them are opened from now on, a few at a time. */
void traffic_start(size_t flows, const char *netns)
{
	size_t i;

	for (i = 0; i < sizeof(pattern); i++)
		pattern[i] = i % PERIOD * 7;
	epoll = epoll_create1(EPOLL_CLOEXEC);
	listen_in(netns);
	flows_wanted = flows;
	for (i = 0; i < flows; i++)
		sources[i].fd = -1;
}

/* Let the sinks see their ends. A reset is sent once: if lost, its sink waits for ever. */
void traffic_end(void)
{
	__s64 until = now_ns() + GRACE_NS;
	size_t i;

	while (now_ns() < until)
		traffic_serve(100);
	for (i = 0; i < SINKS_MAX; i++)
		count.wrong_lengths += sinks[i].used && !sinks[i].header[2] &&
				       sinks[i].header_len == sizeof(sinks[i].header);
}
