// SPDX-License-Identifier: GPL-2.0-only
/*
 * As many switches as a slow kernel can do: many flows over loopback in a namespace, each of which
 * sends and hears a little in turn, while another process gives them all random arms and closes
 * their steps. So commands and ACKs of a flow meet on different processors.
 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "churn.h"

#define TURNS	64

static struct pair pairs[CROWD];
static __u64 cookies[CROWD];
static __u64 *turns;	/* of the one who sends, for the one who steers */

/* A batch a turn: with more of them the one who sends would get too little time. */
static void steer_crowd(int control, __u16 family)
{
	__u64 turn;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		turn = __atomic_load_n(turns, __ATOMIC_RELAXED);
		steer_batch(control, family, cookies, CROWD);
		if (!rnd_below(&seed, 4))
			steer_step(control, family);
		while (__atomic_load_n(turns, __ATOMIC_RELAXED) == turn)
			usleep(1000);
	}
}

/* A receiver that never answers acknowledges what it reads at once, so each turn is an ACK. */
static void crowd_talk(void)
{
	static char bytes[4096];
	int i;

	for (i = 0; i < CROWD; i++) {
		send(pairs[i].client, bytes, 1 + rnd_below(&seed, 1000),
		     MSG_DONTWAIT | MSG_NOSIGNAL);
		recv(pairs[i].server, bytes, sizeof(bytes), MSG_DONTWAIT);
	}
}

void round_switches(void)
{
	int control, turn, i;
	__u16 family;
	pid_t steerer;

	namespace_enter();
	flows_listen();
	for (i = 0; i < CROWD; i++) {
		flow_open(&pairs[i]);
		cookies[i] = pairs[i].cookie;
	}
	control = steer_open(&family);
	if (!steer_session(control, family))
		exit(1);
	turns = mmap(NULL, sizeof(*turns), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	if (turns == MAP_FAILED)
		die("mmap");
	steerer = fork();
	if (!steerer)
		steer_crowd(control, family);
	for (turn = 0; turn < TURNS; turn++) {
		crowd_talk();
		__atomic_fetch_add(turns, 1, __ATOMIC_RELAXED);
	}
	kill(steerer, SIGKILL);
	waitpid(steerer, NULL, 0);
	ADD(switches, flows_switches(family));
}
