// SPDX-License-Identifier: GPL-2.0-only
/* The netlink of `churn`: sessions, batches, dumps. Only what opens may end the process. */
#include "churn.h"
#include "controls.h"

/* The arms with a fixed id, and the first of those that were loaded. */
#define ARMS	(MUTANT_ARM_ID_OWL + 1)

int steer_open(__u16 *family)
{
	const struct timeval patience = { .tv_sec = 5 };
	int control = genl_open(1 << 20);

	setsockopt(control, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	*family = genl_family(control, MUTANT_FAMILY_NAME, NULL, NULL);
	return control;
}

/* Send a request, and read one answer; its length, or less than a header's. */
ssize_t ask(int control, const struct request *r, __u8 *reply, size_t len)
{
	if (send(control, r->data, r->len, 0) < 0)
		return -1;
	return recv(control, reply, len, 0);
}

bool steer_session(int control, __u16 family)
{
	static struct request r;
	const struct nlmsghdr *h;
	__u8 reply[4096], arms = rnd_below(&seed, 2);

	request_start(&r, family, MUTANT_CMD_SESSION_OPEN, NLM_F_ACK);
	request_attr(&r, MUTANT_A_SESSION_START_ARMS, &arms, sizeof(arms));
	h = (const struct nlmsghdr *)reply;
	if (ask(control, &r, reply, sizeof(reply)) < (ssize_t)NLMSG_HDRLEN ||
	    h->nlmsg_type != NLMSG_ERROR || ((const struct nlmsgerr *)NLMSG_DATA(h))->error)
		return false;
	ADD(sessions, 1);
	return true;
}

void steer_end(int control, __u16 family, __u32 grace_ms)
{
	static struct request r;
	__u8 reply[4096];

	request_start(&r, family, MUTANT_CMD_SESSION_CLOSE, NLM_F_ACK);
	request_attr(&r, MUTANT_A_SESSION_GRACE_MS, &grace_ms, sizeof(grace_ms));
	ask(control, &r, reply, sizeof(reply));
}

/* Attribute 2 of the answer to a batch is the number of flows that do as told. */
static __u32 send_batch(int control, __u16 family, __u8 cmd, const void *data, size_t len)
{
	static struct request r;
	__u8 reply[4096];
	const struct nlmsghdr *h = (const struct nlmsghdr *)reply;
	const struct nlattr *a;
	const void *attrs;
	size_t attrs_len;
	__u32 applied;

	request_start(&r, family, cmd, 0);
	request_attr(&r, 1, data, len);
	if (ask(control, &r, reply, sizeof(reply)) < (ssize_t)(NLMSG_HDRLEN + GENL_HDRLEN) ||
	    h->nlmsg_type != family)
		return 0;
	attrs = message_attrs(h, &attrs_len);
	a = attr_find(attrs, attrs_len, 2);
	if (!a)
		return 0;
	memcpy(&applied, attr_data(a), sizeof(applied));
	return applied;
}

/* A random arm and a random control for each flow. */
void steer_batch(int control, __u16 family, const __u64 *cookies, size_t n)
{
	struct mutant_command commands[CROWD];
	struct mutant_control controls[CROWD];
	size_t i;

	for (i = 0; i < n; i++) {
		commands[i] = (struct mutant_command){
			.cookie = cookies[i],
			.arm = 1 + rnd_below(&seed, ARMS),
			.handover = rnd_below(&seed, MUTANT_HANDOVER_MODE_DRAIN + 1),
			.restore = rnd_below(&seed, MUTANT_RESTORE_MODE_REINIT + 2),
		};
		controls[i] = control_at_random(&seed, cookies[i]);
	}
	ADD(commands, n);
	ADD(applied, send_batch(control, family, MUTANT_CMD_SELECT, commands,
				n * sizeof(*commands)));
	send_batch(control, family, MUTANT_CMD_CONTROL, controls, n * sizeof(*controls));
}

/* Read a dump to its end, or only its first part. */
static void dump(int control, __u16 family, __u8 cmd, bool whole)
{
	static struct request r;
	static __u8 buffer[1 << 16];
	ssize_t n;

	request_start(&r, family, cmd, NLM_F_DUMP);
	if (send(control, r.data, r.len, 0) < 0)
		return;
	ADD(dumps, 1);
	while ((n = recv(control, buffer, sizeof(buffer), 0)) > 0 && whole) {
		const struct nlmsghdr *h = (const struct nlmsghdr *)buffer;

		for (; NLMSG_OK(h, n); h = NLMSG_NEXT(h, n)) {
			if (h->nlmsg_type == NLMSG_DONE || h->nlmsg_type == NLMSG_ERROR)
				return;
			ADD(records, 1);
		}
	}
}

void steer_step(int control, __u16 family)
{
	dump(control, family, MUTANT_CMD_STEP_GET, true);
}

/* One flow by its cookie; all of them for 0; and for ~0 only the first few of all. */
void steer_look(int control, __u16 family, __u64 cookie)
{
	static struct request r;
	__u8 reply[8192];

	if (!cookie || cookie == ~0ULL) {
		dump(control, family, MUTANT_CMD_FLOW_GET, !cookie);
		return;
	}
	request_start(&r, family, MUTANT_CMD_FLOW_GET, 0);
	request_attr(&r, MUTANT_A_FLOW_COOKIE, &cookie, sizeof(cookie));
	ask(control, &r, reply, sizeof(reply));
}

/* Become one of those who are told of births and deaths, on a socket that nobody reads. */
void steer_listen(int control)
{
	int events = genl_open(1 << 14);
	__u32 group = 0;

	genl_family(control, MUTANT_FAMILY_NAME, MUTANT_MCGRP_EVENTS, &group);
	setsockopt(events, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof(group));
}

/* Switches of all live flows of this namespace, over their lives. */
__u64 flows_switches(__u16 family)
{
	static struct request r;
	static __u8 buffer[1 << 16];
	struct mutant_record record;
	int control = steer_open(&family);
	__u64 sum = 0;
	ssize_t n;

	request_start(&r, family, MUTANT_CMD_FLOW_GET, NLM_F_DUMP);
	if (send(control, r.data, r.len, 0) < 0)
		die("flows");
	for (;;) {
		const struct nlmsghdr *h = (const struct nlmsghdr *)buffer;

		n = recv(control, buffer, sizeof(buffer), 0);
		if (n <= 0)
			die("flows");
		for (; NLMSG_OK(h, n); h = NLMSG_NEXT(h, n)) {
			const struct nlattr *a;
			const void *attrs;
			size_t len;

			if (h->nlmsg_type == NLMSG_DONE)
				return sum;
			if (h->nlmsg_type == NLMSG_ERROR)
				die("flows");
			attrs = message_attrs(h, &len);
			a = attr_find(attrs, len, MUTANT_A_FLOW_RECORD);
			if (!a)
				continue;
			memcpy(&record, attr_data(a), sizeof(record));
			sum += record.switches;
		}
	}
}

int steer_load(const char *name)
{
	static struct request r;
	__u8 reply[8192];
	const struct nlmsghdr *h = (const struct nlmsghdr *)reply;
	__u16 family;
	int control = steer_open(&family);

	request_start(&r, family, MUTANT_CMD_ARM_LOAD, 0);
	request_attr(&r, MUTANT_A_ARM_NAME, name, strlen(name) + 1);
	return ask(control, &r, reply, sizeof(reply)) < 0 || h->nlmsg_type != family;
}
