// SPDX-License-Identifier: Apache-2.0
/*
 * The guest's end of the lab: runs the script and reports to the host.
 *
 * Everything leaves through memory that guest and host share (QEMU's ivshmem device), so the guest
 * never waits for the host, and a crash loses nothing that was written before. The memory holds a
 * header and then records, appended; `tail` is moved only after a record is complete.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/io.h>
#include <sys/klog.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHANNEL_MAGIC 0x62616c2d70746cULL /* "ltp-lab" */
#define LIVE_FIFO "/run/lab/live"
#define DEBUG_EXIT_PORT 0xf4

enum record_type {
	RECORD_OUTPUT = 1, /* the script's output */
	RECORD_LIVE = 2, /* one line of the live channel */
	RECORD_FILE = 3, /* path, NUL, content */
	RECORD_KERNEL_LOG = 4,
	RECORD_END = 5, /* struct end */
};

struct channel {
	uint64_t magic;
	volatile uint64_t tail; /* bytes in use, this header included */
	volatile uint64_t lost; /* bytes that found no room */
};

struct record {
	uint32_t type;
	uint32_t length; /* payload, without this header and the padding to 8 bytes */
};

struct end {
	int64_t status;
	uint64_t uptime_ns;
};

static struct channel *channel;
static size_t channel_size;

static void die(const char *what)
{
	fprintf(stderr, "lab: %s: %s\n", what, strerror(errno));
	exit(125);
}

static int read_hex(const char *device, const char *file)
{
	char path[300], text[16] = "";
	int fd;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/%s", device, file);
	fd = open(path, O_RDONLY);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0)
		die(path);
	close(fd);
	return strtol(text, NULL, 16);
}

