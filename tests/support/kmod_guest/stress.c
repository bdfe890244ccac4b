// SPDX-License-Identifier: GPL-2.0-only
/*
 * Random switches over many flows that start and stop, with every byte checked.
 *
 *   stress FLOWS SWITCHES SEED NETNS ADDRESS
 *
 * Keeps FLOWS connections under `mutant` open from here to a sink that this program serves in the
 * network namespace NETNS at ADDRESS. Each sends a random number of bytes and ends, one in eight by
 * a reset, and another takes its place. Every few milliseconds one batch gives every flow a random
 * arm, and another random parameters, partly nonsense, to the learned ones; every few batches the
 * aggregates are read and their sums kept. It goes on until the module
 * has counted SWITCHES switches, lets the flows end, and prints one JSON object.
 */
#include <arpa/inet.h>
#include <linux/mutant.h>
#include <sys/resource.h>
#include <time.h>

#include "stress.h"

#define PORT		7000
#define ROUND_NS	20000000LL
#define ROUNDS_A_STEP	4
#define LINE_NS		5000000000LL
#define HISTORY		16384
#define FILES		4096	/* flows, sinks and a few of its own */

static struct life lives[HISTORY];
static int events;

int control;
__u16 family;
struct stress_count count;
__u64 seed;

__s64 now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* Open addressing; there is room for more flows than a run starts. */
struct life *life_of(__u64 cookie)
{
	size_t i = cookie * 0x9e3779b97f4a7c15ULL >> 50;

	while (lives[i].cookie && lives[i].cookie != cookie)
		i = (i + 1) % HISTORY;
	lives[i].cookie = cookie;
	return &lives[i];
}

/* The life of a flow of this program; NULL for those of others, in namespaces of their own. */
static struct life *life_known(__u64 cookie)
{
	size_t i = cookie * 0x9e3779b97f4a7c15ULL >> 50;

	while (lives[i].cookie && lives[i].cookie != cookie)
		i = (i + 1) % HISTORY;
	return lives[i].cookie ? &lives[i] : NULL;
}

static bool sums_equal(const struct sums *s, const struct mutant_record *r)
{
	return s->delivered == r->total_delivered && s->lost == r->total_lost &&
	       s->acked == r->total_acked_bytes && s->retrans == r->total_retrans;
}

/* A step has few slots: where all are taken, older epochs may have lost theirs. */
static bool credits_hold(const struct mutant_record *r, const struct sums *credit)
{
	if (r->credit[MUTANT_CREDITS_MAX - 1].arm)
		return credit->samples <= r->samples && credit->delivered <= r->delivered &&
		       credit->lost <= r->lost && credit->acked <= r->acked_bytes;
	return credit->samples == r->samples && credit->delivered == r->delivered &&
	       credit->lost == r->lost && credit->acked == r->acked_bytes;
}

/* Add one step to its flow, and see that its credits add up to it. */
static struct life *record_fold(const struct mutant_record *r)
{
	struct life *life = life_known(r->cookie);
	struct sums credit = {};
	size_t i;

	if (!life) {
		count.foreign++;
		return NULL;
	}
	count.records++;
	for (i = 0; i < MUTANT_CREDITS_MAX; i++) {
		credit.samples += r->credit[i].samples;
		credit.delivered += r->credit[i].delivered;
		credit.lost += r->credit[i].lost;
		credit.acked += r->credit[i].acked_bytes;
	}
	if (!credits_hold(r, &credit))
		count.credits_wrong++;
	life->steps.samples += r->samples;
	life->steps.delivered += r->delivered;
	life->steps.lost += r->lost;
	life->steps.acked += r->acked_bytes;
	life->steps.retrans += r->retrans;
	life->switches = r->switches;
	if (!sums_equal(&life->steps, r))
		count.totals_wrong++;
	return life;
}

static void event_death(const struct mutant_record *r)
{
	struct life *life = record_fold(r);

	if (!life)
		return;
	count.deaths++;
	life->ended = true;
	/* The FIN counts as one byte; the bytes in flight at a reset do not count at all. */
	if (life->finished && r->total_acked_bytes != life->sent &&
	    r->total_acked_bytes != life->sent + 1)
		count.acked_wrong++;
}

/* Deaths are looked at when their flow has been closed here, so that what it sent is known. */
static void events_read(void)
{
	static __u8 buffer[1 << 16];
	struct mutant_record record;
	ssize_t n;

	while ((n = recv(events, buffer, sizeof(buffer), MSG_DONTWAIT)) > 0 || errno == ENOBUFS) {
		const struct nlmsghdr *h = (const struct nlmsghdr *)buffer;
		const struct nlattr *a;
		const void *attrs;
		size_t len;

		if (n < 0) {
			count.events_lost++;
			continue;
		}
		attrs = message_attrs(h, &len);
		a = attr_find(attrs, len, MUTANT_A_FLOW_RECORD);
		memcpy(&record, attr_data(a), sizeof(record));
		if (!life_known(record.cookie))
			continue;
		switch (((const struct genlmsghdr *)(buffer + NLMSG_HDRLEN))->cmd) {
		case MUTANT_CMD_FLOW_BIRTH:
			count.births++;
			break;
		case MUTANT_CMD_FLOW_FALLBACK:
			count.fallbacks++;
			break;
		case MUTANT_CMD_FLOW_DEATH:
			event_death(&record);
			break;
		}
	}
}

