// SPDX-License-Identifier: Apache-2.0
/*
 * A web client with one connection that it keeps: it asks for one file after the other.
 *
 *   session PLAN CONNECTIONS LIMIT_MS OUT
 *
 * The command line is the browser's, and CONNECTIONS is 1. PLAN is either a list of requests, a line
 * each: the time in microseconds after the link's clock began, and the bytes. One that is due while
 * another is under way waits for it. Or PLAN is one line for a video player:
 *
 *   video START_US STOP_US CHUNK_US BUFFER_US BITS_PER_S...
 *
 * The player asks for a chunk as soon as its buffer has room for one. It takes the largest bitrate that
 * is at most 0.8 of the harmonic mean of the last 5 chunks' throughput, and the smallest for the
 * first. It plays from the first whole chunk on. Where its buffer runs empty it waits for the next.
 *
 * OUT.csv gets a line for each file as the browser's does. OUT.json gets the link's counts for the server,
 * and how the video played.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../link/lablink.h"

#define SERVER_ADDRESS 0x0a010101U
#define CLIENT_ADDRESS 0x0a020101U
#define PORT 80
#define CLIENT_NETNS "/run/netns/server" /* the end of the link where data arrives */
#define HEADER_MAX 1024
#define CLOCK_POLL_NS 1000000
#define RATES_MAX 16
#define REMEMBERED 5
#define CAUTION 0.8

struct file {
	uint64_t at_us, bytes, done_us;
};

struct video {
	uint64_t start_us, stop_us, chunk_us, buffer_us;
	uint64_t rates_bps[RATES_MAX];
	int rates;
	uint64_t startup_us, rebuffer_us, played_us; /* measures of how the video played */
	int rebuffers;
	double bits; /* size of the whole chunks, by their bitrate */
};

static struct file *files;
static int file_count, link_fd, server = -1;
static uint64_t start_ns, limit_us;
static struct lablink_counters counters;

static void die(const char *what)
{
	fprintf(stderr, "session: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (now.tv_sec * 1000000000ULL + now.tv_nsec - start_ns) / 1000;
}

static void wait_until(uint64_t at_us)
{
	uint64_t at_ns = start_ns + at_us * 1000;
	struct timespec at = { .tv_sec = at_ns / 1000000000, .tv_nsec = at_ns % 1000000000 };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL))
		;
}

static struct file *add_file(uint64_t at_us, uint64_t bytes)
{
	files = realloc(files, (file_count + 1) * sizeof(*files));
	if (!files)
		die("realloc");
	files[file_count] = (struct file){ .at_us = at_us, .bytes = bytes };
	return &files[file_count++];
}

#include "../link/client.h"

/* Waits until the connection is ready for `events`; false where the limit comes first. */
static bool ready(short events)
{
	struct pollfd wait = { .fd = server, .events = events };
	uint64_t now = now_us();

	while (now < limit_us) {
		int count = poll(&wait, 1, (limit_us - now + 999) / 1000);

		if (count < 0 && errno != EINTR)
			die("poll");
		if (count > 0)
			return true;
		now = now_us();
	}
	return false;
}

static bool connected(void)
{
	struct sockaddr_in local = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(CLIENT_ADDRESS) };
	struct sockaddr_in remote = { .sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(SERVER_ADDRESS),
				      .sin_port = htons(PORT) };
	int error = 0;
	socklen_t length = sizeof(error);

	server = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (server < 0 || bind(server, (struct sockaddr *)&local, sizeof(local)))
		die("bind");
	if (connect(server, (struct sockaddr *)&remote, sizeof(remote)) && errno != EINPROGRESS)
		die("connect");
	if (!ready(POLLOUT))
		return false;
	if (getsockopt(server, SOL_SOCKET, SO_ERROR, &error, &length) || error) {
		errno = error;
		die("connect");
	}
	return true;
}

/* Reads up to `room` bytes, into `data` or nowhere; 0 where the limit comes first. */
static size_t receive(char *data, size_t room)
{
	ssize_t got;

	if (!ready(POLLIN))
		return 0;
	got = recv(server, data, room, data ? 0 : MSG_TRUNC);
	if (got < 0)
		die("recv");
	if (!got) {
		fprintf(stderr, "session: the server closed the connection\n");
		exit(1);
	}
	return got;
}

/* Fetches so many bytes of the server's file; false where the limit comes first. */
static bool fetched(uint64_t bytes)
{
	char header[HEADER_MAX] = "", text[128];
	size_t used = 0, missing = bytes, got;
	const char *end, *length;
	bool last;
	int asked;

	if (server < 0 && !connected())
		return false;
	asked = snprintf(text, sizeof(text),
			 "GET /file HTTP/1.1\r\nHost: lab\r\nRange: bytes=0-%llu\r\n\r\n",
			 (unsigned long long)bytes - 1);
	if (send(server, text, asked, MSG_NOSIGNAL) != asked)
		die("send");
	while (!(end = strstr(header, "\r\n\r\n"))) {
		if (used == sizeof(header) - 1)
			die("a header without an end");
		got = receive(header + used, sizeof(header) - 1 - used);
		if (!got)
			return false;
		used += got;
		header[used] = 0;
	}
	missing -= header + used - (end + 4);
	length = strcasestr(header, "\r\nContent-Length:");
	/* It has to promise the range that was asked for. */
	if (strncmp(header, "HTTP/1.1 206 ", 13) || !length || strtoull(length + 17, NULL, 10) != bytes) {
		fprintf(stderr, "session: asked for %llu bytes, got:\n%s\n", (unsigned long long)bytes,
			header);
		exit(1);
	}
	last = strcasestr(header, "\r\nConnection: close");
	while (missing) {
		got = receive(NULL, missing);
		if (!got)
			return false;
		missing -= got;
	}
	/* The server ends a connection after a thousand requests, and says so in the last answer. */
	if (last) {
		close(server);
		server = -1;
	}
	return true;
}

