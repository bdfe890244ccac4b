/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mahimahi's path, for the lab's source and sink on the host (PATH_HEADER).
 *
 * The path's file holds time 0 in ms since 1970, and then for each flow the network namespace of its
 * source, which is inside mahimahi's shells. The sinks are outside.
 */
#define SERVER_NETNS "/proc/self/ns/net"
#define PATH_MAX_NAME 64

static int home_netns;
static int *source_netns;

static int open_netns(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		die(path);
	return fd;
}

static void enter_netns(int fd)
{
	if (setns(fd, CLONE_NEWNET))
		die("setns");
}

/* The socket of a flow's source; mahimahi translates its address on the way out. */
static int path_source(int index)
{
	int fd;

	enter_netns(source_netns[index]);
	fd = new_socket();
	enter_netns(home_netns);
	return fd;
}

static int64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* The link runs already, by the time of day. */
static void path_start(const char *path)
{
	FILE *file = fopen(path, "r");
	long long start_ms;
	char name[PATH_MAX_NAME];
	int64_t ahead_ns;

	if (!file || fscanf(file, "%lld", &start_ms) != 1)
		die(path);
	home_netns = open_netns(SERVER_NETNS);
	source_netns = zalloc(flow_count * sizeof(*source_netns));
	for (int i = 0; i < flow_count; i++) {
		if (fscanf(file, "%63s", name) != 1)
			die(path);
		source_netns[i] = open_netns(name);
	}
	fclose(file);
	ahead_ns = start_ms * 1000000 - clock_ns(CLOCK_REALTIME);
	if (ahead_ns < 0) {
		fprintf(stderr, "traffic: the shells took %lld ms longer to start than the trace allows\n",
			(long long)-ahead_ns / 1000000);
		exit(1);
	}
	start_ns = clock_ns(CLOCK_MONOTONIC) + ahead_ns;
}

/*
 * Nobody counts a flow's packets on the way, so both ends do. A packet of the source is delivered, delivered
 * twice, in flight, or lost.
 */
static void count_flow(const struct flow *flow, struct lablink_flow_counters *link)
{
	struct tcp_info source = {}, sink = {};
	socklen_t length = sizeof(source);
	uint64_t kept;

	if (getsockopt(flow->source, IPPROTO_TCP, TCP_INFO, &source, &length))
		die("TCP_INFO");
	length = sizeof(sink);
	if (flow->sink >= 0 && !getsockopt(flow->sink, IPPROTO_TCP, TCP_INFO, &sink, &length))
		link->delivered_pkts = sink.tcpi_data_segs_in;
	kept = (uint64_t)source.tcpi_delivered + source.tcpi_dsack_dups + source.tcpi_unacked +
	       source.tcpi_retrans - source.tcpi_sacked - source.tcpi_lost;
	if (source.tcpi_data_segs_out > kept + link->lost_pkts)
		link->lost_pkts = source.tcpi_data_segs_out - kept;
}

/* Brings `counters` up to date. The link's log tells the queue. */
static void path_read(void)
{
	for (int i = 0; i < flow_count; i++)
		if (flows[i].phase == SENDING)
			count_flow(&flows[i], &counters.flow[i + 1]);
}
