// SPDX-License-Identifier: GPL-2.0-only
/* The table of starting arms; mutant_start.h explains the whole. */
#include <linux/jiffies.h>
#include <linux/rhashtable.h>
#include <linux/slab.h>
#include <net/ipv6.h>

#include "mutant_memory.h"
#include "mutant_nl.h"
#include "mutant_session.h"
#include "mutant_start.h"
#include "mutant_visit.h"

#define ENTRIES_MAX	65536		/* most entries of a namespace, as in mutant.yaml */

/* A prefix of a namespace: the first bits of an address, the others 0. */
struct mutant_start_key {
	const struct net *net;
	u64 high;			/* host order; the upper half of it for AF_INET */
	u64 low;
	u16 family;
	u16 bits;			/* bits of the prefix */
};

struct mutant_start_entry {
	struct rhash_head node;
	struct mutant_start_key key;
	u32 number;			/* number in the namespace's list */
	u32 lifetime_s;			/* 0: for ever */
	u64 set_jiffies;
	refcount_t users;		/* the table, and flows that were born in its visits */
	spinlock_t lock;		/* orders all of the following */
	struct mutant_start_arm choice[MUTANT_START_ARMS];
	u32 generation;
	u16 weights;			/* sum of the choices' */
	struct mutant_visit visit;
	struct mutant_draw drawn;	/* lot of the present visit; names no entry */
	struct rcu_head rcu;
};

/* The hash depends on the table's seed, because remote hosts choose the addresses. */
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
	u32 lifetime_s = READ_ONCE(entry->lifetime_s);

	return lifetime_s &&
	       get_jiffies_64() - READ_ONCE(entry->set_jiffies) > (u64)lifetime_s * HZ;
}

