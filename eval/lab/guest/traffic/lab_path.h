/* SPDX-License-Identifier: Apache-2.0 */
/* The lab's path: two namespaces, and between them /dev/lablink, whose clock gives time 0. */
#define SERVER_NETNS "/run/netns/server"
#define CLIENT_NET 0x0a010001U /* address of flow 0: 10.1.0.1 */

static int link_fd;

/* The socket of a flow's source, with the address by which the link knows the flow. */
static int path_source(int index)
{
	struct sockaddr_in local = address(CLIENT_NET, index, 0);
	int fd = new_socket();

	if (bind(fd, (struct sockaddr *)&local, sizeof(local)))
		die("bind");
	return fd;
}

/* Starts the link with its schedule. */
static void path_start(const char *path)
{
	struct stat info;
	char *schedule;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &info))
		die(path);
	schedule = zalloc(info.st_size);
	if (read(fd, schedule, info.st_size) != info.st_size)
		die(path);
	close(fd);
	link_fd = open("/dev/lablink", O_RDWR | O_CLOEXEC);
	if (link_fd < 0 || write(link_fd, schedule, info.st_size) != info.st_size ||
	    read(link_fd, &counters, sizeof(counters)) != sizeof(counters))
		die("/dev/lablink");
	start_ns = counters.start_ns;
	free(schedule);
}

/* Brings `counters` up to date. */
static void path_read(void)
{
	size_t wanted = offsetof(struct lablink_counters, flow[flow_count + 1]);

	if (read(link_fd, &counters, wanted) != (ssize_t)wanted)
		die("/dev/lablink");
}
