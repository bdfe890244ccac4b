/* SPDX-License-Identifier: GPL-2.0-only */
/* Just enough generic netlink for the test programs: build a request, send it, walk the answer. */
#ifndef GENL_H
#define GENL_H

#include <errno.h>
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#ifndef SOL_NETLINK
#define SOL_NETLINK 270
#endif

static inline void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

/* Tell the host how far things are, in one line. */
__attribute__((format(printf, 1, 2))) static inline void tell_host(const char *format, ...)
{
	FILE *live = fopen("/run/lab/live", "w");
	va_list values;

	if (!live)
		return;
	va_start(values, format);
	vfprintf(live, format, values);
	va_end(values);
	fputc('\n', live);
	fclose(live);
}

/* A request under construction; `data` holds at most one message. */
struct request {
	size_t len;
	__u8 data[1 << 17];
};

static inline void request_start(struct request *r, __u16 family, __u8 cmd, __u16 flags)
{
	struct nlmsghdr *h = (struct nlmsghdr *)r->data;
	struct genlmsghdr *g = (struct genlmsghdr *)(r->data + NLMSG_HDRLEN);

	memset(r->data, 0, NLMSG_HDRLEN + GENL_HDRLEN);
	h->nlmsg_type = family;
	h->nlmsg_flags = NLM_F_REQUEST | flags;
	g->cmd = cmd;
	g->version = 1;
	r->len = NLMSG_HDRLEN + GENL_HDRLEN;
	h->nlmsg_len = r->len;
}

static inline void request_attr(struct request *r, __u16 type, const void *data, size_t len)
{
	struct nlattr *a = (struct nlattr *)(r->data + r->len);

	a->nla_len = NLA_HDRLEN + len;
	a->nla_type = type;
	memcpy((__u8 *)a + NLA_HDRLEN, data, len);
	memset((__u8 *)a + NLA_HDRLEN + len, 0, NLA_ALIGN(len) - len);
	r->len += NLA_HDRLEN + NLA_ALIGN(len);
	((struct nlmsghdr *)r->data)->nlmsg_len = r->len;
}

static inline int genl_open(unsigned int groups_rcvbuf)
{
	static const int strict[] = { NETLINK_CAP_ACK, NETLINK_EXT_ACK, NETLINK_GET_STRICT_CHK };
	struct sockaddr_nl self = { .nl_family = AF_NETLINK };
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC);
	int one = 1;
	size_t i;

	if (fd < 0)
		die("netlink socket");
	for (i = 0; i < sizeof(strict) / sizeof(*strict); i++)
		if (setsockopt(fd, SOL_NETLINK, strict[i], &one, sizeof(one)))
			die("netlink option");
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &groups_rcvbuf, sizeof(groups_rcvbuf)))
		die("SO_RCVBUFFORCE");
	if (bind(fd, (struct sockaddr *)&self, sizeof(self)))
		die("netlink bind");
	return fd;
}

/* The attribute of a type in a list of attributes, or NULL. */
static inline const struct nlattr *attr_find(const void *list, size_t len, __u16 type)
{
	const __u8 *p = list, *end = p + len;

	while (p + NLA_HDRLEN <= end) {
		const struct nlattr *a = (const struct nlattr *)p;

		if (a->nla_len < NLA_HDRLEN || p + a->nla_len > end)
			return NULL;
		if ((a->nla_type & NLA_TYPE_MASK) == type)
			return a;
		p += NLA_ALIGN(a->nla_len);
	}
	return NULL;
}

static inline const void *attr_data(const struct nlattr *a)
{
	return (const __u8 *)a + NLA_HDRLEN;
}

static inline size_t attr_len(const struct nlattr *a)
{
	return a->nla_len - NLA_HDRLEN;
}

/* The attributes of a generic netlink message. */
static inline const void *message_attrs(const struct nlmsghdr *h, size_t *len)
{
	*len = h->nlmsg_len - NLMSG_HDRLEN - GENL_HDRLEN;
	return (const __u8 *)h + NLMSG_HDRLEN + GENL_HDRLEN;
}

/* Resolve a family; *group gets the id of its multicast group, when asked for. */
static inline __u16 genl_family(int fd, const char *name, const char *group, __u32 *group_id)
{
	static struct request r;
	__u8 reply[8192];
	const struct nlmsghdr *h = (const struct nlmsghdr *)reply;
	const struct nlattr *a;
	const void *attrs;
	__u16 id;
	size_t len;
	ssize_t n;

	request_start(&r, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, 0);
	request_attr(&r, CTRL_ATTR_FAMILY_NAME, name, strlen(name) + 1);
	if (send(fd, r.data, r.len, 0) < 0)
		die("family lookup");
	n = recv(fd, reply, sizeof(reply), 0);
	if (n < (ssize_t)(NLMSG_HDRLEN + GENL_HDRLEN) || h->nlmsg_type == NLMSG_ERROR) {
		fprintf(stderr, "no netlink family %s\n", name);
		exit(1);
	}
	attrs = message_attrs(h, &len);
	a = attr_find(attrs, len, CTRL_ATTR_FAMILY_ID);
	memcpy(&id, attr_data(a), sizeof(id));
	a = group ? attr_find(attrs, len, CTRL_ATTR_MCAST_GROUPS) : NULL;
	if (a) {
		/* The module has one group: the first entry of the list. */
		const struct nlattr *entry = attr_data(a);

		a = attr_find(attr_data(entry), attr_len(entry), CTRL_ATTR_MCAST_GRP_ID);
		memcpy(group_id, attr_data(a), sizeof(*group_id));
	}
	return id;
}

/* xorshift64*: seeded, so that every run is the same. */
static inline __u64 rnd(__u64 *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 2685821657736338717ULL;
}

static inline __u32 rnd_below(__u64 *state, __u32 n)
{
	return (rnd(state) >> 32) * n >> 32;
}

/* Become the one socket that steers. */
static inline void session_open(int socket, __u16 family, __u8 cmd)
{
	static struct request r;
	__u8 reply[4096];

	request_start(&r, family, cmd, NLM_F_ACK);
	if (send(socket, r.data, r.len, 0) < 0 || recv(socket, reply, sizeof(reply), 0) < 0)
		die("session-open");
	errno = -((const struct nlmsgerr *)NLMSG_DATA((struct nlmsghdr *)reply))->error;
	if (errno)
		die("session-open");
}

#endif
