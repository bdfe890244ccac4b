/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A web client: it asks for downloads and pages at given times, and notes when each is complete.
 *
 *   PROGRAM PLAN CONNECTIONS LIMIT_MS OUT
 *
 * PLAN has a line for each request: the time in microseconds after the link's clock began, and the
 * sizes of its files in bytes. The first file, a page's document, is fetched alone. Then the others
 * follow over up to CONNECTIONS connections, the document's among them. Sizes are ranges of one large
 * file of the server. With MANY_CLIENTS a line has the client's address and its port after the time,
 * and one file.
 *
 * OUT.csv gets a line for each request: when it was asked for, its bytes, and when the first file and the
 * last one were complete. Times are in microseconds, 0 where a file was not complete LIMIT_MS after the clock
 * began. OUT.json gets the link's counts for the server.
 */
#ifndef LABLINK_BROWSER_H
#define LABLINK_BROWSER_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "lablink.h"

#define SERVER_ADDRESS 0x0a010101U
#define CLIENT_ADDRESS 0x0a020101U
#define PORT 80
#define CLIENT_NETNS "/run/netns/server" /* the end of the link where data arrives */
#define FILES_MAX 32
#define HEADER_MAX 1024
#define CLOCK_POLL_NS 1000000
#define EVENTS 64

struct request {
	uint64_t at_us, first_us, done_us;
	uint32_t sizes[FILES_MAX];
	int files, asked, complete;
#ifdef MANY_CLIENTS
	uint32_t address;
	uint16_t port;
#endif
};

struct connection {
	int fd;
	struct request *request;
	uint32_t size, missing; /* bytes of the file under way; 0: none */
	bool in_body, first_file;
	char header[HEADER_MAX];
	size_t header_bytes;
};

static struct request *requests;
static int request_count, open_requests, connections_max;
static int epoll_fd, link_fd;
static uint64_t start_ns;
static struct lablink_counters counters;

static void die(const char *what)
{
	fprintf(stderr, "browser: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (now.tv_sec * 1000000000ULL + now.tv_nsec - start_ns) / 1000;
}

static void read_plan(const char *path)
{
	FILE *file = fopen(path, "r");
	char line[1024];

	if (!file)
		die(path);
	while (fgets(line, sizeof(line), file)) {
		struct request request = {};
		char *rest = line, *end;

		request.at_us = strtoull(rest, &rest, 10);
#ifdef MANY_CLIENTS
		request.address = strtoul(rest, &rest, 10);
		request.port = strtoul(rest, &rest, 10);
#endif
		while (request.files < FILES_MAX) {
			uint32_t size = strtoul(rest, &end, 10);

			if (end == rest)
				break;
			request.sizes[request.files++] = size;
			rest = end;
		}
		requests = realloc(requests, (request_count + 1) * sizeof(*requests));
		if (!requests || !request.files)
			die(path);
		requests[request_count++] = request;
	}
	fclose(file);
	open_requests = request_count;
}

#include "client.h"

static void connect_for(struct request *request)
{
	struct sockaddr_in local = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(CLIENT_ADDRESS) };
	struct sockaddr_in remote = { .sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(SERVER_ADDRESS),
				      .sin_port = htons(PORT) };
	struct connection *connection = calloc(1, sizeof(*connection));
	struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = connection };

#ifdef MANY_CLIENTS
	local.sin_addr.s_addr = htonl(request->address);
	local.sin_port = htons(request->port);
#endif
	if (!connection)
		die("calloc");
	connection->request = request;
	connection->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (connection->fd < 0 || bind(connection->fd, (struct sockaddr *)&local, sizeof(local)))
		die("bind");
	if (connect(connection->fd, (struct sockaddr *)&remote, sizeof(remote)) && errno != EINPROGRESS)
		die("connect");
	if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, connection->fd, &event))
		die("epoll_ctl");
}

/* Asks for the request's next file; false where there is none. */
static bool ask(struct connection *connection)
{
	struct request *request = connection->request;
	char text[128];
	int length;

	if (request->asked == request->files)
		return false;
	connection->first_file = !request->asked;
	connection->size = request->sizes[request->asked++];
	connection->missing = connection->size;
	connection->in_body = false;
	connection->header_bytes = 0;
	length = snprintf(text, sizeof(text),
			  "GET /file HTTP/1.1\r\nHost: lab\r\nRange: bytes=0-%u\r\n\r\n",
			  connection->size - 1);
	if (send(connection->fd, text, length, MSG_NOSIGNAL) != length)
		die("send");
	return true;
}

static void finish_file(struct connection *connection)
{
	struct request *request = connection->request;

	request->complete++;
	if (connection->first_file) {
		request->first_us = now_us();
		for (int n = 1; n < connections_max && n < request->files - 1; n++)
			connect_for(request);
	}
	if (request->complete == request->files) {
		request->done_us = now_us();
		open_requests--;
	}
}

