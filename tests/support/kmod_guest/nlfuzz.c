// SPDX-License-Identifier: GPL-2.0-only
/*
 * Netlink messages that are valid, nearly valid, or nothing like it, at the module.
 *
 *   nlfuzz MESSAGES SEED
 *
 * Starts from valid requests for live flows, breaks most of them in one of several ways, and reads
 * whatever comes back. At the end the settings are put back, a valid batch must still switch the
 * flows, and one JSON object tells what was answered: how many errors, how many of them without an
 * extended text although the message reached the module's policies, and whether the module works.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include "nlfuzz.h"

#define ERRNO_MAX	134
#define COMMANDS	16

struct fuzz_flow flows[FLOWS];
__u16 family;
__u64 seed;

static int control;
static __u64 answers, errors, with_text, by_errno[ERRNO_MAX];
static __u64 silent[COMMANDS][ERRNO_MAX];	/* by command */

static void flow_open(size_t i, const struct sockaddr_in *to, int listener)
{
	socklen_t len = sizeof(flows[i].cookie);

	flows[i].client = socket(AF_INET, SOCK_STREAM, 0);
	if (setsockopt(flows[i].client, IPPROTO_TCP, TCP_CONGESTION, "mutant", 6))
		die("TCP_CONGESTION mutant");
	if (connect(flows[i].client, (const struct sockaddr *)to, sizeof(*to)))
		die("connect");
	flows[i].server = accept(listener, NULL, NULL);
	if (getsockopt(flows[i].client, SOL_SOCKET, SO_COOKIE, &flows[i].cookie, &len))
		die("SO_COOKIE");
}

