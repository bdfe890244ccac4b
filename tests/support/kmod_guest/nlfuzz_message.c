// SPDX-License-Identifier: GPL-2.0-only
/* Makes the messages of `nlfuzz`: valid ones for live flows, most of them then broken. */
#include "controls.h"
#include "nlfuzz.h"

enum breakage {
	NOTHING,
	CUT_MESSAGE,
	CUT_ATTRIBUTE,
	LONG_ATTRIBUTE,
	HUGE_ATTRIBUTE,
	TRAILING_BYTES,
	UNKNOWN_ATTRIBUTE,
	TWICE,
	TYPE_BITS,
	FLIP_BITS,
	NOISE,
	HEADER,
	BREAKAGES
};

static __u32 any_of(const __u32 *values, size_t n)
{
	return values[rnd_below(&seed, n)];
}

static __u32 some_arm(void)
{
	static const __u32 edges[] = { 0, 1, 2, 11, 12, 15, 16, 20, 21, 255, 256, 0x7fffffff, ~0U };

	return rnd_below(&seed, 4) ? 1 + rnd_below(&seed, 15)
				   : any_of(edges, sizeof(edges) / sizeof(*edges));
}

static __u64 some_cookie(void)
{
	return rnd_below(&seed, 4) ? flows[rnd_below(&seed, FLOWS)].cookie : rnd(&seed);
}

void put_u32(struct request *r, __u16 type, __u32 value)
{
	request_attr(r, type, &value, sizeof(value));
}

void put_u64(struct request *r, __u16 type, __u64 value)
{
	request_attr(r, type, &value, sizeof(value));
}

static void put_commands(struct request *r)
{
	static struct mutant_command commands[MUTANT_COMMANDS_MAX];
	static const __u32 counts[] = { 0, 1, 2, 3, 64, MUTANT_COMMANDS_MAX };
	size_t i, n = any_of(counts, sizeof(counts) / sizeof(*counts));

	for (i = 0; i < n; i++)
		commands[i] = (struct mutant_command){
			.cookie = some_cookie(),
			.arm = some_arm(),
			.reserved = rnd_below(&seed, 8) ? 0 : rnd(&seed),
		};
	request_attr(r, MUTANT_A_COMMAND_COMMANDS, commands, n * sizeof(*commands));
}

static void put_controls(struct request *r)
{
	static struct mutant_control controls[MUTANT_CONTROLS_MAX];
	static const __u32 counts[] = { 0, 1, 2, 3, 64, MUTANT_CONTROLS_MAX };
	size_t i, n = any_of(counts, sizeof(counts) / sizeof(*counts));

	for (i = 0; i < n; i++)
		controls[i] = control_at_random(&seed, some_cookie());
	request_attr(r, MUTANT_A_CONTROL_CONTROLS, controls, n * sizeof(*controls));
}

static void put_config(struct request *r)
{
	static const __u32 timeouts[] = { 0, 1, 500, 3600000, 3600001, ~0U };

	if (rnd_below(&seed, 2))
		put_u32(r, MUTANT_A_CONFIG_DEFAULT_ARM, some_arm());
	if (rnd_below(&seed, 2))
		put_u32(r, MUTANT_A_CONFIG_FALLBACK_ARM, some_arm());
	if (rnd_below(&seed, 2))
		put_u32(r, MUTANT_A_CONFIG_WATCHDOG_MS, any_of(timeouts, 6));
	if (rnd_below(&seed, 2))
		put_u32(r, MUTANT_A_CONFIG_RESTORE, rnd_below(&seed, 4));
}