/* The answer's header: it has to promise the range that was asked for. */
static void check_header(const struct connection *connection)
{
	const char *length = strcasestr(connection->header, "\r\nContent-Length:");

	if (!strncmp(connection->header, "HTTP/1.1 206 ", 13) && length &&
	    strtoul(length + 17, NULL, 10) == connection->size)
		return;
	fprintf(stderr, "browser: asked for %u bytes, got:\n%s\n", connection->size, connection->header);
	exit(1);
}

/* Reads some bytes of a header, and the body's bytes that come with it. */
static ssize_t read_header(struct connection *connection)
{
	size_t room = HEADER_MAX - 1 - connection->header_bytes;
	ssize_t got = recv(connection->fd, connection->header + connection->header_bytes, room, 0);
	char *end;

	if (got <= 0)
		return got;
	connection->header_bytes += got;
	connection->header[connection->header_bytes] = 0;
	end = strstr(connection->header, "\r\n\r\n");
	if (!end) {
		if (connection->header_bytes == HEADER_MAX - 1)
			die("a header without an end");
		return got;
	}
	connection->in_body = true;
	connection->missing -= connection->header + connection->header_bytes - (end + 4);
	*end = 0;
	check_header(connection);
	return got;
}

static ssize_t read_body(struct connection *connection)
{
	ssize_t got = recv(connection->fd, NULL, connection->missing, MSG_TRUNC);

	if (got > 0)
		connection->missing -= got;
	return got;
}

static void close_connection(struct connection *connection)
{
	close(connection->fd);
	free(connection);
}

static void progress(struct connection *connection, uint32_t events)
{
	ssize_t got;

	if (!connection->size) {
		/* Others may have asked for the last file while this connection was made. */
		if (events & EPOLLOUT && !ask(connection))
			close_connection(connection);
		return;
	}
	for (;;) {
		got = connection->in_body ? read_body(connection) : read_header(connection);
		if (got < 0 && errno == EAGAIN)
			return;
		if (got <= 0)
			die("the server closed a connection");
		if (!connection->in_body || connection->missing)
			continue;
		finish_file(connection);
		if (!ask(connection)) {
			close_connection(connection);
			return;
		}
	}
}

static void set_timer(int timer, uint64_t at_us)
{
	uint64_t at_ns = start_ns + at_us * 1000;
	struct itimerspec when = {
		.it_value = { .tv_sec = at_ns / 1000000000, .tv_nsec = at_ns % 1000000000 },
	};

	if (timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, NULL))
		die("timerfd");
}

static void run(uint64_t limit_us)
{
	int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC), next = 0;
	struct epoll_event event = { .events = EPOLLIN };
	struct epoll_event events[EVENTS];

	if (timer < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, timer, &event))
		die("timerfd");
	while (open_requests && now_us() < limit_us) {
		int count;

		while (next < request_count && requests[next].at_us <= now_us())
			connect_for(&requests[next++]);
		set_timer(timer, next < request_count ? requests[next].at_us : limit_us);
		count = epoll_wait(epoll_fd, events, EVENTS, -1);
		for (int i = 0; i < count; i++)
			if (events[i].data.ptr)
				progress(events[i].data.ptr, events[i].events);
	}
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

static void report(const char *stem)
{
	const struct lablink_flow_counters *link = &counters.flow[SERVER_ADDRESS % LABLINK_FLOWS];
	FILE *file = output(stem, ".csv");

	fprintf(file, "at_us,bytes,first_us,done_us\n");
	for (int i = 0; i < request_count; i++) {
		const struct request *request = &requests[i];
		uint64_t bytes = 0;

		for (int n = 0; n < request->files; n++)
			bytes += request->sizes[n];
		fprintf(file, "%llu,%llu,%llu,%llu\n", (unsigned long long)request->at_us,
			(unsigned long long)bytes, (unsigned long long)request->first_us,
			(unsigned long long)request->done_us);
	}
	if (fclose(file))
		die("csv");
	read_link();
	file = output(stem, ".json");
	fprintf(file, "{\"delivered_pkts\":%llu,\"dropped_pkts\":%llu,\"lost_pkts\":%llu}\n",
		(unsigned long long)link->delivered_pkts, (unsigned long long)link->dropped_pkts,
		(unsigned long long)link->lost_pkts);
	if (fclose(file))
		die("json");
}

int main(int argc, char *argv[])
{
	if (argc != 5) {
		fprintf(stderr, "usage: browser PLAN CONNECTIONS LIMIT_MS OUT\n");
		return 2;
	}
	read_plan(argv[1]);
	connections_max = atoi(argv[2]);
	enter_netns();
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (epoll_fd < 0)
		die("epoll_create1");
	await_link();
	run(strtoull(argv[3], NULL, 10) * 1000);
	report(argv[4]);
	return 0;
}

#endif
