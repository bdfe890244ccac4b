// SPDX-License-Identifier: GPL-2.0-only
/*
 * Everything at once that a well-behaved host never does, in many short-lived processes.
 *
 *   churn WORK ROUNDS SEED
 *   churn load NAME
 *   churn ask KIND ARM FILE
 *
 * WORK is one of
 *
 *	namespaces	network namespaces that end, often with flows alive and a session open
 *	options		setsockopt, disconnects and closes on flows that others switch, under
 *			sessions that come and go
 *	dumps		dumps of all flows of the machine, some of them abandoned half-way
 *	steps		a flow that never pauses, whose steps are closed without a pause
 *	switches	many flows that all switch all the time
 *
 * Each round is a process of its own, so that what a failed allocation breaks ends with it. A round
 * that broke is counted. At the end one JSON object says what was done. `load` gives an arm to a
 * protocol that has none. `ask` asks for an arm without a pause, while the module comes and goes,
 * until FILE is there.
 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "churn.h"

/* A round is counted in work, not in seconds: a slow machine is to do as much as a fast one. */
#define TURNS	400
#define DUMPS	30

struct tally *tally;
__u64 seed;

static struct pair pairs[FLOWS_MAX];

/* Open flows, all of them or some; returns how many. */
static size_t flows_open(void)
{
	size_t i, n = 1 + rnd_below(&seed, FLOWS_MAX);

	flows_listen();
	for (i = 0; i < n; i++) {
		flow_open(&pairs[i]);
		tally->cookie[i] = pairs[i].cookie;
	}
	return n;
}

/* A namespace that lives for a moment. */
static void round_namespaces(void)
{
	size_t turn, i, n, turns = 2 + rnd_below(&seed, 40);
	__u64 cookies[FLOWS_MAX];
	__u16 family;
	int control;

	namespace_enter();
	control = steer_open(&family);
	if (rnd_below(&seed, 4))
		steer_session(control, family);
	if (rnd_below(&seed, 2))
		steer_listen(control);
	flows_listen();
	n = 1 + rnd_below(&seed, FLOWS_MAX);
	for (i = 0; i < n; i++) {
		flow_open(&pairs[i]);
		cookies[i] = pairs[i].cookie;
	}
	for (turn = 0; turn < turns; turn++) {
		for (i = 0; i < n; i++)
			flow_talk(&pairs[i], rnd_below(&seed, 8));
		steer_batch(control, family, cookies, n);
		if (rnd_below(&seed, 2))
			steer_step(control, family);
		usleep(rnd_below(&seed, 2000));
	}
	switch (rnd_below(&seed, 4)) {
	case 0:
		steer_end(control, family, rnd_below(&seed, 2) * 50);
		break;
	case 1:
		close(control);
		break;
	case 2:
		for (i = 0; i < n; i++)
			flow_close(&pairs[i], rnd_below(&seed, 2));
		break;
	default:
		/* The process ends with all of it open. */
		break;
	}
}

/* A session that begins, steers for a while, and ends in one of four ways. */
static void steer_once(void)
{
	__u16 family;
	int control = steer_open(&family);
	size_t turn, turns = 1 + rnd_below(&seed, 20);

	if (!steer_session(control, family))
		return;
	for (turn = 0; turn < turns; turn++) {
		steer_batch(control, family, tally->cookie, FLOWS_MAX);
		steer_step(control, family);
		usleep(rnd_below(&seed, 3000));
	}
	switch (rnd_below(&seed, 4)) {
	case 0:
		steer_end(control, family, 0);
		break;
	case 1:
		steer_end(control, family, 1 + rnd_below(&seed, 100));
		break;
	case 2:
		raise(SIGKILL);
		break;
	default:
		break;
	}
}

/* Run `work` in process after process until this one is killed. */
static pid_t keep_running(void (*work)(void))
{
	pid_t pid = fork();

	if (pid)
		return pid;
	for (;;) {
		pid = fork();
		rnd(&seed);
		if (!pid) {
			work();
			_exit(0);
		}
		if (pid > 0)
			waitpid(pid, NULL, 0);
	}
}

