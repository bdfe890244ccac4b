// SPDX-License-Identifier: GPL-2.0-only
/* The table of starting arms; mutant_start.h explains the whole. */
#include <linux/jhash.h>
#include <linux/rhashtable.h>
#include <linux/slab.h>
#include <net/ipv6.h>

#include "mutant_nl.h"
#include "mutant_session.h"
#include "mutant_start.h"

#define ENTRIES_MAX	65536		/* of a namespace, as in mutant.yaml */

struct mutant_start_key {
	const struct net *net;
	u8 addr[16];			/* network order, masked; 4 bytes of it for AF_INET */
	u16 family;
	u16 bits;			/* of the prefix */
	u32 zero;			/* the key is hashed as bytes */
};

struct mutant_start_entry {
	struct rhash_head node;
	struct mutant_start_key key;
	u8 arm;				/* id */
	u32 lifetime_s;			/* 0: for ever */
	u64 set_ns;			/* CLOCK_MONOTONIC */
	struct rcu_head rcu;
};

static const struct rhashtable_params mutant_start_params = {
	.key_len = sizeof(struct mutant_start_key),
	.key_offset = offsetof(struct mutant_start_entry, key),
	.head_offset = offsetof(struct mutant_start_entry, node),
	.automatic_shrinking = true,
};

static struct rhashtable mutant_start_table;

/* Orders those who change the table. */
static DEFINE_MUTEX(mutant_start_mutex);

static void mutant_start_mask(u8 *addr, unsigned int bytes, unsigned int bits)
{
	unsigned int i;

	for (i = 0; i < bytes; i++)
		if (i >= DIV_ROUND_UP(bits, 8))
			addr[i] = 0;
	if (bits % 8)
		addr[bits / 8] &= 0xff << (8 - bits % 8);
}

static bool mutant_start_old(const struct mutant_start_entry *entry)
{
	return entry->lifetime_s &&
	       ktime_get_ns() - entry->set_ns > (u64)entry->lifetime_s * NSEC_PER_SEC;
}

/* The arm of the longest prefix that holds the address in @key, MUTANT_ARM_NONE without any. */
static u8 mutant_start_longest(struct mutant_start_key *key, const unsigned long *lengths,
			       unsigned int bytes)
{
	const struct mutant_start_entry *entry;
	unsigned long bits, above = 8 * bytes + 1;

	for (;;) {
		bits = find_last_bit(lengths, above);
		if (bits >= above)
			return MUTANT_ARM_NONE;
		mutant_start_mask(key->addr, bytes, bits);
		key->bits = bits;
		entry = rhashtable_lookup(&mutant_start_table, key, mutant_start_params);
		if (entry && !mutant_start_old(entry))
			return entry->arm;
		above = bits;
	}
}

/* Write a socket's remote address, 4 or 16 bytes; returns its family, AF_INET if v4-mapped. */
static u16 mutant_remote_address(const struct sock *sk, u8 *addr)
{
#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6 && !ipv6_addr_v4mapped(&sk->sk_v6_daddr)) {
		memcpy(addr, &sk->sk_v6_daddr, sizeof(sk->sk_v6_daddr));
		return AF_INET6;
	}
#endif
	memcpy(addr, &sk->sk_daddr, sizeof(sk->sk_daddr));
	return AF_INET;
}

/* The arm that the table has for a flow's destination, MUTANT_ARM_NONE if it has none. */
noinline u8 mutant_starting_arm(const struct sock *sk)
{
	const struct net *net = sock_net(sk);
	struct mutant_start_key key = { .net = net };
	const struct mutant_starts *starts = mutant_session_starts(net);
	u8 arm;

	if (!starts || !READ_ONCE(starts->entries))
		return MUTANT_ARM_NONE;
	key.family = mutant_remote_address(sk, key.addr);
	rcu_read_lock();
	arm = key.family == AF_INET ? mutant_start_longest(&key, starts->lengths4, 4) :
				      mutant_start_longest(&key, starts->lengths6, 16);
	rcu_read_unlock();
	return mutant_arm_available(arm) ? arm : MUTANT_ARM_NONE;
}

