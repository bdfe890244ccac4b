// SPDX-License-Identifier: Apache-2.0
/*
 * forward PROGRAM [ARGUMENT ...]: let the network namespace forward packets, give up root, run the program.
 *
 * A new namespace takes net.ipv4.ip_forward from the host's first one. This program, root by its
 * set-user-ID bit, saves the host that change.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define IP_FORWARD "/proc/sys/net/ipv4/ip_forward"

int main(int argc, char *argv[])
{
	uid_t user = getuid();
	gid_t group = getgid();
	int fd = open(IP_FORWARD, O_WRONLY | O_CLOEXEC);

	if (argc < 2 || fd < 0 || write(fd, "1", 1) != 1) {
		perror(IP_FORWARD);
		return 126;
	}
	if (setresgid(group, group, group) || setresuid(user, user, user))
		return 126;
	execv(argv[1], argv + 1);
	perror(argv[1]);
	return 127;
}
