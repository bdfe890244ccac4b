// SPDX-License-Identifier: GPL-2.0-only
/* Who asks for flows: the one who steers, and users without rights who ask in a loop. */
#include <grp.h>
#include <sched.h>
#include <sys/prctl.h>

#include "crowd.h"

#define NOBODY_ID	65534

static size_t objects_in(const struct nlmsghdr *h)
{
	const struct nlattr *a;
	const void *attrs;
	size_t len;

	attrs = message_attrs(h, &len);
	if (((const struct genlmsghdr *)NLMSG_DATA((struct nlmsghdr *)h))->cmd != MUTANT_CMD_STEP_GET)
		return 1;
	a = attr_find(attrs, len, MUTANT_A_STEP_RECORDS);
	return a ? attr_len(a) / sizeof(struct mutant_record) : 0;
}

/* Ask for all flows, or for a step, and count the objects of the answer. */
struct dumped ask(int fd, __u16 family, __u8 cmd)
{
	static __u8 buffer[1 << 16];
	struct dumped result = { .took_ns = -now_ns() };
	static struct request r;

	request_start(&r, family, cmd, NLM_F_DUMP);
	if (send(fd, r.data, r.len, 0) < 0)
		die("asking for objects");
	for (;;) {
		ssize_t n = recv(fd, buffer, sizeof(buffer), 0);
		const struct nlmsghdr *h = (const struct nlmsghdr *)buffer;

		if (n < 0)
			die("reading objects");
		for (; NLMSG_OK(h, n); h = NLMSG_NEXT(h, n)) {
			if (h->nlmsg_type == NLMSG_DONE) {
				result.took_ns += now_ns();
				return result;
			}
			if (h->nlmsg_type == NLMSG_ERROR) {
				errno = -*(const int *)NLMSG_DATA(h);
				die("a dump");
			}
			result.objects += objects_in(h);
		}
	}
}

/* A user without rights, who asks for flows without a pause until killed. */
pid_t look(enum looker who)
{
	__u16 family;
	pid_t child;
	int fd;

	if (who == NOBODY)
		return 0;
	child = fork();
	if (child)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (who == OF_ANOTHER_NAMESPACE && unshare(CLONE_NEWNET))
		die("a namespace");
	fd = genl_open(1 << 20);
	if (setgroups(0, NULL) || setgid(NOBODY_ID) || setuid(NOBODY_ID))
		die("giving up rights");
	family = genl_family(fd, MUTANT_FAMILY_NAME, NULL, NULL);
	for (;;)
		ask(fd, family, MUTANT_CMD_FLOW_GET);
}
