// SPDX-License-Identifier: GPL-2.0-only
/* The table of starting arms; mutant_start.h explains the whole. */
#include <linux/jiffies.h>
#include <linux/rhashtable.h>
#include <linux/slab.h>
#include <net/ipv6.h>

#include "mutant_nl.h"
#include "mutant_session.h"
#include "mutant_start.h"

#define ENTRIES_MAX	65536		/* of a namespace, as in mutant.yaml */

/* A prefix of a namespace: the first bits of an address, the others 0. */
struct mutant_start_key {
	const struct net *net;
	u64 high;			/* host order; the upper half of it for AF_INET */
	u64 low;
	u16 family;
	u16 bits;			/* of the prefix */
};

struct mutant_start_entry {
	struct rhash_head node;
	struct mutant_start_key key;
	u8 arm;				/* id */
	u32 number;			/* in the namespace's list */
	u32 lifetime_s;			/* 0: for ever */
	u64 set_jiffies;
	struct rcu_head rcu;
};

/* Keyed by the table's seed: remote hosts choose the addresses. */
static u32 mutant_start_hash(const void *data, u32 len, u32 seed)
{
	const struct mutant_start_key *key = data;
	u64 hash = (key->high ^ (u64)seed << 32 ^ seed) * GOLDEN_RATIO_64;

	hash = (hash ^ hash >> 32 ^ key->low) * GOLDEN_RATIO_64;
	hash = (hash ^ hash >> 32 ^ (unsigned long)key->net ^ key->bits) * GOLDEN_RATIO_64;
	return hash >> 32;
}

static int mutant_start_differs(struct rhashtable_compare_arg *arg, const void *obj)
{
	const struct mutant_start_key *key = arg->key, *other;

	other = &((const struct mutant_start_entry *)obj)->key;
	return key->high != other->high || key->low != other->low || key->net != other->net ||
	       key->bits != other->bits || key->family != other->family;
}

static const struct rhashtable_params mutant_start_params = {
	.key_len = sizeof(struct mutant_start_key),
	.key_offset = offsetof(struct mutant_start_entry, key),
	.head_offset = offsetof(struct mutant_start_entry, node),
	.hashfn = mutant_start_hash,
	.obj_cmpfn = mutant_start_differs,
	.automatic_shrinking = true,
};

static struct rhashtable mutant_start_table;

/* Keep the first @bits of the address in @key. */
static void mutant_start_mask(struct mutant_start_key *key, unsigned int bits)
{
	key->bits = bits;
	if (bits <= 64)
		key->low = 0;
	else
		key->low &= ~0ULL << (128 - bits);
	if (!bits)
		key->high = 0;
	else if (bits < 64)
		key->high &= ~0ULL << (64 - bits);
}

static bool mutant_start_old(const struct mutant_start_entry *entry)
{
	return entry->lifetime_s &&
	       get_jiffies_64() - entry->set_jiffies > (u64)entry->lifetime_s * HZ;
}

/* The arm of the longest prefix that holds the address in @key, MUTANT_ARM_NONE without any. */
static u8 mutant_start_longest(struct mutant_start_key *key, const unsigned long *lengths,
			       unsigned int most)
{
	const struct mutant_start_entry *entry;
	unsigned long bits, above = most + 1;

	for (;;) {
		bits = find_last_bit(lengths, above);
		if (bits >= above)
			return MUTANT_ARM_NONE;
		mutant_start_mask(key, bits);
		entry = rhashtable_lookup(&mutant_start_table, key, mutant_start_params);
		if (entry && !mutant_start_old(entry))
			return entry->arm;
		above = bits;
	}
}

/* The remote address of @sk; one that is v4-mapped counts as IPv4. */
static void mutant_start_remote(const struct sock *sk, struct mutant_start_key *key)
{
#if IS_ENABLED(CONFIG_IPV6)
	const struct in6_addr *addr = &sk->sk_v6_daddr;

	if (sk->sk_family == AF_INET6 && !ipv6_addr_v4mapped(addr)) {
		key->family = AF_INET6;
		key->high = (u64)ntohl(addr->s6_addr32[0]) << 32 | ntohl(addr->s6_addr32[1]);
		key->low = (u64)ntohl(addr->s6_addr32[2]) << 32 | ntohl(addr->s6_addr32[3]);
		return;
	}
#endif
	key->family = AF_INET;
	key->high = (u64)ntohl(sk->sk_daddr) << 32;
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
	mutant_start_remote(sk, &key);
	rcu_read_lock();
	arm = key.family == AF_INET ? mutant_start_longest(&key, starts->lengths4, 32) :
				      mutant_start_longest(&key, starts->lengths6, 128);
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
	xa_erase(&starts->list, entry->number);
	mutant_start_count(starts, &entry->key, -1);
	kfree_rcu(entry, rcu);
}

static int mutant_start_add(struct mutant_starts *starts, struct mutant_start_entry *entry)
{
	int err;

	if (starts->entries >= ENTRIES_MAX)
		return -ENOSPC;
	err = xa_alloc_cyclic(&starts->list, &entry->number, entry, xa_limit_32b, &starts->next,
			      GFP_KERNEL_ACCOUNT);
	if (err < 0)
		return err;
	err = rhashtable_insert_fast(&mutant_start_table, &entry->node, mutant_start_params);
	if (err) {
		xa_erase(&starts->list, entry->number);
		return err;
	}
	mutant_start_count(starts, &entry->key, 1);
	return 0;
}

