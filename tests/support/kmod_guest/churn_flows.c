// SPDX-License-Identifier: GPL-2.0-only
/* The flows of `churn`: over loopback, in a namespace of the process, tolerant of every error. */
#include <fcntl.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/ioctl.h>

#include "churn.h"

static int listener = -1;
static struct sockaddr_in6 self = { .sin6_family = AF_INET6 };
static socklen_t self_len = sizeof(self);

/* Move to a new network namespace, and set its loopback up. */
void namespace_enter(void)
{
	struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int fd;

	if (unshare(CLONE_NEWNET))
		die("unshare");
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &lo))
		die("lo");
	close(fd);
}

/* IPv4 or IPv6, the listener under `mutant` or not. */
void flows_listen(void)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)&self;

	if (rnd_below(&seed, 2)) {
		self_len = sizeof(*v4);
		*v4 = (struct sockaddr_in){
			.sin_family = AF_INET,
			.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
		};
	} else {
		self.sin6_addr = in6addr_loopback;
	}
	listener = socket(self.sin6_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (listener < 0)
		die("listener");
	if (rnd_below(&seed, 2))
		setsockopt(listener, IPPROTO_TCP, TCP_CONGESTION, "mutant", 6);
	if (bind(listener, (struct sockaddr *)&self, self_len) || listen(listener, 64) ||
	    getsockname(listener, (struct sockaddr *)&self, &self_len))
		die("listen");
}

static void flow_connect(struct pair *p)
{
	int i;

	/* Over loopback the other side is there at once, or was refused its memory. */
	connect(p->client, (struct sockaddr *)&self, self_len);
	for (i = 0; i < 20 && p->server < 0; i++) {
		p->server = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (p->server < 0)
			usleep(500);
	}
}

void flow_open(struct pair *p)
{
	socklen_t len = sizeof(p->cookie);
	int buffer = 16384;

	p->server = -1;
	p->cookie = 0;
	p->client = socket(self.sin6_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (p->client < 0)
		return;
	setsockopt(p->client, IPPROTO_TCP, TCP_CONGESTION, "mutant", 6);
	setsockopt(p->client, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer));
	flow_connect(p);
	if (!getsockopt(p->client, SOL_SOCKET, SO_COOKIE, &p->cookie, &len))
		ADD(flows, 1);
}

void flow_close(struct pair *p, bool reset)
{
	static const struct linger at_once = { .l_onoff = 1 };

	if (reset && p->client >= 0)
		setsockopt(p->client, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	if (p->client >= 0)
		close(p->client);
	if (p->server >= 0)
		close(p->server);
	p->client = -1;
	p->server = -1;
}

/* Send a little each way; what nobody reads stays in flight. */
void flow_talk(struct pair *p, bool read)
{
	static char bytes[4096];

	send(p->client, bytes, 1 + rnd_below(&seed, sizeof(bytes)), MSG_DONTWAIT | MSG_NOSIGNAL);
	if (!read || p->server < 0)
		return;
	while (recv(p->server, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	send(p->server, bytes, 1 + rnd_below(&seed, 64), MSG_DONTWAIT | MSG_NOSIGNAL);
	while (recv(p->client, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
}

/* The application's own choice, or a look at what runs. */
void flow_option(struct pair *p)
{
	static const char *const names[] = {
		"mutant", "mutant", "mutant", "mutant", "cubic", "bbr", "reno", "m/vegas", "m/bbr",
		"m/ltp", "m/cubic", "m/cdg", "m/none", "illinois",
	};
	const char *name = names[rnd_below(&seed, sizeof(names) / sizeof(*names))];
	__u8 cc[64];
	struct tcp_info info;
	char active[16];
	socklen_t len;

	switch (rnd_below(&seed, 4)) {
	case 0:
		len = sizeof(cc);
		getsockopt(p->client, IPPROTO_TCP, TCP_CC_INFO, cc, &len);
		break;
	case 1:
		len = sizeof(info);
		getsockopt(p->client, IPPROTO_TCP, TCP_INFO, &info, &len);
		len = sizeof(active);
		getsockopt(p->client, IPPROTO_TCP, TCP_CONGESTION, active, &len);
		break;
	default:
		setsockopt(p->client, IPPROTO_TCP, TCP_CONGESTION, name, strlen(name));
	}
	ADD(options, 1);
}

/* A disconnect keeps the socket, and so its cookie. */
void flow_reconnect(struct pair *p)
{
	const struct sockaddr none = { .sa_family = AF_UNSPEC };

	connect(p->client, &none, sizeof(none));
	if (p->server >= 0)
		close(p->server);
	p->server = -1;
	flow_connect(p);
}
