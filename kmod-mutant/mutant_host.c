// SPDX-License-Identifier: GPL-2.0-only
/* The table of hosts; mutant_host.h explains the whole. */
#include <linux/rhashtable.h>
#include <linux/timekeeping.h>

#include "mutant_host.h"
#include "mutant_jump.h"
#include "mutant_memory.h"
#include "mutant_session.h"

#define IDLE_MAX	16384U		/* hosts without a flow of the initial namespace ... */
#define IDLE_MAX_GUEST	1024U		/* ... and any other, for anybody may make one */
/* With more flows than this to a host, one of them sends. */
#define SIBLINGS_MAX	64U

static struct rhashtable mutant_host_table;

static const struct rhashtable_params mutant_host_params = {
	.key_len = sizeof(struct mutant_host_key),
	.key_offset = offsetof(struct mutant_host, key),
	.head_offset = offsetof(struct mutant_host, node),
	.automatic_shrinking = true,
};

static struct mutant_hosts *mutant_hosts_of(const struct mutant_flow *f)
{
	return &mutant_net_of(f->net)->hosts;
}

/* Time goes on while a machine sleeps: saved state grows old meanwhile. */
static u64 mutant_saved_now_ns(void)
{
	return ktime_get_boottime_ns();
}

static void mutant_host_free(struct rcu_head *rcu)
{
	mutant_part_free(MUTANT_PART_HOST, container_of(rcu, struct mutant_host, rcu));
}

static void mutant_host_remove(struct mutant_host *host)
{
	rhashtable_remove_fast(&mutant_host_table, &host->node, mutant_host_params);
	call_rcu(&host->rcu, mutant_host_free);
}

static void mutant_host_remove_idle(struct mutant_hosts *hosts, struct mutant_host *host)
{
	list_del(&host->idle);
	hosts->idle_count--;
	mutant_host_remove(host);
}

/* Drop the hosts that are too old, and those too many. */
static void mutant_hosts_trim(struct mutant_hosts *hosts, u32 most)
{
	u64 now_ns = mutant_saved_now_ns();
	struct mutant_host *host, *next;

	list_for_each_entry_safe(host, next, &hosts->idle, idle) {
		if (hosts->idle_count <= most &&
		    now_ns - host->saved.since_ns <= MUTANT_SAVED_AGE_NS)
			break;
		mutant_host_remove_idle(hosts, host);
	}
}

static struct mutant_host *mutant_host_find(struct mutant_hosts *hosts,
					    const struct mutant_host_key *key)
{
	struct mutant_host *host = rhashtable_lookup_fast(&mutant_host_table, key,
							  mutant_host_params);

	if (host) {
		if (list_empty(&host->flows)) {
			list_del(&host->idle);
			hosts->idle_count--;
		}
		return host;
	}
	host = mutant_part_new(MUTANT_PART_HOST);
	if (!host)
		return NULL;
	host->key = *key;
	INIT_LIST_HEAD(&host->flows);
	if (rhashtable_insert_fast(&mutant_host_table, &host->node, mutant_host_params)) {
		mutant_part_free(MUTANT_PART_HOST, host);
		return NULL;
	}
	return host;
}

/* The flow counts as one to its host; false without memory. */
bool mutant_host_join(const struct mutant_flow *f, struct mutant_jumper *j)
{
	struct mutant_host_key key = { .net = f->net, .family = f->family };
	struct mutant_hosts *hosts = mutant_hosts_of(f);

	memcpy(key.saddr, f->saddr, sizeof(key.saddr));
	memcpy(key.daddr, f->daddr, sizeof(key.daddr));
	spin_lock_bh(&hosts->lock);
	j->host = mutant_host_find(hosts, &key);
	if (j->host)
		list_add(&j->sibling, &j->host->flows);
	spin_unlock_bh(&hosts->lock);
	return j->host;
}

