// SPDX-License-Identifier: GPL-2.0-only
/*
 * Steps with very many flows.
 *
 *   crowd NETNS ADDRESS LIVE IDLE SECONDS SEED
 *
 * Opens LIVE connections under `mutant` to a sink that this program serves in NETNS, at ADDRESS and
 * the addresses after it. Each sends 1 to 3 packets a second. Every 10 ms the program takes a step,
 * as a daemon does, and times it: without anybody else, while a user without rights asks for flows
 * in a namespace of its own in a loop, and while one does so in this namespace. Then it opens IDLE
 * connections more, and does the same again. Prints one JSON object.
 */
#include <sys/resource.h>
#include <sys/wait.h>

#include "crowd.h"

#define PORT		7100
#define STEP_NS		10000000LL
#define TICK_NS		1000000LL
#define BATCH		1000
#define SETTLE_NS	300000000LL

static int control;
static __u16 family;
static const char * const lookers[] = { "nobody", "another-namespace", "this-namespace" };

static int ascending(const void *a, const void *b)
{
	__s64 x = *(const __s64 *)a, y = *(const __s64 *)b;

	return (x > y) - (x < y);
}

static void wait_until(__s64 at_ns)
{
	struct timespec t = { .tv_sec = at_ns / 1000000000, .tv_nsec = at_ns % 1000000000 };

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

/* A value of /proc/meminfo, kB. */
static long memory_kb(const char *name)
{
	FILE *file = fopen("/proc/meminfo", "r");
	size_t len = strlen(name);
	char line[256];
	long kb = -1;

	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, name, len) && line[len] == ':')
			kb = strtol(line + len + 1, NULL, 10);
	if (file)
		fclose(file);
	return kb;
}

/* Memory of the objects of a slab cache that are in use, bytes. */
static long slab_bytes(const char *cache)
{
	FILE *file = fopen("/proc/slabinfo", "r");
	long objects, size, bytes = -1;
	char line[512], name[64];

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "%63s %ld %*d %ld", name, &objects, &size) == 3 &&
		    !strcmp(name, cache))
			bytes = objects * size;
	if (file)
		fclose(file);
	return bytes;
}

static void print_memory(const char *name)
{
	printf("\"%s\": {\"mutant_flow\": %ld, \"mutant_measures\": %ld, \"radix_tree_node\": %ld, ",
	       name, slab_bytes("mutant_flow"), slab_bytes("mutant_measures"),
	       slab_bytes("radix_tree_node"));
	printf("\"available_kb\": %ld}", memory_kb("MemAvailable"));
}

/* Live flows, a step every 10 ms, and perhaps somebody who looks on. */
static void measure(size_t flows, int seconds, enum looker who, bool first)
{
	__s64 end, next, now, *took;
	size_t steps = 0, records = 0, most = seconds * 100 + 10, late = 0;
	pid_t looker = look(who);
	struct dumped d;

	tell_host("%zu flows: %s", flows, lookers[who]);
	took = calloc(most, sizeof(*took));
	if (!took)
		die("memory");
	/* News of the opening, delayed ACKs among it, belongs to no step that is timed. */
	wait_until(now_ns() + SETTLE_NS);
	ask(control, family, MUTANT_CMD_STEP_GET);
	now = now_ns();
	live_resume(now);
	end = now + seconds * 1000000000LL;
	next = now + STEP_NS;
	while ((now = now_ns()) < end && steps < most) {
		live_send(now);
		now = now_ns();
		if (now >= next) {
			d = ask(control, family, MUTANT_CMD_STEP_GET);
			took[steps++] = d.took_ns;
			records += d.objects;
			next += STEP_NS;
			for (; next < now; next += STEP_NS)
				late++;
			continue;
		}
		wait_until(now + TICK_NS < next ? now + TICK_NS : next);
	}
	if (looker) {
		kill(looker, SIGKILL);
		waitpid(looker, NULL, 0);
	}
	qsort(took, steps, sizeof(*took), ascending);
	printf("%s{\"flows\": %zu, \"looker\": \"%s\", \"steps\": %zu, \"missed\": %zu, ",
	       first ? "" : ", ", flows, lookers[who], steps, late);
	printf("\"records\": %zu, \"p50_us\": %.1f, \"p99_us\": %.1f, \"max_us\": %.1f}", records,
	       took[steps / 2] / 1e3, took[steps * 99 / 100] / 1e3, took[steps - 1] / 1e3);
	fflush(stdout);
	free(took);
}

/* Open connections; each is asked for its steps, and sends a packet. */
static void open_crowd(size_t count, const char *address)
{
	size_t some;

	for (; count; count -= some) {
		some = count < BATCH ? count : BATCH;
		connect_all(some, address, PORT);
		ask(control, family, MUTANT_CMD_STEP_GET);
		first_packets(some);
		wait_until(now_ns() + TICK_NS);
		ask(control, family, MUTANT_CMD_STEP_GET);
	}
}

int main(int argc, char **argv)
{
	size_t live, idle;
	struct dumped all;
	struct rlimit many;
	enum looker who;
	int seconds;
	__u64 seed;
	pid_t sink;

	if (argc != 7) {
		fprintf(stderr, "usage: crowd NETNS ADDRESS LIVE IDLE SECONDS SEED\n");
		return 1;
	}
	live = strtoul(argv[3], NULL, 10);
	idle = strtoul(argv[4], NULL, 10);
	seconds = atoi(argv[5]);
	seed = strtoull(argv[6], NULL, 10);
	many.rlim_cur = live + idle + 1024;
	many.rlim_max = many.rlim_cur;
	if (setrlimit(RLIMIT_NOFILE, &many))
		die("so many open files");
	signal(SIGPIPE, SIG_IGN);
	sink = serve(argv[1], PORT);
	control = genl_open(8 << 20);
	family = genl_family(control, MUTANT_FAMILY_NAME, NULL, NULL);
	session_open(control, family, MUTANT_CMD_SESSION_OPEN);
	wait_until(now_ns() + 100000000);

	printf("{\"memory\": {");
	print_memory("before");
	tell_host("%zu flows: opening", live);
	open_crowd(live, argv[2]);
	printf(", ");
	print_memory("live");
	printf("}, \"steps\": [");
	live_start(live, &seed);
	for (who = NOBODY; who <= OF_THIS_NAMESPACE; who++)
		measure(live, seconds, who, who == NOBODY);
	tell_host("%zu flows: opening", idle);
	open_crowd(idle, argv[2]);
	for (who = NOBODY; who <= OF_THIS_NAMESPACE; who++)
		measure(live + idle, seconds, who, false);
	printf("], \"memory_after\": {");
	print_memory("all");
	all = ask(control, family, MUTANT_CMD_FLOW_GET);
	printf("}, \"flow_get\": {\"flows\": %zu, \"ms\": %.2f}}\n", all.objects,
	       all.took_ns / 1e6);
	kill(sink, SIGKILL);
	return 0;
}