static void ask_all(void)
{
	for (int i = 0; i < file_count; i++) {
		wait_until(files[i].at_us);
		if (!fetched(files[i].bytes))
			return;
		files[i].done_us = now_us();
	}
}

/* The bitrate after chunks that took so long. */
static uint64_t bitrate(const struct video *video)
{
	int first = file_count > REMEMBERED ? file_count - REMEMBERED : 0;
	uint64_t best = video->rates_bps[0];
	double us_per_bit = 0;

	if (!file_count)
		return best;
	for (int i = first; i < file_count; i++)
		us_per_bit += (files[i].done_us - files[i].at_us) / (files[i].bytes * 8.0);
	for (int i = 0; i < video->rates; i++)
		if (video->rates_bps[i] <= CAUTION * 1e6 * (file_count - first) / us_per_bit)
			best = video->rates_bps[i];
	return best;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static void play(struct video *video)
{
	uint64_t buffered_us = 0, seen_us = video->start_us;
	bool playing = false;

	wait_until(video->start_us);
	while (seen_us < video->stop_us) {
		uint64_t rate_bps, until_us, passed_us;
		struct file *chunk;
		bool came;

		if (buffered_us + video->chunk_us > video->buffer_us) {
			uint64_t over_us = buffered_us + video->chunk_us - video->buffer_us;

			over_us = least(over_us, video->stop_us - seen_us);
			wait_until(seen_us + over_us);
			buffered_us -= over_us;
			video->played_us += over_us;
			seen_us += over_us;
			continue;
		}
		rate_bps = bitrate(video);
		chunk = add_file(now_us(), rate_bps / 8 * video->chunk_us / 1000000);
		came = fetched(chunk->bytes);
		if (came)
			chunk->done_us = now_us();
		until_us = least(came ? chunk->done_us : video->stop_us, video->stop_us);
		passed_us = until_us > seen_us ? until_us - seen_us : 0;
		if (!playing) {
			video->startup_us = passed_us;
		} else if (passed_us > buffered_us) {
			video->rebuffer_us += passed_us - buffered_us;
			video->rebuffers++;
			video->played_us += buffered_us;
			buffered_us = 0;
		} else {
			video->played_us += passed_us;
			buffered_us -= passed_us;
		}
		seen_us = until_us;
		if (!came)
			return;
		playing = true;
		buffered_us += video->chunk_us;
		video->bits += (double)rate_bps * video->chunk_us / 1e6;
	}
}

/* Whether the plan is a video's; else its requests are in `files`. */
static bool read_plan(const char *path, struct video *video)
{
	FILE *file = fopen(path, "r");
	unsigned long long a, b, c, d;
	int fields;

	if (!file)
		die(path);
	if (fscanf(file, "video %llu %llu %llu %llu", &a, &b, &c, &d) == 4) {
		*video = (struct video){ .start_us = a, .stop_us = b, .chunk_us = c, .buffer_us = d };
		while (video->rates < RATES_MAX && fscanf(file, "%llu", &a) == 1)
			video->rates_bps[video->rates++] = a;
		if (!video->rates)
			die(path);
		fclose(file);
		return true;
	}
	while ((fields = fscanf(file, "%llu %llu", &a, &b)) == 2)
		add_file(a, b);
	if (fields != EOF)
		die(path);
	fclose(file);
	return false;
}

static FILE *output(const char *stem, const char *suffix)
{
	char path[512];
	FILE *file;

	snprintf(path, sizeof(path), "%s%s", stem, suffix);
	file = fopen(path, "w");
	if (!file)
		die(path);
	return file;
}

static void report(const char *stem, const struct video *video)
{
	const struct lablink_flow_counters *link = &counters.flow[SERVER_ADDRESS % LABLINK_FLOWS];
	FILE *file = output(stem, ".csv");

	fprintf(file, "at_us,bytes,first_us,done_us\n");
	for (int i = 0; i < file_count; i++)
		fprintf(file, "%llu,%llu,%llu,%llu\n", (unsigned long long)files[i].at_us,
			(unsigned long long)files[i].bytes, (unsigned long long)files[i].done_us,
			(unsigned long long)files[i].done_us);
	if (fclose(file))
		die("csv");
	read_link();
	file = output(stem, ".json");
	fprintf(file, "{\"delivered_pkts\":%llu,\"dropped_pkts\":%llu,\"lost_pkts\":%llu",
		(unsigned long long)link->delivered_pkts, (unsigned long long)link->dropped_pkts,
		(unsigned long long)link->lost_pkts);
	if (video)
		fprintf(file,
			",\"video\":{\"startup_us\":%llu,\"played_us\":%llu,\"rebuffer_us\":%llu,"
			"\"rebuffers\":%d,\"bits\":%.0f}",
			(unsigned long long)video->startup_us, (unsigned long long)video->played_us,
			(unsigned long long)video->rebuffer_us, video->rebuffers, video->bits);
	fprintf(file, "}\n");
	if (fclose(file))
		die("json");
}

int main(int argc, char *argv[])
{
	struct video video = {};
	bool plays;

	if (argc != 5) {
		fprintf(stderr, "usage: session PLAN CONNECTIONS LIMIT_MS OUT\n");
		return 2;
	}
	plays = read_plan(argv[1], &video);
	limit_us = strtoull(argv[3], NULL, 10) * 1000;
	enter_netns();
	await_link();
	if (plays)
		play(&video);
	else
		ask_all();
	report(argv[4], plays ? &video : NULL);
	return 0;
}
