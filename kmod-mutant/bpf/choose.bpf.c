// SPDX-License-Identifier: GPL-2.0-only
/*
 * Gives the congestion control mutant to the flows that rules name, and to no other.
 *
 * The problem. An operator wants some destinations under mutant. The system's
 * default is too wide: it reaches listeners, containers and MPTCP. A route's
 * congctl is a copy of a route, and a copy takes traffic out of tunnels and
 * through null routes.
 *
 * The moment. When a connection is established, tcp_init_transfer() runs the
 * programs of type sock_ops just before the congestion control's init. By then
 * the route and the application have had their say, ECN is negotiated, and no
 * protocol has any state. A congestion control set here is the first that runs.
 *
 * The restraint. The program acts only where nobody has chosen. The socket belongs
 * to the initial network namespace, and is no subflow of MPTCP. No setsockopt has
 * named a congestion control for it or for its listener. It has its namespace's
 * default. A route that names the default itself looks the same. The program writes
 * no reply, so that other programs have the last word on all that sock_ops can
 * answer.
 *
 * The rules. A trie holds prefixes, with ports where a policy names ports. The
 * longest prefix decides; see rules.h. A rule counts the flows it has chosen.
 * The tables are written from outside, by bpftool. If they are empty, if the module
 * is not loaded, or if anything else fails, the flow keeps the default.
 */
#include <linux/bpf.h>
#include <stdbool.h>
#include <stddef.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define AF_INET		2
#define AF_INET6	10
#define SOL_TCP		6
#define TCP_CONGESTION	13

/* The kernel's structures, as far as they are read; their layout comes from the kernel's BTF. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct tcp_congestion_ops;

struct netns_ipv4 {
	const struct tcp_congestion_ops *tcp_congestion_control;
};

struct net {
	struct netns_ipv4 ipv4;
};

struct sock_common {
	struct {
		struct net *net;
	} skc_net;
};

struct sock {
	struct sock_common __sk_common;
};

struct inet_sock {
	struct sock sk;
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	const struct tcp_congestion_ops *icsk_ca_ops;
	__u8 icsk_ca_setsockopt:1;
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	bool is_mptcp;
};

#pragma clang attribute pop

struct rule;
struct rule_key;
struct cover_key;
static struct rule *find_rule(const struct rule_key *key);
static const __u32 *find_cover(const struct cover_key *key);

#include "rules.h"

#define RULES_MAX	65536

/* Sizes, not types: bpftool then shows bytes, and needs no right to read BTF by its number. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, RULES_MAX);
	__uint(key_size, sizeof(struct rule_key));
	__uint(value_size, sizeof(struct rule));
} rules SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, RULES_MAX);
	__uint(key_size, sizeof(struct cover_key));
	__uint(value_size, sizeof(__u32));
} covers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct summary));
} summary SEC(".maps");

static __always_inline struct rule *find_rule(const struct rule_key *key)
{
	return bpf_map_lookup_elem(&rules, key);
}

static __always_inline const __u32 *find_cover(const struct cover_key *key)
{
	return bpf_map_lookup_elem(&covers, key);
}

static __always_inline bool is_mptcp(const struct tcp_sock *tp)
{
	/* A kernel without MPTCP has no such field. */
	return bpf_core_field_exists(tp->is_mptcp) && tp->is_mptcp;
}

/* Whether neither application nor route has chosen a congestion control, without MPTCP. */
static __always_inline bool is_free(struct bpf_sock_ops *ctx)
{
	const struct inet_connection_sock *icsk;
	struct bpf_sock *sk = ctx->sk;
	const struct tcp_sock *tp;

	if (!sk || bpf_get_netns_cookie(ctx) != bpf_get_netns_cookie(NULL))
		return false;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp || is_mptcp(tp))
		return false;
	icsk = &tp->inet_conn;
	if (BPF_CORE_READ_BITFIELD(icsk, icsk_ca_setsockopt))
		return false;
	return icsk->icsk_ca_ops ==
	       icsk->icsk_inet.sk.__sk_common.skc_net.net->ipv4.tcp_congestion_control;
}

static __always_inline bool read_flow(struct bpf_sock_ops *ctx, struct flow *flow)
{
	flow->remote_port = bpf_htons(bpf_ntohl(ctx->remote_port));
	flow->own_port = bpf_htons(ctx->local_port);
	flow->family = RULE_FAMILY_IPV4;
	flow->address[0] = ctx->remote_ip4;
	flow->address[1] = 0;
	flow->address[2] = 0;
	flow->address[3] = 0;
	if (ctx->family == AF_INET)
		return true;
	if (ctx->family != AF_INET6)
		return false;
	/* An IPv6 socket to an IPv4 host is a flow of IPv4. */
	if (!ctx->remote_ip6[0] && !ctx->remote_ip6[1] && ctx->remote_ip6[2] == bpf_htonl(0xffff)) {
		flow->address[0] = ctx->remote_ip6[3];
		return true;
	}
	flow->family = RULE_FAMILY_IPV6;
	flow->address[0] = ctx->remote_ip6[0];
	flow->address[1] = ctx->remote_ip6[1];
	flow->address[2] = ctx->remote_ip6[2];
	flow->address[3] = ctx->remote_ip6[3];
	return true;
}

SEC("sockops")
int choose_mutant(struct bpf_sock_ops *ctx)
{
	static const char name[] = "mutant";
	const struct summary *present;
	struct flow flow;
	struct rule *rule;
	__u32 zero = 0;
	__u64 now_ns;

	if (ctx->op != BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB &&
	    ctx->op != BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB)
		return 1;
	present = bpf_map_lookup_elem(&summary, &zero);
	if (!present || !present->kinds || !is_free(ctx) || !read_flow(ctx, &flow))
		return 1;
	rule = rule_of(&flow, present);
	if (!rule || !rule->chosen)
		return 1;
	if (bpf_setsockopt(ctx, SOL_TCP, TCP_CONGESTION, (void *)name, sizeof(name))) {
		__sync_fetch_and_add(&rule->missed, 1);
		return 1;
	}
	now_ns = bpf_ktime_get_boot_ns();
	if (!rule->first_ns)
		rule->first_ns = now_ns;
	rule->last_ns = now_ns;
	__sync_fetch_and_add(&rule->hits, 1);
	return 1;
}

char choose_license[] SEC("license") = "GPL";