/* Walk the answer to a dump; `fold` says whether its records are kept. Returns those of flows of ours. */
static size_t dump(__u8 cmd, __u16 attr, bool fold)
{
	static struct request r;
	static __u8 buffer[1 << 16];
	size_t seen = 0;

	request_start(&r, family, cmd, NLM_F_DUMP);
	if (send(control, r.data, r.len, 0) < 0)
		die("asking for objects");
	for (;;) {
		ssize_t n = recv(control, buffer, sizeof(buffer), 0);
		const struct nlmsghdr *h = (const struct nlmsghdr *)buffer;

		if (n < 0)
			die("reading objects");
		for (; NLMSG_OK(h, n); h = NLMSG_NEXT(h, n)) {
			const struct nlattr *a;
			const void *attrs;
			size_t len, at;

			if (h->nlmsg_type == NLMSG_DONE)
				return seen;
			if (h->nlmsg_type == NLMSG_ERROR) {
				errno = -*(const int *)NLMSG_DATA(h);
				die("reading objects");
			}
			attrs = message_attrs(h, &len);
			a = attr_find(attrs, len, attr);
			for (at = 0; a && at + sizeof(struct mutant_record) <= attr_len(a);
			     at += sizeof(struct mutant_record)) {
				struct mutant_record record;

				memcpy(&record, (const __u8 *)attr_data(a) + at, sizeof(record));
				seen += !!life_known(record.cookie);
				if (fold)
					record_fold(&record);
			}
		}
	}
}

static __u64 switches(void)
{
	__u64 sum = 0;
	size_t i;

	for (i = 0; i < HISTORY; i++)
		sum += lives[i].switches;
	return sum;
}

static void report(size_t left)
{
	size_t i, unended = 0;

	for (i = 0; i < HISTORY; i++)
		unended += lives[i].cookie && !lives[i].ended;
#define FIELD(name) printf("\"%s\": %llu, ", #name, (unsigned long long)count.name)
	printf("{");
	FIELD(started), FIELD(completed), FIELD(reset), FIELD(bytes_sent), FIELD(bytes_received);
	FIELD(wrong_bytes), FIELD(wrong_lengths), FIELD(batches), FIELD(applied), FIELD(unknown);
	FIELD(refused), FIELD(controlled), FIELD(unfit), FIELD(clamped);
	FIELD(records), FIELD(births), FIELD(deaths), FIELD(fallbacks);
	FIELD(totals_wrong), FIELD(credits_wrong), FIELD(acked_wrong), FIELD(events_lost);
	FIELD(foreign);
#undef FIELD
	printf("\"switches\": %llu, \"flows_left\": %zu, \"without_death\": %zu}\n",
	       (unsigned long long)switches(), left, unended);
}

int main(int argc, char **argv)
{
	static const struct rlimit files = { .rlim_cur = FILES, .rlim_max = FILES };
	__u64 wanted;
	__u32 group = 0;
	__s64 next, began, said = 0;
	size_t flows, open;

	if (argc != 6) {
		fprintf(stderr, "usage: stress FLOWS SWITCHES SEED NETNS ADDRESS\n");
		return 2;
	}
	flows = strtoul(argv[1], NULL, 0);
	if (setrlimit(RLIMIT_NOFILE, &files))
		die("so many open files");
	wanted = strtoull(argv[2], NULL, 0);
	seed = strtoull(argv[3], NULL, 0) * 0x9e3779b97f4a7c15ULL + 1;
	target.sin_port = htons(PORT);
	if (!flows || flows > FLOWS_MAX || inet_pton(AF_INET, argv[5], &target.sin_addr) != 1) {
		fprintf(stderr, "stress: FLOWS 1..%d, ADDRESS an IPv4 address\n",
			FLOWS_MAX);
		return 2;
	}
	control = genl_open(8 << 20);
	events = genl_open(32 << 20);
	family = genl_family(control, MUTANT_FAMILY_NAME, MUTANT_MCGRP_EVENTS, &group);
	session_open(control, family, MUTANT_CMD_SESSION_OPEN);
	if (setsockopt(events, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof(group)))
		die("join events");
	traffic_start(flows, argv[4]);

	next = now_ns() + ROUND_NS;
	do {
		__s64 left = next - now_ns();

		open = traffic_serve(left > 0 ? (left + 999999) / 1000000 : 0);
		events_read();
		if (now_ns() < next)
			continue;
		began = now_ns();
		select_at_random(flows);
		control_at_random_all(flows);
		if (count.batches % ROUNDS_A_STEP == 0) {
			dump(MUTANT_CMD_STEP_GET, MUTANT_A_STEP_RECORDS, true);
			draining = draining || switches() >= wanted;
		}
		if (began - said > LINE_NS) {
			tell_host("stress: %llu switches, %zu flows",
				  (unsigned long long)switches(), open);
			said = began;
		}
		/* On a slow kernel the traffic gets as much time as the steering. */
		next = now_ns();
		next += next - began > ROUND_NS ? next - began : ROUND_NS;
	} while (!draining || open);
	traffic_end();
	events_read();
	report(dump(MUTANT_CMD_FLOW_GET, MUTANT_A_FLOW_RECORD, false));
	return 0;
}