/* The entry of the longest prefix that holds the address in @key, or NULL. */
static struct mutant_start_entry *mutant_start_longest(struct mutant_start_key *key,
						       const unsigned long *lengths,
						       unsigned int most)
{
	struct mutant_start_entry *entry;
	unsigned long bits, above = most + 1;

	for (;;) {
		bits = find_last_bit(lengths, above);
		if (bits >= above)
			return NULL;
		mutant_start_mask(key, bits);
		entry = rhashtable_lookup(&mutant_start_table, key, mutant_start_params);
		if (entry && !mutant_start_old(entry))
			return entry;
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

static u64 mutant_now_ms(void)
{
	return jiffies64_to_msecs(get_jiffies_64());
}

static void mutant_start_put(struct mutant_start_entry *entry)
{
	if (refcount_dec_and_test(&entry->users))
		kfree_rcu(entry, rcu);
}

/* The next visit of @entry draws its arm. */
static void mutant_start_lot(struct mutant_start_entry *entry, u64 seed)
{
	const struct mutant_lot lot = {
		.seed = seed,
		.high = entry->key.high,
		.low = entry->key.low,
		.length = (u32)entry->key.family << 16 | entry->key.bits,
		.number = entry->visit.number,
	};
	u32 place = mutant_lot_place(entry->choice, mutant_lot_draw(&lot, entry->weights));

	entry->drawn.choice = entry->choice[place];
	entry->drawn.visit = entry->visit.number;
	entry->drawn.generation = entry->generation;
	entry->drawn.weights = entry->weights;
}

/* A flow that took a visit's lot has ended, or could not be born. @entry may be NULL. */
void mutant_start_leave(struct mutant_start_entry *entry)
{
	if (!entry)
		return;
	spin_lock_bh(&entry->lock);
	mutant_visit_leave(&entry->visit, mutant_now_ms());
	spin_unlock_bh(&entry->lock);
	mutant_start_put(entry);
}

/*
 * The arm on which the flow @sk begins by the table, MUTANT_ARM_NONE if that has none for it. Who
 * gets an arm leaves @draw's entry in the end.
 */
noinline u8 mutant_start_draw(const struct sock *sk, struct mutant_draw *draw)
{
	const struct net *net = sock_net(sk);
	struct mutant_start_key key = { .net = net };
	const struct mutant_starts *starts = mutant_session_starts(net);
	struct mutant_start_entry *entry;

	if (!starts || !READ_ONCE(starts->entries))
		return MUTANT_ARM_NONE;
	mutant_start_remote(sk, &key);
	rcu_read_lock();
	entry = key.family == AF_INET ? mutant_start_longest(&key, starts->lengths4, 32) :
					mutant_start_longest(&key, starts->lengths6, 128);
	if (entry && !refcount_inc_not_zero(&entry->users))
		entry = NULL;
	rcu_read_unlock();
	if (!entry)
		return MUTANT_ARM_NONE;
	spin_lock_bh(&entry->lock);
	if (mutant_visit_enter(&entry->visit, mutant_now_ms()))
		mutant_start_lot(entry, READ_ONCE(starts->seed));
	*draw = entry->drawn;
	spin_unlock_bh(&entry->lock);
	draw->entry = entry;
	if (mutant_arm_available(draw->choice.arm))
		return draw->choice.arm;
	mutant_start_leave(entry);
	draw->entry = NULL;
	return MUTANT_ARM_NONE;
}

/* The flow keeps its lot, and obeys the first control of a learned arm from its first ACK on. */
void mutant_start_take(struct sock *sk, struct mutant_flow *f, const struct mutant_draw *draw)
{
	const struct mutant_start_arm *choice = &draw->choice;
	struct mutant_setting setting = { .law = choice->law, .since = tcp_jiffies32 };
	u32 window = tcp_snd_cwnd(tcp_sk(sk));

	if (!draw->entry)
		return;
	f->start = draw->entry;
	f->visit = draw->visit;
	f->generation = draw->generation;
	f->weight = choice->weight;
	f->weights = draw->weights;
	if (!choice->law || f->arm != choice->arm)
		return;
	/* If there is no memory, the arm behaves as reno until its next control. */
	f->learned = mutant_part_new(MUTANT_PART_LEARNED);
	if (!f->learned)
		return;
	memcpy(setting.value, choice->value, sizeof(setting.value));
	if (choice->law == MUTANT_CONTROL_LAW_WINDOW)
		setting.value[0] = mutant_control_window(setting.value[0], window, window,
							 f->snd_cwnd_clamp);
	mutant_control_keep(mutant_learned_kept(f->learned, f->arm), &setting);
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
	mutant_start_put(entry);
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

/* The present visit keeps the arm that it has drawn, if the entry has that arm still. */
static void mutant_start_fill(struct mutant_start_entry *entry, const struct mutant_start *start)
{
	u32 i, weights = 0;
	bool over = true;

	spin_lock_bh(&entry->lock);
	for (i = 0; i < MUTANT_START_ARMS && start->choice[i].arm; i++) {
		weights += start->choice[i].weight;
		over &= start->choice[i].arm != entry->drawn.choice.arm;
	}
	entry->visit.over |= over;
	memcpy(entry->choice, start->choice, sizeof(entry->choice));
	entry->generation = start->generation;
	entry->weights = weights;
	WRITE_ONCE(entry->lifetime_s, start->lifetime_s);
	WRITE_ONCE(entry->set_jiffies, get_jiffies_64());
	spin_unlock_bh(&entry->lock);
}

/* Put @start into the table, or take it out if it names no arm. An error changes nothing. */
static int mutant_start_set(const struct net *net, struct mutant_starts *starts,
			    const struct mutant_start *start)
{
	struct mutant_start_key key = { .net = net, .family = start->family };
	struct mutant_start_entry *entry;
	__be64 addr[2];
	int err;

	memcpy(addr, start->addr, sizeof(addr));
	key.high = be64_to_cpu(addr[0]);
	key.low = be64_to_cpu(addr[1]);
	mutant_start_mask(&key, start->bits);
	/* Under the mutex nobody takes it away. */
	entry = rhashtable_lookup_fast(&mutant_start_table, &key, mutant_start_params);
	if (!start->choice[0].arm) {
		if (entry)
			mutant_start_remove(starts, entry);
		return 0;
	}
	if (entry) {
		mutant_start_fill(entry, start);
		return 0;
	}
	entry = kzalloc(sizeof(*entry), GFP_KERNEL_ACCOUNT);
	if (!entry)
		return -ENOMEM;
	entry->key = key;
	refcount_set(&entry->users, 1);
	spin_lock_init(&entry->lock);
	mutant_start_fill(entry, start);
	err = mutant_start_add(starts, entry);
	if (err)
		kfree(entry);
	return err;
}

static const char *mutant_choice_fault(const struct mutant_start_arm *choice)
{
	if (!mutant_arm_available(choice->arm))
		return "arm is not available";
	if (!choice->weight)
		return "an arm has the weight 0";
	if (mutant_arms[choice->arm].kind != MUTANT_ARM_KIND_LEARNED)
		return choice->law ? "law is 0 for an arm of the kernel" : NULL;
	if (!mutant_control_fits(choice->arm, choice->law, choice->value))
		return "a learned arm needs a first control that fits it";
	return NULL;
}

static const char *mutant_start_fault(const struct mutant_start *start)
{
	const char *fault;
	u32 i, weights = 0;

	if (start->family != AF_INET && start->family != AF_INET6)
		return "family is neither AF_INET nor AF_INET6";
	if (start->bits > (start->family == AF_INET ? 32 : 128))
		return "more bits than an address has";
	for (i = 0; i < MUTANT_START_ARMS && start->choice[i].arm; i++) {
		fault = mutant_choice_fault(&start->choice[i]);
		if (fault)
			return fault;
		weights += start->choice[i].weight;
	}
	for (; i < MUTANT_START_ARMS; i++)
		if (start->choice[i].arm || start->choice[i].weight)
			return "an unused place comes before a used one, or has a weight";
	return weights > U16_MAX ? "the weights add up to more than 65535" : NULL;
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
	/* A message that is itself wrong changes nothing. */
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
static bool mutant_start_append(struct sk_buff *skb, struct nlattr *attr,
				const struct mutant_start_entry *entry)
{
	const __be64 addr[2] = { cpu_to_be64(entry->key.high), cpu_to_be64(entry->key.low) };
	struct mutant_start start = {
		.family = entry->key.family,
		.bits = entry->key.bits,
		.generation = entry->generation,
		.lifetime_s = entry->lifetime_s,
		.age_ms = jiffies64_to_msecs(get_jiffies_64() - entry->set_jiffies),
	};

	if (skb_tailroom(skb) < sizeof(start) || attr->nla_len + sizeof(start) > U16_MAX)
		return false;
	memcpy(start.addr, addr, sizeof(start.addr));
	memcpy(start.choice, entry->choice, sizeof(start.choice));
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
		if (!mutant_start_append(skb, attr, entry))
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

/* By now the namespaces have let go of their entries. */
void mutant_starts_exit(void)
{
	rcu_barrier();
	rhashtable_destroy(&mutant_start_table);
}
