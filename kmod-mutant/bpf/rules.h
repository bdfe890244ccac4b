/* SPDX-License-Identifier: GPL-2.0-only */
/* The tables of rules, and how one is found. The program shares this file with its test. */
#ifndef MUTANT_BPF_RULES_H
#define MUTANT_BPF_RULES_H

/*
 * There are five kinds of rules. A policy's rule with the longest prefix decides;
 * among equal ones the first kind does. Where no policy says anything, a used prefix
 * decides.
 */
enum rule_kind {
	RULE_BOTH_PORTS,	/* policy for a remote and an own port */
	RULE_REMOTE_PORT,	/* policy for a remote port */
	RULE_OWN_PORT,		/* policy for an own port */
	RULE_ANY_PORT,		/* policy for all ports */
	RULE_USED,		/* prefix that `ltp-switcher use` was given */
	RULE_KINDS,
};

#define RULE_FAMILY_IPV4	4
#define RULE_FAMILY_IPV6	6

/* Bits of a key before the address. A rule with a prefix of n bits has this and n more. */
#define RULE_HEAD_BITS		64

/* Key of the trie. Fields that a kind does not name are 0. */
struct rule_key {
	__u32 length_bits;
	__u16 family;		/* RULE_FAMILY_* */
	__u16 kind;		/* enum rule_kind */
	__u16 remote_port;	/* network byte order, as is the next */
	__u16 own_port;
	__u32 address[4];	/* network byte order; of IPv4 the first, and zeros */
};

struct rule {
	__u32 rank;		/* 2 * (prefix bits + 1), 0 without prefix; 1 more with a netns */
	__u32 chosen;		/* whether its flows get the congestion control */
	__u64 hits;		/* flows that got it */
	__u64 missed;		/* flows that the kernel did not let have it */
	__u64 first_ns;		/* time of the first and the last hit, ns since boot */
	__u64 last_ns;
};

/* Bits of a cover's key before the address. */
#define COVER_HEAD_BITS		32

/*
 * Key of the second trie. It has each prefix of a rule once, with a bit for each kind of which a
 * rule covers it. So one search tells which searches of the first trie can find anything. It is
 * empty where all rules have one kind.
 */
struct cover_key {
	__u32 length_bits;
	__u32 family;
	__u32 address[4];
};

/* The kinds and ports of all rules, so that a search that can find nothing is left out. */
struct summary {
	__u32 kinds;			/* a bit for each kind of which there are rules */
	__u32 unused;
	__u64 ports[RULE_ANY_PORT];	/* each kind with ports: ports_bit() of its rules */
};

/* A flow's remote address, and its ports in network byte order. */
struct flow {
	__u16 family;
	__u16 remote_port;
	__u16 own_port;
	__u32 address[4];
};

/* The bit of a pair of ports, of 64, in either byte order. A port that is not named is 0. */
static __always_inline __u64 ports_bit(__u16 remote_port, __u16 own_port)
{
	return 1ULL << (((remote_port ^ remote_port >> 8) + 5 * (own_port ^ own_port >> 8)) & 63);
}

/* The flow's ports, as far as rules of a kind name them. */
static __always_inline __u16 remote_port_for(__u32 kind, const struct flow *flow)
{
	return kind == RULE_BOTH_PORTS || kind == RULE_REMOTE_PORT ? flow->remote_port : 0;
}

static __always_inline __u16 own_port_for(__u32 kind, const struct flow *flow)
{
	return kind == RULE_BOTH_PORTS || kind == RULE_OWN_PORT ? flow->own_port : 0;
}

/* The rule that decides for a flow. */
static __always_inline struct rule *rule_of(const struct flow *flow, const struct summary *summary)
{
	struct rule_key key = {
		.length_bits = sizeof(struct rule_key) * 8 - 32,
		.family = flow->family,
	};
	struct cover_key cover = {
		.length_bits = sizeof(struct cover_key) * 8 - 32,
		.family = flow->family,
	};
	struct rule *best = NULL, *rule;
	__u32 kinds = summary->kinds;
	const __u32 *covering;
	__u32 kind;

	for (kind = 0; kind < RULE_ANY_PORT; kind++) {
		if (!(summary->ports[kind] &
		      ports_bit(remote_port_for(kind, flow), own_port_for(kind, flow))))
			kinds &= ~(1U << kind);
	}
	/* With one kind left, its own search costs no more. */
	if (kinds & (kinds - 1)) {
		__builtin_memcpy(cover.address, flow->address, sizeof(cover.address));
		covering = find_cover(&cover);
		if (!covering)
			return NULL;
		kinds &= *covering;
	}
	__builtin_memcpy(key.address, flow->address, sizeof(key.address));
	for (kind = 0; kind < RULE_KINDS; kind++) {
		if (!(kinds & 1U << kind))
			continue;
		if (kind == RULE_USED && best)
			break;
		key.kind = kind;
		key.remote_port = remote_port_for(kind, flow);
		key.own_port = own_port_for(kind, flow);
		rule = find_rule(&key);
		if (rule && (!best || rule->rank > best->rank))
			best = rule;
	}
	return best;
}

#endif