/* The flow ends; its observations are saved. */
void mutant_host_leave(const struct mutant_flow *f, struct mutant_jumper *j)
{
	u32 most = f->guest ? IDLE_MAX_GUEST : IDLE_MAX;
	struct mutant_hosts *hosts = mutant_hosts_of(f);
	struct mutant_host *host = j->host;

	spin_lock_bh(&hosts->lock);
	list_del(&j->sibling);
	if (host->user == j)
		host->user = NULL;
	mutant_saved_keep(&host->saved, &j->resume, j->mss, mutant_saved_now_ns());
	if (list_empty(&host->flows)) {
		if (host->saved.window_bytes) {
			list_add_tail(&host->idle, &hosts->idle);
			hosts->idle_count++;
			mutant_hosts_trim(hosts, most);
		} else {
			mutant_host_remove(host);
		}
	}
	spin_unlock_bh(&hosts->lock);
}

/* Whether another of our flows to the host has data in flight. */
static bool mutant_host_busy(const struct mutant_host *host, const struct mutant_jumper *j)
{
	const struct mutant_jumper *other;
	u32 seen = 0;

	list_for_each_entry(other, &host->flows, sibling) {
		if (other == j)
			continue;
		/* It is there until it leaves, under our lock; its own lock is another's. */
		if (data_race(READ_ONCE(tcp_sk(other->sk)->packets_out)) || ++seen > SIBLINGS_MAX)
			return true;
	}
	return false;
}

/*
 * The window to which the flow may jump, packets, and nobody else until the flow says so. It is 0
 * if nothing saved fits, another flow uses it, or another one sends. @ssthresh gets the window up
 * to which the flow may slow-start, if the path carries the jump.
 */
u32 mutant_host_claim(const struct mutant_flow *f, const struct mutant_jumper *j, u32 rtt_us,
		      u32 *ssthresh)
{
	u64 max_bytes = (u64)READ_ONCE(mutant_config.resume_max_jump_kb) << 10;
	struct mutant_hosts *hosts = mutant_hosts_of(f);
	struct mutant_host *host = j->host;
	u32 pkts = 0;

	spin_lock_bh(&hosts->lock);
	if (!host->user && !mutant_host_busy(host, j))
		pkts = mutant_saved_jump(&host->saved, max_bytes, j->mss, rtt_us,
					 mutant_saved_now_ns());
	if (pkts) {
		host->user = j;
		*ssthresh = mutant_saved_ssthresh(&host->saved, j->mss);
	}
	spin_unlock_bh(&hosts->lock);
	return pkts;
}

/* The flow's jump is over. */
void mutant_host_release(const struct mutant_flow *f, const struct mutant_jumper *j)
{
	struct mutant_hosts *hosts = mutant_hosts_of(f);

	spin_lock_bh(&hosts->lock);
	if (j->host->user == j)
		j->host->user = NULL;
	spin_unlock_bh(&hosts->lock);
}

/* The path does not carry the saved window any more. */
void mutant_host_unsave(const struct mutant_flow *f, const struct mutant_jumper *j)
{
	struct mutant_hosts *hosts = mutant_hosts_of(f);

	spin_lock_bh(&hosts->lock);
	j->host->saved.window_bytes = 0;
	spin_unlock_bh(&hosts->lock);
}

/* A namespace begins. */
void mutant_hosts_begin(struct mutant_hosts *hosts)
{
	spin_lock_init(&hosts->lock);
	INIT_LIST_HEAD(&hosts->idle);
}

/* The namespace ends, and has no flow any more. */
void mutant_hosts_forget(struct mutant_hosts *hosts)
{
	struct mutant_host *host, *next;

	spin_lock_bh(&hosts->lock);
	list_for_each_entry_safe(host, next, &hosts->idle, idle)
		mutant_host_remove_idle(hosts, host);
	spin_unlock_bh(&hosts->lock);
}

int mutant_hosts_init(void)
{
	return rhashtable_init(&mutant_host_table, &mutant_host_params);
}

/* By now the namespaces have let go of their hosts. */
void mutant_hosts_exit(void)
{
	rcu_barrier();
	rhashtable_destroy(&mutant_host_table);
}
