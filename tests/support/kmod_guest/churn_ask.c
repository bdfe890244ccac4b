// SPDX-License-Identifier: GPL-2.0-only
/* The requests of `churn` that make the module look for an arm, while it comes and goes. */
#include <fcntl.h>
#include <sys/wait.h>

#include "churn.h"

/* Of one process; the next one looks for the family anew. */
#define REQUESTS	20

/* Whether the module is ready: what is written before is taken as a parameter of insmod. */
static bool module_lives(void)
{
	int file = open("/sys/module/tcp_mutant/initstate", O_RDONLY);
	char state[5] = "";

	if (file < 0)
		return false;
	if (read(file, state, 4) < 0)
		state[0] = 0;
	close(file);
	return !strcmp(state, "live");
}

static void ask_by_file(const char *arm)
{
	int file;

	if (!module_lives())
		return;
	file = open("/sys/module/tcp_mutant/parameters/default_arm", O_WRONLY);
	if (file < 0)
		return;
	if (write(file, arm, strlen(arm)) >= 0 || errno == ENOENT)
		ADD(asked, 1);
	close(file);
}

static void ask_by_netlink(const char *kind, const char *arm)
{
	static struct request r;
	const __u64 nobody = ~0ULL;
	__u32 id = MUTANT_ARM_ID_YEAH;
	__u8 reply[8192];
	__u16 family;
	int control = steer_open(&family);
	size_t i;

	if (!strcmp(kind, "load")) {
		request_start(&r, family, MUTANT_CMD_ARM_LOAD, 0);
		request_attr(&r, MUTANT_A_ARM_NAME, arm, strlen(arm) + 1);
	} else if (!strcmp(kind, "pin")) {
		request_start(&r, family, MUTANT_CMD_PIN, NLM_F_ACK);
		request_attr(&r, MUTANT_A_PIN_COOKIE, &nobody, sizeof(nobody));
		request_attr(&r, MUTANT_A_PIN_ARM, &id, sizeof(id));
	} else {
		request_start(&r, family, MUTANT_CMD_CONFIG_SET, NLM_F_ACK);
		request_attr(&r, MUTANT_A_CONFIG_DEFAULT_ARM, &id, sizeof(id));
	}
	for (i = 0; i < REQUESTS; i++) {
		if (ask(control, &r, reply, sizeof(reply)) < (ssize_t)NLMSG_HDRLEN)
			return;
		ADD(asked, 1);
	}
}

/* Netlink's requests of a kind (load, pin, set), or the parameter's file (sysfs). */
int ask_until(const char *kind, const char *arm, const char *file)
{
	pid_t pid;

	while (access(file, F_OK)) {
		pid = fork();
		if (!pid) {
			/* It says that there is no family, again and again. */
			close(STDERR_FILENO);
			if (!strcmp(kind, "sysfs"))
				ask_by_file(arm);
			else
				ask_by_netlink(kind, arm);
			_exit(0);
		}
		if (pid > 0)
			waitpid(pid, NULL, 0);
	}
	printf("{\"asked\": %llu}\n", (unsigned long long)tally->asked);
	return 0;
}
