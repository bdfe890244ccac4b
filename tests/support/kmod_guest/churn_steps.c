// SPDX-License-Identifier: GPL-2.0-only
/*
 * One flow that never pauses, and one reader that never pauses: writer and closer of a step meet as
 * often as they can. The steps still have to add up to the socket's own counters.
 */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "churn.h"

#define CLOSES	500

static struct {
	__u64 delivered, lost, acked, retrans;
} sums;

static void record_add(const struct mutant_record *r)
{
	sums.delivered += r->delivered;
	sums.lost += r->lost;
	sums.acked += r->acked_bytes;
	sums.retrans += r->retrans;
	ADD(records, 1);
	if (sums.delivered != r->total_delivered || sums.lost != r->total_lost ||
	    sums.acked != r->total_acked_bytes || sums.retrans != r->total_retrans)
		ADD(sums_wrong, 1);
}

static void message_add(const struct nlmsghdr *h, __u64 cookie)
{
	struct mutant_record record;
	const struct nlattr *a;
	const void *attrs;
	size_t len, at;

	attrs = message_attrs(h, &len);
	a = attr_find(attrs, len, MUTANT_A_STEP_RECORDS);
	for (at = 0; a && at + sizeof(record) <= attr_len(a); at += sizeof(record)) {
		memcpy(&record, (const __u8 *)attr_data(a) + at, sizeof(record));
		if (record.cookie == cookie)
			record_add(&record);
	}
}

/* Close the steps, and add those of one flow to its sums. */
static void steps_close(int control, __u16 family, __u64 cookie)
{
	static struct request r;
	static __u8 buffer[1 << 16];
	ssize_t n;

	request_start(&r, family, MUTANT_CMD_STEP_GET, NLM_F_DUMP);
	if (send(control, r.data, r.len, 0) < 0)
		die("steps");
	ADD(dumps, 1);
	while ((n = recv(control, buffer, sizeof(buffer), 0)) > 0) {
		const struct nlmsghdr *h = (const struct nlmsghdr *)buffer;

		for (; NLMSG_OK(h, n); h = NLMSG_NEXT(h, n)) {
			if (h->nlmsg_type == NLMSG_DONE)
				return;
			if (h->nlmsg_type == NLMSG_ERROR)
				exit(1);
			message_add(h, cookie);
		}
	}
	die("steps");
}

void round_steps(void)
{
	struct pair pair;
	__u16 family;
	int control, i;
	pid_t talker;

	namespace_enter();
	flows_listen();
	flow_open(&pair);
	control = steer_open(&family);
	if (!pair.cookie || !steer_session(control, family))
		exit(1);
	talker = fork();
	if (!talker) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			flow_talk(&pair, true);
	}
	for (i = 0; i < CLOSES; i++)
		steps_close(control, family, pair.cookie);
	kill(talker, SIGKILL);
	waitpid(talker, NULL, 0);
}