static void mutant_start_count(struct mutant_starts *starts, const struct mutant_start_key *key,
			       int change)
{
	bool v6 = key->family == AF_INET6;
	u32 *count = v6 ? &starts->count6[key->bits] : &starts->count4[key->bits];

	*count += change;
	assign_bit(key->bits, v6 ? starts->lengths6 : starts->lengths4, *count);
	WRITE_ONCE(starts->entries, starts->entries + change);
}

static void mutant_start_remove(struct mutant_starts *starts, struct mutant_start_entry *entry)
{
	rhashtable_remove_fast(&mutant_start_table, &entry->node, mutant_start_params);
	mutant_start_count(starts, &entry->key, -1);
	kfree_rcu(entry, rcu);
}

/* Put @start into the table, or take it out if it names no arm. */
static int mutant_start_set(const struct net *net, struct mutant_starts *starts,
			    const struct mutant_start *start)
{
	struct mutant_start_key key = { .net = net, .family = start->family, .bits = start->bits };
	struct mutant_start_entry *entry;
	int err;

	memcpy(key.addr, start->addr, sizeof(key.addr));
	mutant_start_mask(key.addr, sizeof(key.addr), start->bits);
	entry = rhashtable_lookup_fast(&mutant_start_table, &key, mutant_start_params);
	if (entry)
		mutant_start_remove(starts, entry);
	if (!start->arm)
		return 0;
	if (starts->entries >= ENTRIES_MAX)
		return -ENOSPC;
	entry = kzalloc(sizeof(*entry), GFP_KERNEL_ACCOUNT);
	if (!entry)
		return -ENOMEM;
	entry->key = key;
	entry->arm = start->arm;
	entry->lifetime_s = start->lifetime_s;
	entry->set_ns = ktime_get_ns();
	err = rhashtable_insert_fast(&mutant_start_table, &entry->node, mutant_start_params);
	if (err) {
		kfree(entry);
		return err;
	}
	mutant_start_count(starts, &key, 1);
	return 0;
}

static const char *mutant_start_fault(const struct mutant_start *start)
{
	if (start->family != AF_INET && start->family != AF_INET6)
		return "family is neither AF_INET nor AF_INET6";
	if (start->bits > (start->family == AF_INET ? 32 : 128))
		return "more bits than an address has";
	if (start->arm > MUTANT_ARMS_MAX || (start->arm && !mutant_arm_available(start->arm)))
		return "arm is not available";
	if (start->arm && mutant_arms[start->arm].kind == MUTANT_ARM_KIND_LEARNED)
		return "a learned arm has no control yet when a flow starts";
	return NULL;
}

int mutant_nl_start_set_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct nlattr *attr = info->attrs[MUTANT_A_START_STARTS];
	const struct net *net = genl_info_net(info);
	struct mutant_starts *starts = mutant_net_starts(net);
	struct mutant_start start;
	const char *fault;
	int i, n, err;

	err = mutant_session_check(skb, info->extack);
	if (err)
		return err;
	n = mutant_batch_count(info, attr, sizeof(start));
	if (n < 0)
		return n;
	/* All or nothing where the message itself is wrong. */
	for (i = 0; i < n; i++) {
		memcpy(&start, nla_data(attr) + i * sizeof(start), sizeof(start));
		fault = mutant_start_fault(&start);
		if (fault) {
			NL_SET_BAD_ATTR(info->extack, attr);
			info->extack->_msg = fault;
			return -EINVAL;
		}
	}
	mutex_lock(&mutant_start_mutex);
	for (i = 0; i < n && !err; i++) {
		memcpy(&start, nla_data(attr) + i * sizeof(start), sizeof(start));
		err = mutant_start_set(net, starts, &start);
	}
	mutex_unlock(&mutant_start_mutex);
	if (err)
		NL_SET_ERR_MSG_ATTR(info->extack, attr, "no room for another prefix");
	return err;
}