static void map_device(const char *device)
{
	char path[300];
	struct stat info;
	int fd;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/enable", device);
	fd = open(path, O_WRONLY);
	if (fd < 0 || write(fd, "1", 1) != 1)
		die(path);
	close(fd);
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/resource2", device);
	fd = open(path, O_RDWR);
	if (fd < 0 || fstat(fd, &info))
		die(path);
	channel_size = info.st_size;
	channel = mmap(NULL, channel_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (channel == MAP_FAILED)
		die(path);
	close(fd);
	channel->tail = sizeof(*channel);
	channel->magic = CHANNEL_MAGIC;
}

static void map_channel(void)
{
	DIR *devices = opendir("/sys/bus/pci/devices");
	struct dirent *device;

	if (!devices)
		die("/sys/bus/pci/devices");
	while (!channel && (device = readdir(devices)))
		if (device->d_name[0] != '.' && read_hex(device->d_name, "vendor") == 0x1af4 &&
		    read_hex(device->d_name, "device") == 0x1110)
			map_device(device->d_name);
	closedir(devices);
	if (!channel) {
		errno = ENODEV;
		die("ivshmem");
	}
}

/* Returns where `length` bytes of payload go, or NULL where the memory is full. */
static char *reserve(enum record_type type, size_t length)
{
	struct record *record = (struct record *)((char *)channel + channel->tail);

	if (length > UINT32_MAX || channel->tail + sizeof(*record) + length + 8 > channel_size) {
		channel->lost += length;
		return NULL;
	}
	record->type = type;
	record->length = length;
	return (char *)(record + 1);
}

static void commit(size_t length)
{
	__sync_synchronize();
	channel->tail += sizeof(struct record) + ((length + 7) & ~(size_t)7);
}

static void put(enum record_type type, const void *data, size_t length)
{
	char *payload = reserve(type, length);

	if (!payload)
		return;
	memcpy(payload, data, length);
	commit(length);
}

static void put_file(const char *path)
{
	size_t name = strlen(path) + 1, done = 0;
	struct stat info;
	char *payload;
	ssize_t got;
	int fd;

	fd = open(path, O_RDONLY);
	if (fd < 0 || fstat(fd, &info) || !S_ISREG(info.st_mode)) {
		fprintf(stderr, "lab: cannot hand back %s: %s\n", path, strerror(errno));
		goto out;
	}
	payload = reserve(RECORD_FILE, name + info.st_size);
	if (!payload)
		goto out;
	memcpy(payload, path, name);
	/* Files of /proc and /sys claim a size of their own; only the bytes read count. */
	while (done < (size_t)info.st_size) {
		got = read(fd, payload + name + done, info.st_size - done);
		if (got <= 0)
			break;
		done += got;
	}
	((struct record *)payload - 1)->length = name + done;
	commit(name + done);
out:
	if (fd >= 0)
		close(fd);
}

static void put_kernel_log(void)
{
	int size = klogctl(10, NULL, 0);
	char *text = size > 0 ? malloc(size) : NULL;
	int length = text ? klogctl(3, text, size) : -1;

	if (length > 0)
		put(RECORD_KERNEL_LOG, text, length);
	free(text);
}

/* Forwards whole lines of the live FIFO; a half line stays in `line` for the next call. */
static void forward_live(int fd)
{
	static char line[65536];
	static size_t used;
	ssize_t got;

	while ((got = read(fd, line + used, sizeof(line) - used)) > 0) {
		char *start = line, *end;

		used += got;
		while ((end = memchr(start, '\n', used - (start - line)))) {
			put(RECORD_LIVE, start, end - start);
			start = end + 1;
		}
		used -= start - line;
		memmove(line, start, used);
		if (used == sizeof(line)) {
			put(RECORD_LIVE, line, used);
			used = 0;
		}
	}
}

static void forward_output(int fd)
{
	char text[65536];
	ssize_t got;

	while ((got = read(fd, text, sizeof(text))) > 0)
		put(RECORD_OUTPUT, text, got);
}

static int run_script(char *const argv[])
{
	int output[2], live, status, script_status = 0, pidfd;
	bool ended = false;
	pid_t child, pid;

	live = open(LIVE_FIFO, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (live < 0)
		die(LIVE_FIFO);
	if (pipe2(output, O_CLOEXEC))
		die("pipe");
	child = fork();
	if (child < 0)
		die("fork");
	if (!child) {
		dup2(output[1], STDOUT_FILENO);
		dup2(output[1], STDERR_FILENO);
		execv(argv[0], argv);
		die(argv[0]);
	}
	fcntl(output[0], F_SETFL, O_NONBLOCK);
	close(output[1]);
	pidfd = syscall(SYS_pidfd_open, child, 0);
	if (pidfd < 0)
		die("pidfd_open");

	struct pollfd events[] = {
		{ .fd = output[0], .events = POLLIN },
		{ .fd = live, .events = POLLIN },
		{ .fd = pidfd, .events = POLLIN },
	};
	while (!ended) {
		if (poll(events, 3, -1) < 0 && errno != EINTR)
			die("poll");
		/* Process 1 also reaps the processes that the script left behind. */
		while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
			if (pid == child) {
				ended = true;
				script_status = status;
			}
		forward_output(output[0]);
		forward_live(live);
		if (events[0].revents & POLLHUP)
			events[0].fd = -1;
	}
	return WIFEXITED(script_status) ? WEXITSTATUS(script_status) : 128 + WTERMSIG(script_status);
}

/* lab COLLECT... -- COMMAND ARGUMENTS... */
int main(int argc, char *argv[])
{
	struct timespec now;
	struct end end;
	int command = 1;

	while (command < argc && strcmp(argv[command], "--"))
		command++;
	if (command + 1 >= argc) {
		fprintf(stderr, "usage: lab [FILE TO HAND BACK]... -- COMMAND [ARGUMENT]...\n");
		return 2;
	}
	map_channel();
	end.status = run_script(argv + command + 1);
	for (int i = 1; i < command; i++)
		put_file(argv[i]);
	put_kernel_log();
	clock_gettime(CLOCK_MONOTONIC, &now);
	end.uptime_ns = now.tv_sec * 1000000000ULL + now.tv_nsec;
	put(RECORD_END, &end, sizeof(end));
	if (ioperm(DEBUG_EXIT_PORT, 4, 1))
		die("ioperm");
	/* QEMU ends here, at once. */
	outl(0, DEBUG_EXIT_PORT);
	return 1;
}