static void look_once(void)
{
	__u16 family;
	int control = steer_open(&family);
	size_t i;

	for (i = 0; i < 50; i++)
		steer_look(control, family, tally->cookie[rnd_below(&seed, FLOWS_MAX)]);
	steer_look(control, family, 0);
}

static void round_options(void)
{
	pid_t steerer, looker;
	size_t i, n, turn;

	/* A group of its own, so that the round ends with all that it has started. */
	setpgid(0, 0);
	namespace_enter();
	n = flows_open();
	steerer = keep_running(steer_once);
	looker = keep_running(look_once);
	for (turn = 0; turn < TURNS; turn++) {
		i = rnd_below(&seed, n);
		switch (rnd_below(&seed, 32)) {
		case 0:
			flow_reconnect(&pairs[i]);
			break;
		case 1:
			flow_close(&pairs[i], rnd_below(&seed, 2));
			flow_open(&pairs[i]);
			break;
		case 2 ... 6:
			flow_option(&pairs[i]);
			break;
		default:
			flow_talk(&pairs[i], true);
		}
		tally->cookie[i] = pairs[i].cookie;
	}
	kill(steerer, SIGKILL);
	kill(looker, SIGKILL);
}

static void round_dumps(void)
{
	__u16 family;
	int control = steer_open(&family);
	size_t i;

	if (rnd_below(&seed, 2))
		steer_listen(control);
	for (i = 0; i < DUMPS; i++)
		steer_look(control, family, 0);
	/* One more, which nobody reads to its end. */
	steer_look(control, family, ~0ULL);
}

static const struct work {
	const char *name;
	void (*round)(void);
} works[] = {
	{ "namespaces", round_namespaces },
	{ "options", round_options },
	{ "dumps", round_dumps },
	{ "steps", round_steps },
	{ "switches", round_switches },
};

static void run(const struct work *work, __u64 rounds, __u64 side_by_side)
{
	__u64 started = 0, running = 0;
	int status;
	pid_t pid;

	while (started < rounds || running) {
		if (started < rounds && running < side_by_side) {
			pid = fork();
			rnd(&seed);
			if (!pid) {
				work->round();
				_exit(0);
			}
			if (pid < 0) {
				ADD(broken, 1);
				usleep(10000);
				continue;
			}
			started++;
			running++;
			continue;
		}
		pid = wait(&status);
		kill(-pid, SIGKILL);
		running--;
		ADD(rounds, 1);
		if (status)
			ADD(broken, 1);
		if (side_by_side > 1)
			tell_host("%s: %llu of %llu rounds", work->name, tally->rounds, rounds);
	}
}

int main(int argc, char **argv)
{
	size_t i;

	signal(SIGPIPE, SIG_IGN);
	tally = mmap(NULL, sizeof(*tally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (tally == MAP_FAILED)
		die("mmap");
	if (argc == 3 && !strcmp(argv[1], "load"))
		return steer_load(argv[2]);
	if (argc == 5 && !strcmp(argv[1], "ask"))
		return ask_until(argv[2], argv[3], argv[4]);
	if (argc != 4 && argc != 5) {
		fprintf(stderr, "usage: churn WORK ROUNDS SEED [SIDE-BY-SIDE]\n"
			"       churn load NAME | churn ask KIND ARM FILE\n");
		return 2;
	}
	seed = strtoull(argv[3], NULL, 0) * 0x9e3779b97f4a7c15ULL + 1;
	for (i = 0; i < sizeof(works) / sizeof(*works); i++)
		if (!strcmp(argv[1], works[i].name))
			break;
	if (i == sizeof(works) / sizeof(*works)) {
		fprintf(stderr, "churn: no work %s\n", argv[1]);
		return 2;
	}
	run(&works[i], strtoull(argv[2], NULL, 0), argc == 5 ? strtoull(argv[4], NULL, 0) : 1);
#define FIELD(name) printf("\"%s\": %llu, ", #name, (unsigned long long)(*tally).name)
	printf("{");
	FIELD(rounds), FIELD(broken), FIELD(flows), FIELD(commands), FIELD(applied);
	FIELD(records), FIELD(options), FIELD(sessions), FIELD(dumps);
	FIELD(sums_wrong);
	FIELD(switches);
#undef FIELD
	printf("\"work\": \"%s\"}\n", works[i].name);
	return 0;
}
