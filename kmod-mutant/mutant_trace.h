/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tracepoints: a flow has moved to another arm, a flow has fallen back. They cost nothing while
 * nobody listens. Arms are told by id and by name; the flow's addresses have 16 bytes, IPv4 ones as
 * ::ffff:a.b.c.d.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM mutant

#if !defined(_MUTANT_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _MUTANT_TRACE_H

#include <linux/tracepoint.h>
#include <net/ipv6.h>

#include "mutant_core.h"

#ifndef MUTANT_TRACE_ADDRESS
#define MUTANT_TRACE_ADDRESS

/* An address of a flow in the form of IPv6. */
static inline void mutant_trace_address(u8 *to, u16 family, const u8 *addr)
{
	__be32 v4;

	if (family == AF_INET6) {
		memcpy(to, addr, sizeof(struct in6_addr));
		return;
	}
	memcpy(&v4, addr, sizeof(v4));
	ipv6_addr_set_v4mapped(v4, (struct in6_addr *)to);
}

#endif /* MUTANT_TRACE_ADDRESS */

/*
 * The fields of an event's flow. The events of a DECLARE_EVENT_CLASS() share all fields, and these
 * events differ in the others. So macros hold the flow's.
 */
#define MUTANT_TRACE_FLOW_FIELDS \
	__field(u64, cookie) \
	__field(u64, netns) \
	__field(u16, family) \
	__field(u16, sport) \
	__field(u16, dport) \
	__array(u8, saddr, 16) \
	__array(u8, daddr, 16)

#define MUTANT_TRACE_FLOW_ASSIGN \
	do { \
		__entry->cookie = f->cookie; \
		__entry->netns = f->netns; \
		__entry->family = f->family; \
		__entry->sport = f->sport; \
		__entry->dport = f->dport; \
		mutant_trace_address(__entry->saddr, f->family, f->saddr); \
		mutant_trace_address(__entry->daddr, f->family, f->daddr); \
	} while (0)

#define MUTANT_TRACE_FLOW_FORMAT "cookie=%llu netns=%llu saddr=[%pI6c]:%u daddr=[%pI6c]:%u"
#define MUTANT_TRACE_FLOW_ARGS \
	__entry->cookie, __entry->netns, __entry->saddr, __entry->sport, \
	__entry->daddr, __entry->dport

TRACE_EVENT(mutant_switch,

	TP_PROTO(const struct mutant_flow *f, u8 from, u8 to, u32 cwnd_before, u32 cwnd),

	TP_ARGS(f, from, to, cwnd_before, cwnd),

	TP_STRUCT__entry(
		MUTANT_TRACE_FLOW_FIELDS
		__field(u8, from)			/* ids of arms */
		__field(u8, to)
		__array(char, from_arm, MUTANT_ARM_NAME_MAX)
		__array(char, to_arm, MUTANT_ARM_NAME_MAX)
		__field(u32, cwnd_before)		/* the old arm's last window, packets */
		__field(u32, cwnd)			/* the new arm's first window, packets */
	),

	TP_fast_assign(
		MUTANT_TRACE_FLOW_ASSIGN;
		__entry->from = from;
		__entry->to = to;
		memcpy(__entry->from_arm, mutant_arms[from].name, MUTANT_ARM_NAME_MAX);
		memcpy(__entry->to_arm, mutant_arms[to].name, MUTANT_ARM_NAME_MAX);
		__entry->cwnd_before = cwnd_before;
		__entry->cwnd = cwnd;
	),

	TP_printk(MUTANT_TRACE_FLOW_FORMAT " from=%s to=%s cwnd_before=%u cwnd=%u",
		  MUTANT_TRACE_FLOW_ARGS, __entry->from_arm, __entry->to_arm,
		  __entry->cwnd_before, __entry->cwnd)
);

TRACE_DEFINE_ENUM(MUTANT_FALLBACK_REASON_NONE);
TRACE_DEFINE_ENUM(MUTANT_FALLBACK_REASON_SILENCE);
TRACE_DEFINE_ENUM(MUTANT_FALLBACK_REASON_INIT_REFUSED);
TRACE_DEFINE_ENUM(MUTANT_FALLBACK_REASON_SESSION_ENDED);

TRACE_EVENT(mutant_fallback,

	TP_PROTO(const struct mutant_flow *f),

	TP_ARGS(f),

	TP_STRUCT__entry(
		MUTANT_TRACE_FLOW_FIELDS
		__field(u8, to)				/* id of the arm that runs now */
		__field(u8, reason)			/* enum mutant_fallback_reason */
		__array(char, to_arm, MUTANT_ARM_NAME_MAX)
	),

	TP_fast_assign(
		MUTANT_TRACE_FLOW_ASSIGN;
		__entry->to = f->arm;
		__entry->reason = READ_ONCE(f->reason);
		memcpy(__entry->to_arm, mutant_arms[f->arm].name, MUTANT_ARM_NAME_MAX);
	),

	TP_printk(MUTANT_TRACE_FLOW_FORMAT " to=%s reason=%s",
		  MUTANT_TRACE_FLOW_ARGS, __entry->to_arm,
		  __print_symbolic(__entry->reason,
				   { MUTANT_FALLBACK_REASON_NONE, "none" },
				   { MUTANT_FALLBACK_REASON_SILENCE, "silence" },
				   { MUTANT_FALLBACK_REASON_INIT_REFUSED, "init-refused" },
				   { MUTANT_FALLBACK_REASON_SESSION_ENDED, "session-ended" }))
);

#endif /* _MUTANT_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE mutant_trace
#include <trace/define_trace.h>