/* A request that is right but for its values. Returns whether it asks for a dump. */
static bool build(struct request *r)
{
	static const char *const names[] = {
		"cubic", "reno", "scalable", "cdg", "dctcp", "none", "", "mutant",
	};
	static const __u8 dumps[] = {
		MUTANT_CMD_ARM_GET, MUTANT_CMD_FLOW_GET, MUTANT_CMD_STEP_GET,
	};
	const char *name = names[rnd_below(&seed, sizeof(names) / sizeof(*names))];
	__u32 what = rnd_below(&seed, 400);

	/* Each of these makes the kernel run modprobe, which costs as much as all the others. */
	if (what == 0) {
		request_start(r, family, MUTANT_CMD_ARM_LOAD, NLM_F_ACK);
		request_attr(r, MUTANT_A_ARM_NAME, name, strlen(name) + 1);
		return false;
	}
	switch (what % 9) {
	case 0:
		request_start(r, family, MUTANT_CMD_ARM_GET, NLM_F_ACK);
		put_u32(r, MUTANT_A_ARM_ID, some_arm());
		return false;
	case 1:
		request_start(r, family, MUTANT_CMD_FLOW_GET, NLM_F_ACK);
		put_u64(r, MUTANT_A_FLOW_COOKIE, some_cookie());
		return false;
	case 2:
		request_start(r, family, MUTANT_CMD_SELECT, NLM_F_ACK);
		put_commands(r);
		return false;
	case 3:
		request_start(r, family, MUTANT_CMD_PIN, NLM_F_ACK);
		put_u64(r, MUTANT_A_PIN_COOKIE, some_cookie());
		put_u32(r, MUTANT_A_PIN_ARM, some_arm());
		return false;
	case 4:
		request_start(r, family, MUTANT_CMD_UNPIN, NLM_F_ACK);
		put_u64(r, MUTANT_A_PIN_COOKIE, some_cookie());
		return false;
	case 5:
		request_start(r, family, MUTANT_CMD_CONFIG_SET, NLM_F_ACK);
		put_config(r);
		return false;
	case 6:
		request_start(r, family, MUTANT_CMD_CONFIG_GET, NLM_F_ACK);
		return false;
	case 7:
		request_start(r, family, MUTANT_CMD_CONTROL, NLM_F_ACK);
		put_controls(r);
		return false;
	default:
		request_start(r, family, dumps[rnd_below(&seed, 3)], NLM_F_DUMP);
		return true;
	}
}

/* Append what is not an attribute of the operation, or not an attribute at all. */
static void append(struct request *r, enum breakage how)
{
	static __u8 noise[65531];
	size_t i, n = rnd_below(&seed, how == NOISE ? 512 : 16) + 1;

	for (i = 0; i < n; i++)
		noise[i] = rnd(&seed);
	switch (how) {
	case HUGE_ATTRIBUTE:
		request_attr(r, 1 + rnd_below(&seed, 4), noise,
			     sizeof(noise) - rnd_below(&seed, 12));
		break;
	case UNKNOWN_ATTRIBUTE:
		request_attr(r, rnd(&seed) & NLA_TYPE_MASK, noise, n);
		break;
	case LONG_ATTRIBUTE:
		request_attr(r, 1 + rnd_below(&seed, 4), noise, n);
		break;
	default:
		memcpy(r->data + r->len, noise, n);
		r->len += n;
		((struct nlmsghdr *)r->data)->nlmsg_len = r->len;
	}
}

static void break_it(struct request *r, enum breakage how)
{
	const size_t start = NLMSG_HDRLEN + GENL_HDRLEN;
	struct nlmsghdr *h = (struct nlmsghdr *)r->data;
	struct nlattr *a = (struct nlattr *)(r->data + start);
	bool has_attribute = r->len > start;
	size_t i;

	switch (how) {
	case CUT_MESSAGE:
		r->len = rnd_below(&seed, r->len) + 1;
		if (r->len >= NLMSG_HDRLEN && rnd_below(&seed, 2))
			h->nlmsg_len = r->len;
		break;
	case CUT_ATTRIBUTE:
		if (has_attribute)
			a->nla_len = rnd_below(&seed, a->nla_len + 8);
		break;
	case TWICE:
		if (has_attribute && a->nla_len < 64)
			request_attr(r, a->nla_type, attr_data(a), attr_len(a));
		break;
	case TYPE_BITS:
		if (has_attribute)
			a->nla_type |= rnd_below(&seed, 2) ? NLA_F_NESTED : NLA_F_NET_BYTEORDER;
		break;
	case FLIP_BITS:
		for (i = rnd_below(&seed, 8) + 1; i; i--)
			r->data[rnd_below(&seed, r->len)] ^= 1 << rnd_below(&seed, 8);
		break;
	case HEADER:
		/* Command, version, the reserved half, and the flags: all but the family. */
		r->data[NLMSG_HDRLEN + rnd_below(&seed, GENL_HDRLEN)] = rnd(&seed);
		h->nlmsg_flags = rnd(&seed);
		break;
	case NOTHING:
		break;
	default:
		append(r, how);
	}
}

/* Make the next message. Returns whether it asks for a dump. */
bool make_message(struct request *r)
{
	bool dump = build(r);

	/* One in four is left as it is, so that the state behind the policies moves too. */
	if (rnd_below(&seed, 4))
		break_it(r, 1 + rnd_below(&seed, BREAKAGES - 1));
	/* Not at other families: this is no test of theirs. */
	if (r->len >= NLMSG_HDRLEN)
		((struct nlmsghdr *)r->data)->nlmsg_type = family;
	return dump;
}