/* Call @each for every entry of @net, under the mutex, until it says that it is enough. */
static void mutant_starts_walk(const struct net *net,
			       bool (*each)(struct mutant_start_entry *entry, void *data),
			       void *data)
{
	struct mutant_start_entry *entry;
	struct rhashtable_iter iter;

	rhashtable_walk_enter(&mutant_start_table, &iter);
	rhashtable_walk_start(&iter);
	while ((entry = rhashtable_walk_next(&iter))) {
		/* -EAGAIN: the table was resized, and some entries come twice. */
		if (!IS_ERR(entry) && entry->key.net == net && each(entry, data))
			break;
	}
	rhashtable_walk_stop(&iter);
	rhashtable_walk_exit(&iter);
}

struct mutant_start_page {
	struct sk_buff *skb;
	struct nlattr *attr;
	unsigned long skip;		/* entries of earlier messages */
	unsigned long seen;
};

static bool mutant_start_put(struct mutant_start_entry *entry, void *data)
{
	struct mutant_start_page *page = data;
	struct mutant_start start = {
		.family = entry->key.family,
		.bits = entry->key.bits,
		.arm = entry->arm,
		.lifetime_s = entry->lifetime_s,
		.age_ms = div_u64(ktime_get_ns() - entry->set_ns, NSEC_PER_MSEC),
	};

	if (page->seen < page->skip) {
		page->seen++;
		return false;
	}
	if (skb_tailroom(page->skb) < sizeof(start) ||
	    page->attr->nla_len + sizeof(start) > U16_MAX)
		return true;
	memcpy(start.addr, entry->key.addr, sizeof(start.addr));
	skb_put_data(page->skb, &start, sizeof(start));
	page->attr->nla_len += sizeof(start);
	page->seen++;
	return false;
}

int mutant_nl_start_get_dumpit(struct sk_buff *skb, struct netlink_callback *cb)
{
	struct mutant_start_page page = { .skb = skb, .skip = cb->args[0] };
	void *header;

	header = genlmsg_put(skb, NETLINK_CB(cb->skb).portid, cb->nlh->nlmsg_seq,
			     &mutant_nl_family, NLM_F_MULTI, MUTANT_CMD_START_GET);
	if (!header)
		return -EMSGSIZE;
	page.attr = nla_reserve(skb, MUTANT_A_START_STARTS, 0);
	if (!page.attr) {
		genlmsg_cancel(skb, header);
		return -EMSGSIZE;
	}
	mutex_lock(&mutant_start_mutex);
	mutant_starts_walk(sock_net(cb->skb->sk), mutant_start_put, &page);
	mutex_unlock(&mutant_start_mutex);
	cb->args[0] = page.seen;
	if (!nla_len(page.attr)) {
		genlmsg_cancel(skb, header);
		return 0;
	}
	genlmsg_end(skb, header);
	return skb->len;
}

static bool mutant_start_drop(struct mutant_start_entry *entry, void *data)
{
	mutant_start_remove(data, entry);
	return false;
}

/* The namespace ends, or its session wants an empty table. */
void mutant_starts_forget(const struct net *net)
{
	struct mutant_starts *starts = mutant_net_starts(net);

	mutex_lock(&mutant_start_mutex);
	while (starts->entries)
		mutant_starts_walk(net, mutant_start_drop, starts);
	mutex_unlock(&mutant_start_mutex);
}

int mutant_starts_init(void)
{
	return rhashtable_init(&mutant_start_table, &mutant_start_params);
}

/* After the namespaces have let go of their entries. */
void mutant_starts_exit(void)
{
	rcu_barrier();
	rhashtable_destroy(&mutant_start_table);
}