/* Both in the same places, so that nothing is to be allocated. */
static int mutant_start_replace(struct mutant_starts *starts, struct mutant_start_entry *old,
				struct mutant_start_entry *entry)
{
	int err = rhashtable_replace_fast(&mutant_start_table, &old->node, &entry->node,
					  mutant_start_params);

	if (err)
		return err;
	entry->number = old->number;
	xa_store(&starts->list, entry->number, entry, GFP_KERNEL_ACCOUNT);
	kfree_rcu(old, rcu);
	return 0;
}

/* Put @start into the table, or take it out if it names no arm. An error changes nothing. */
static int mutant_start_set(const struct net *net, struct mutant_starts *starts,
			    const struct mutant_start *start)
{
	struct mutant_start_key key = { .net = net, .family = start->family };
	struct mutant_start_entry *old, *entry;
	__be64 addr[2];
	int err;

	memcpy(addr, start->addr, sizeof(addr));
	key.high = be64_to_cpu(addr[0]);
	key.low = be64_to_cpu(addr[1]);
	mutant_start_mask(&key, start->bits);
	/* Under the mutex nobody takes it away. */
	old = rhashtable_lookup_fast(&mutant_start_table, &key, mutant_start_params);
	if (!start->arm) {
		if (old)
			mutant_start_remove(starts, old);
		return 0;
	}
	entry = kzalloc(sizeof(*entry), GFP_KERNEL_ACCOUNT);
	if (!entry)
		return -ENOMEM;
	entry->key = key;
	entry->arm = start->arm;
	entry->lifetime_s = start->lifetime_s;
	entry->set_jiffies = get_jiffies_64();
	err = old ? mutant_start_replace(starts, old, entry) : mutant_start_add(starts, entry);
	if (err)
		kfree(entry);
	return err;
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
	struct mutant_starts *starts = &mutant_net_of(net)->starts;
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
	mutex_lock(&starts->mutex);
	for (i = 0; i < n && !err; i++) {
		memcpy(&start, nla_data(attr) + i * sizeof(start), sizeof(start));
		err = mutant_start_set(net, starts, &start);
	}
	mutex_unlock(&starts->mutex);
	if (err)
		NL_SET_ERR_MSG_ATTR(info->extack, attr, "no room for another prefix");
	return err;
}

/* Append an entry to a page; false if there is no room. */
static bool mutant_start_put(struct sk_buff *skb, struct nlattr *attr,
			     const struct mutant_start_entry *entry)
{
	const __be64 addr[2] = { cpu_to_be64(entry->key.high), cpu_to_be64(entry->key.low) };
	struct mutant_start start = {
		.family = entry->key.family,
		.bits = entry->key.bits,
		.arm = entry->arm,
		.lifetime_s = entry->lifetime_s,
		.age_ms = jiffies64_to_msecs(get_jiffies_64() - entry->set_jiffies),
	};

	if (skb_tailroom(skb) < sizeof(start) || attr->nla_len + sizeof(start) > U16_MAX)
		return false;
	memcpy(start.addr, addr, sizeof(start.addr));
	skb_put_data(skb, &start, sizeof(start));
	attr->nla_len += sizeof(start);
	return true;
}

int mutant_nl_start_get_dumpit(struct sk_buff *skb, struct netlink_callback *cb)
{
	struct mutant_starts *starts = &mutant_net_of(sock_net(cb->skb->sk))->starts;
	struct mutant_start_entry *entry;
	unsigned long number;
	struct nlattr *attr;
	void *header;

	header = genlmsg_put(skb, NETLINK_CB(cb->skb).portid, cb->nlh->nlmsg_seq,
			     &mutant_nl_family, NLM_F_MULTI, MUTANT_CMD_START_GET);
	if (!header)
		return -EMSGSIZE;
	attr = nla_reserve(skb, MUTANT_A_START_STARTS, 0);
	if (!attr) {
		genlmsg_cancel(skb, header);
		return -EMSGSIZE;
	}
	mutex_lock(&starts->mutex);
	xa_for_each_start(&starts->list, number, entry, cb->args[0]) {
		if (!mutant_start_put(skb, attr, entry))
			break;
		cb->args[0] = number + 1;
	}
	mutex_unlock(&starts->mutex);
	if (!nla_len(attr)) {
		genlmsg_cancel(skb, header);
		return 0;
	}
	genlmsg_end(skb, header);
	return skb->len;
}

/* A namespace begins. */
void mutant_starts_begin(struct mutant_starts *starts)
{
	mutex_init(&starts->mutex);
	xa_init_flags(&starts->list, XA_FLAGS_ALLOC);
}

/* The namespace ends. */
void mutant_starts_forget(struct mutant_starts *starts)
{
	struct mutant_start_entry *entry;
	unsigned long number;

	mutex_lock(&starts->mutex);
	xa_for_each(&starts->list, number, entry)
		mutant_start_remove(starts, entry);
	mutex_unlock(&starts->mutex);
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