/* Let every flow have some ACKs. */
static void flows_talk(void)
{
	static char bytes[4000];
	size_t i;

	for (i = 0; i < FLOWS; i++) {
		if (send(flows[i].client, bytes, sizeof(bytes), MSG_DONTWAIT) < 0 &&
		    errno != EAGAIN)
			die("send");
		while (recv(flows[i].server, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
			;
	}
}

static bool has_text(const struct nlmsghdr *h)
{
	const struct nlmsgerr *e = NLMSG_DATA(h);
	size_t at = sizeof(*e);

	if (!(h->nlmsg_flags & NLM_F_ACK_TLVS))
		return false;
	if (!(h->nlmsg_flags & NLM_F_CAPPED))
		at += NLMSG_ALIGN(e->msg.nlmsg_len) - NLMSG_HDRLEN;
	return attr_find((const __u8 *)e + at, h->nlmsg_len - NLMSG_HDRLEN - at, NLMSGERR_ATTR_MSG);
}

/* Whether the kernel takes a request as far as the module's own policies. */
static bool reaches_policy(const struct request *r, bool dump)
{
	const struct nlmsghdr *h = (const struct nlmsghdr *)r->data;
	__u8 cmd = r->data[NLMSG_HDRLEN];

	if (r->len < NLMSG_HDRLEN + GENL_HDRLEN || h->nlmsg_len > r->len ||
	    h->nlmsg_type != family || h->nlmsg_len < NLMSG_HDRLEN + GENL_HDRLEN)
		return false;
	if (dump != ((h->nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP))
		return false;
	if (dump)
		return cmd == MUTANT_CMD_ARM_GET || cmd == MUTANT_CMD_FLOW_GET ||
		       cmd == MUTANT_CMD_STEP_GET;
	return cmd == MUTANT_CMD_CONTROL ||
	       (cmd >= MUTANT_CMD_ARM_GET && cmd <= MUTANT_CMD_CONFIG_SET &&
		cmd != MUTANT_CMD_STEP_GET);
}

static void answers_read(const struct request *r, bool dump)
{
	static __u8 buffer[1 << 16];
	bool policy = reaches_policy(r, dump);
	__u8 cmd = r->data[NLMSG_HDRLEN];
	ssize_t n;

	while ((n = recv(control, buffer, sizeof(buffer), MSG_DONTWAIT)) > 0) {
		const struct nlmsghdr *h = (const struct nlmsghdr *)buffer;

		for (; NLMSG_OK(h, n); h = NLMSG_NEXT(h, n)) {
			int code = 0;

			answers++;
			if (h->nlmsg_type == NLMSG_ERROR)
				code = -((const struct nlmsgerr *)NLMSG_DATA(h))->error;
			if (code <= 0 || code >= ERRNO_MAX)
				continue;
			errors++;
			by_errno[code]++;
			if (has_text(h))
				with_text++;
			else if (policy)
				silent[cmd % COMMANDS][code]++;
		}
	}
	if (errno != EAGAIN && errno != ENOBUFS)
		die("answer");
}

/* The first attributes are settings, u32 all of them. */
#define CONFIG_SETTINGS	MUTANT_A_CONFIG_FLOWS_MAX

static void config_read(__u32 *config)
{
	static struct request r;
	__u8 buffer[4096];
	const void *attrs;
	size_t len;
	__u16 i;

	request_start(&r, family, MUTANT_CMD_CONFIG_GET, 0);
	if (send(control, r.data, r.len, 0) < 0 || recv(control, buffer, sizeof(buffer), 0) < 0)
		die("config-get");
	attrs = message_attrs((const struct nlmsghdr *)buffer, &len);
	for (i = 1; i <= CONFIG_SETTINGS; i++)
		memcpy(&config[i], attr_data(attr_find(attrs, len, i)), sizeof(*config));
}

/* Send a valid request; 0 or the error that it got. */
static int ask(struct request *r)
{
	__u8 buffer[8192];
	ssize_t n;
	int error = 1;

	if (send(control, r->data, r->len, 0) < 0)
		die("request");
	while (error == 1 && (n = recv(control, buffer, sizeof(buffer), 0)) > 0) {
		const struct nlmsghdr *h = (const struct nlmsghdr *)buffer;

		for (; NLMSG_OK(h, n); h = NLMSG_NEXT(h, n))
			if (h->nlmsg_type == NLMSG_ERROR)
				error = -((const struct nlmsgerr *)NLMSG_DATA(h))->error;
	}
	return error;
}

static bool runs(size_t i, const char *name)
{
	char active[32] = "";
	socklen_t len = sizeof(active);

	getsockopt(flows[i].client, IPPROTO_TCP, TCP_CONGESTION, active, &len);
	return !strcmp(active, name);
}

/* The module still does what it is told: settings, unpin, one batch each way. */
static bool works(const __u32 *config)
{
	static const char *const arms[] = { "m/vegas", "m/bbr" };
	static const __u32 ids[] = { 3, 2 };
	static struct request r;
	__u32 again[CONFIG_SETTINGS + 1];
	size_t i, round;
	__u16 a;

	request_start(&r, family, MUTANT_CMD_CONFIG_SET, NLM_F_ACK);
	for (a = 1; a <= CONFIG_SETTINGS; a++)
		put_u32(&r, a, config[a]);
	if (ask(&r))
		return false;
	config_read(again);
	if (memcmp(again + 1, config + 1, CONFIG_SETTINGS * sizeof(*config)))
		return false;
	for (i = 0; i < FLOWS; i++) {
		request_start(&r, family, MUTANT_CMD_UNPIN, NLM_F_ACK);
		put_u64(&r, MUTANT_A_PIN_COOKIE, flows[i].cookie);
		ask(&r);
	}
	for (round = 0; round < 2; round++) {
		struct mutant_command commands[FLOWS];

		for (i = 0; i < FLOWS; i++)
			commands[i] = (struct mutant_command){
				.cookie = flows[i].cookie,
				.arm = ids[round],
			};
		request_start(&r, family, MUTANT_CMD_SELECT, NLM_F_ACK);
		request_attr(&r, MUTANT_A_COMMAND_COMMANDS, commands, sizeof(commands));
		if (ask(&r))
			return false;
		for (i = 0; i < 20; i++) {
			flows_talk();
			usleep(10000);
		}
		for (i = 0; i < FLOWS; i++)
			if (!runs(i, arms[round]))
				return false;
	}
	return true;
}

static void report(__u64 messages, bool alive)
{
	const char *comma = "";
	size_t cmd, code;

	printf("{\"messages\": %llu, \"answers\": %llu, \"errors\": %llu, \"with_text\": %llu, ",
	       (unsigned long long)messages, (unsigned long long)answers,
	       (unsigned long long)errors, (unsigned long long)with_text);
	printf("\"works\": %s, \"by_errno\": {", alive ? "true" : "false");
	for (code = 0; code < ERRNO_MAX; code++)
		if (by_errno[code]) {
			printf("%s\"%zu\": %llu", comma, code, (unsigned long long)by_errno[code]);
			comma = ", ";
		}
	printf("}, \"silent\": [");
	comma = "";
	for (cmd = 0; cmd < COMMANDS; cmd++)
		for (code = 0; code < ERRNO_MAX; code++)
			if (silent[cmd][code]) {
				printf("%s{\"cmd\": %zu, \"errno\": %zu, \"count\": %llu}", comma,
				       cmd, code, (unsigned long long)silent[cmd][code]);
				comma = ", ";
			}
	printf("]}\n");
}

int main(int argc, char **argv)
{
	struct sockaddr_in to = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t len = sizeof(to);
	__u32 config[CONFIG_SETTINGS + 1];
	static struct request r;
	__u64 i, messages;
	int listener;

	if (argc != 3) {
		fprintf(stderr, "usage: nlfuzz MESSAGES SEED\n");
		return 2;
	}
	messages = strtoull(argv[1], NULL, 0);
	seed = strtoull(argv[2], NULL, 0) * 0x9e3779b97f4a7c15ULL + 1;
	control = genl_open(8 << 20);
	family = genl_family(control, MUTANT_FAMILY_NAME, NULL, NULL);
	session_open(control, family, MUTANT_CMD_SESSION_OPEN);
	listener = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(listener, (struct sockaddr *)&to, sizeof(to)) || listen(listener, FLOWS) ||
	    getsockname(listener, (struct sockaddr *)&to, &len))
		die("listen");
	for (i = 0; i < FLOWS; i++)
		flow_open(i, &to, listener);
	config_read(config);

	for (i = 0; i < messages; i++) {
		bool dump = make_message(&r);

		if (send(control, r.data, r.len, 0) < 0)
			die("send");
		answers_read(&r, dump);
		if (i % 64 == 0)
			flows_talk();
		if (i && i % 10000 == 0)
			tell_host("nlfuzz: %llu of %llu messages", i, messages);
	}
	report(messages, works(config));
	return 0;
}
