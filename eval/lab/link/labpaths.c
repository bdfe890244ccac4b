// SPDX-License-Identifier: GPL-2.0-only
/*
 * Network paths that do more than one link of lablink.c does, as one pair of devices.
 *
 * There may be several. Packets to 10.2.N.0/24 take path N, and so do the answers from there. Each
 * path has the bottleneck and the propagation delay of lablink.c, with a schedule of its own. It
 * may have in addition:
 * - losses in bursts (burst.h),
 * - silences, in which nothing enters service: packets wait for the end, both ways,
 * - acknowledgements that wait for turns (turns.h),
 * - a bottleneck on the way back, before the propagation delay. It is a drop-tail queue in packets.
 *   It may lose packets. It may thin acknowledgements, as CAKE's ACK filter does: one that says
 *   nothing but how far the data came takes the place of the flow's older one that still waits.
 */
#include <linux/hrtimer.h>
#include <linux/if_arp.h>
#include <linux/ip.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/prandom.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>
#include <linux/tcp.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>
#include <net/dst.h>

#include "burst.h"
#include "line.h"
#include "schedule.h"
#include "turns.h"

#define INPUT_BYTES_MAX (256U << 20)
/* A TCP header with time stamps and nothing else, in 4 bytes: no SACK block has room. */
#define PLAIN_HEADER_WORDS 8

struct lab_path {
	struct schedule schedule;
	const struct labpaths_path *own; /* the part that a link of lablink.c does not have */
	struct rnd_state random;
	struct rnd_state turns_random;
	struct turns turns;
	bool bad; /* true while the losses are in a burst */
	struct line forward;
	struct line back_queue; /* leads to backward[], so it has no device */
	struct line backward[LABLINK_FLOWS];
};

static struct {
	spinlock_t lock; /* everything below */
	struct net_device *client;
	struct net_device *server;
	void *blob; /* the memory of all schedules; NULL: none yet, and no delay */
	u64 start_ns;
	u32 count;
	struct lab_path paths[LABPATHS_MAX];
	struct lablink_flow_counters counters[LABLINK_FLOWS];
} state;

static u32 draw(void *from)
{
	return prandom_u32_state(from);
}

static void enqueue(struct line *line, struct sk_buff *skb, u64 arrival_ns)
{
	/* A delay that shrinks would let packets overtake; on a real path they queue instead. */
	line->last_ns = max(line->last_ns, arrival_ns);
	packet_of(skb)->arrival_ns = line->last_ns;
	__skb_queue_tail(&line->queue, skb);
	if (skb_queue_len(&line->queue) == 1)
		hrtimer_start(&line->timer, ns_to_ktime(state.start_ns + line->last_ns),
			      HRTIMER_MODE_ABS_SOFT);
}

/* The path to this address of the server's. */
static struct lab_path *path_to(__be32 server)
{
	u32 number = (ntohl(server) >> 8) & 0xff;

	return &state.paths[number < state.count ? number : 0];
}

/* The step of the schedule at `t_ns`, which is now or later. */
static u32 step_at(const struct schedule *s, u64 t_ns)
{
	u32 step = s->now_step;

	advance_step(s, &step, t_ns);
	return step;
}

/* `t_ns`, or the end of the silence that the path has then. */
static u64 after_silence(const struct schedule *s, u64 t_ns)
{
	u32 step = step_at(s, t_ns);

	while (!s->header->opportunities && s->steps[step].rate_bps == LABPATHS_SILENT_BPS &&
	       step + 1 < s->header->steps)
		t_ns = s->steps[++step].at_ns;
	return t_ns;
}

static bool lost(struct lab_path *path)
{
	u32 loss = path->schedule.steps[path->schedule.now_step].loss;

	if (loss && prandom_u32_state(&path->random) < loss)
		return true;
	return burst_loses(&path->bad, path->own, draw, &path->random);
}

/* Takes `skb` over where the bottleneck has room for it. */
static bool enter_forward(struct sk_buff *skb, u64 now_ns)
{
	struct lab_path *path = path_to(ip_hdr(skb)->daddr);
	struct schedule *s = &path->schedule;
	struct packet *packet = packet_of(skb);
	u64 end_ns;

	packet->flow = ntohl(ip_hdr(skb)->saddr) & (LABLINK_FLOWS - 1);
	packet->bytes = skb->len;
	if (!state.blob) {
		enqueue(&path->forward, skb, now_ns);
		return true;
	}
	advance_step(s, &s->now_step, now_ns);
	if (lost(path)) {
		state.counters[packet->flow].lost_pkts++;
		return false;
	}
	if (policed(s, now_ns, skb->len) ||
	    skb_queue_len(&path->forward.queue) >= s->header->queue_pkts) {
		state.counters[packet->flow].dropped_pkts++;
		return false;
	}
	if (s->header->opportunities)
		end_ns = served_by_trace(s, now_ns, skb->len);
	else
		end_ns = served_at_rate(s, max(now_ns, path->forward.last_ns), skb->len);
	enqueue(&path->forward, skb, end_ns);
	return true;
}

/* Sends a packet on its way over the propagation delay, from `t_ns` on. */
static void propagate(struct lab_path *path, struct sk_buff *skb, u64 t_ns)
{
	struct schedule *s = &path->schedule;
	u16 flow = packet_of(skb)->flow;
	u64 delay_ns = 0;

	if (state.blob) {
		if (flow < s->header->flow_delays)
			delay_ns = s->delays[flow].delay_ns;
		if (!delay_ns)
			delay_ns = s->steps[step_at(s, t_ns)].delay_ns;
	}
	enqueue(&path->backward[flow], skb, t_ns + delay_ns);
}

/* Whether the packet says no more than how far its flow's data came. */
static bool plain_ack(struct sk_buff *skb)
{
	const struct iphdr *ip = ip_hdr(skb);
	const struct tcphdr *tcp;

	if (ip->protocol != IPPROTO_TCP || !pskb_may_pull(skb, ip->ihl * 4 + sizeof(*tcp)))
		return false;
	ip = ip_hdr(skb);
	tcp = (const struct tcphdr *)((const u8 *)ip + ip->ihl * 4);
	return tcp->ack && !tcp->syn && !tcp->fin && !tcp->rst &&
	       tcp->doff <= PLAIN_HEADER_WORDS && skb->len == (ip->ihl + tcp->doff) * 4;
}

/* Puts `skb` in the place of its flow's older ACK that waits, if one does. */
static bool thinned(struct line *line, struct sk_buff *skb)
{
	struct sk_buff *old, *next;

	if (!plain_ack(skb))
		return false;
	/* The first is in service. */
	skb_queue_reverse_walk_safe(&line->queue, old, next) {
		if (old == skb_peek(&line->queue))
			break;
		if (packet_of(old)->flow != packet_of(skb)->flow || !plain_ack(old))
			continue;
		packet_of(skb)->arrival_ns = packet_of(old)->arrival_ns;
		__skb_queue_after(&line->queue, old, skb);
		__skb_unlink(old, &line->queue);
		kfree_skb(old);
		return true;
	}
	return false;
}

/* Takes `skb` over unless the way back loses it or has no room for it. */
static bool enter_backward(struct sk_buff *skb, u64 now_ns)
{
	struct lab_path *path = path_to(ip_hdr(skb)->saddr);
	struct schedule *s = &path->schedule;
	const struct labpaths_path *own = path->own;
	u64 begin_ns;

	packet_of(skb)->flow = ntohl(ip_hdr(skb)->daddr) & (LABLINK_FLOWS - 1);
	if (!state.blob) {
		propagate(path, skb, now_ns);
		return true;
	}
	advance_step(s, &s->now_step, now_ns);
	if (own->back_loss && prandom_u32_state(&path->random) < own->back_loss)
		return false;
	if (!own->back_bps) {
		now_ns = after_silence(s, now_ns);
		propagate(path, skb, next_turn(&path->turns, now_ns, draw, &path->turns_random));
		return true;
	}
	if (own->back_thins && thinned(&path->back_queue, skb))
		return true;
	if (skb_queue_len(&path->back_queue.queue) >= own->back_queue_pkts)
		return false;
	begin_ns = after_silence(s, max(now_ns, path->back_queue.last_ns));
	enqueue(&path->back_queue, skb,
		begin_ns + DIV64_U64_ROUND_UP((u64)skb->len * 8 * LABLINK_NSEC_PER_SEC,
					      own->back_bps));
	return true;
}

static netdev_tx_t lablink_xmit(struct sk_buff *skb, struct net_device *dev)
{
	bool taken;
	u64 now_ns;

	if (skb->protocol != htons(ETH_P_IP) || !pskb_may_pull(skb, sizeof(struct iphdr))) {
		kfree_skb(skb);
		return NETDEV_TX_OK;
	}
	skb_orphan(skb);
	skb_dst_drop(skb);
	spin_lock_bh(&state.lock);
	now_ns = ktime_get_ns() - state.start_ns;
	taken = dev == state.client ? enter_forward(skb, now_ns) : enter_backward(skb, now_ns);
	spin_unlock_bh(&state.lock);
	if (!taken)
		kfree_skb(skb);
	return NETDEV_TX_OK;
}

static enum hrtimer_restart lablink_due(struct hrtimer *timer)
{
	struct line *line = container_of(timer, struct line, timer);
	struct sk_buff_head due;
	struct sk_buff *skb;
	u64 now_ns;

	__skb_queue_head_init(&due);
	spin_lock(&state.lock);
	now_ns = ktime_get_ns() - state.start_ns;
	while ((skb = skb_peek(&line->queue)) && packet_of(skb)->arrival_ns <= now_ns) {
		__skb_unlink(skb, &line->queue);
		if (!line->to) {
			propagate(container_of(line, struct lab_path, back_queue), skb,
				  packet_of(skb)->arrival_ns);
			continue;
		}
		__skb_queue_tail(&due, skb);
		if (line->to == state.server) {
			struct packet *packet = packet_of(skb);

			state.counters[packet->flow].delivered_pkts++;
			state.counters[packet->flow].delivered_bytes += packet->bytes;
		}
	}
	if (skb)
		hrtimer_start(timer, ns_to_ktime(state.start_ns + packet_of(skb)->arrival_ns),
			      HRTIMER_MODE_ABS_SOFT);
	spin_unlock(&state.lock);
	while ((skb = __skb_dequeue(&due)))
		arrive(skb, line->to);
	return HRTIMER_NORESTART;
}

/* Points the paths into the input of `size` bytes at `blob`; 0 where it is not a valid one. */
static u32 paths_parse(struct lab_path *paths, const void *blob, size_t size)
{
	const struct labpaths_header *header = blob;
	size_t at = sizeof(*header);
	u32 i;

	if (size < sizeof(*header) || header->magic != LABPATHS_MAGIC || !header->paths ||
	    header->paths > LABPATHS_MAX)
		return 0;
	for (i = 0; i < header->paths; i++) {
		const struct labpaths_path *own = blob + at;

		if (size - at < sizeof(*own))
			return 0;
		at += sizeof(*own);
		if (own->schedule_bytes > size - at || own->jitter_ns > U32_MAX ||
		    (own->back_bps && !own->back_queue_pkts) ||
		    !schedule_parse(&paths[i].schedule, blob + at, own->schedule_bytes) ||
		    ALIGN(own->schedule_bytes, sizeof(u64)) > size - at)
			return 0;
		at += ALIGN(own->schedule_bytes, sizeof(u64));
		paths[i].own = own;
	}
	return at == size ? i : 0;
}

static bool lines_idle(void)
{
	int i, flow;

	for (i = 0; i < LABPATHS_MAX; i++) {
		struct lab_path *path = &state.paths[i];

		if (!skb_queue_empty(&path->forward.queue) ||
		    !skb_queue_empty(&path->back_queue.queue))
			return false;
		for (flow = 0; flow < LABLINK_FLOWS; flow++)
			if (!skb_queue_empty(&path->backward[flow].queue))
				return false;
	}
	return true;
}

/* The path begins at `start_ns`: earlier packets have left it, and its times are void. */
static void path_begin(struct lab_path *path, const struct lab_path *parsed, u64 start_ns)
{
	u64 seed = parsed->schedule.header->seed;
	int flow;

	path->schedule = parsed->schedule;
	path->schedule.start_ns = start_ns;
	path->own = parsed->own;
	path->turns.longest_ns = path->own->jitter_ns;
	prandom_seed_state(&path->random, seed);
	/* Not the losses' numbers. */
	prandom_seed_state(&path->turns_random, seed + 1);
	path->forward.last_ns = 0;
	path->back_queue.last_ns = 0;
	for (flow = 0; flow < LABLINK_FLOWS; flow++)
		path->backward[flow].last_ns = 0;
}

static ssize_t paths_write(struct file *file, const char __user *data, size_t size, loff_t *at)
{
	struct lab_path *parsed = NULL;
	ssize_t err = -ENOMEM;
	u32 count, i;
	void *blob;

	if (size > INPUT_BYTES_MAX)
		return -EINVAL;
	blob = vmalloc(size);
	if (!blob)
		return -ENOMEM;
	parsed = vzalloc(LABPATHS_MAX * sizeof(*parsed));
	if (!parsed)
		goto free;
	err = -EFAULT;
	if (copy_from_user(blob, data, size))
		goto free;
	err = -EINVAL;
	count = paths_parse(parsed, blob, size);
	if (!count)
		goto free;
	spin_lock_bh(&state.lock);
	if (state.blob || !lines_idle()) {
		spin_unlock_bh(&state.lock);
		err = -EBUSY;
		goto free;
	}
	state.start_ns = ktime_get_ns();
	for (i = 0; i < count; i++)
		path_begin(&state.paths[i], &parsed[i], state.start_ns);
	state.count = count;
	state.blob = blob;
	spin_unlock_bh(&state.lock);
	vfree(parsed);
	return size;

free:
	vfree(parsed);
	vfree(blob);
	return err;
}

/* Reads as lablink.c does; the queue is the sum over all paths. */
static ssize_t paths_read(struct file *file, char __user *data, size_t size, loff_t *at)
{
	struct lablink_counters *counters;
	u32 i;

	if (size < sizeof(*counters) - sizeof(counters->flow))
		return -EINVAL;
	size = min(size, sizeof(*counters));
	counters = kzalloc(sizeof(*counters), GFP_KERNEL);
	if (!counters)
		return -ENOMEM;
	spin_lock_bh(&state.lock);
	counters->start_ns = state.start_ns;
	for (i = 0; i < LABPATHS_MAX; i++)
		counters->queue_pkts += skb_queue_len(&state.paths[i].forward.queue);
	counters->flows = LABLINK_FLOWS;
	memcpy(counters->flow, state.counters, size - offsetof(struct lablink_counters, flow));
	spin_unlock_bh(&state.lock);
	if (copy_to_user(data, counters, size))
		size = -EFAULT;
	kfree(counters);
	return size;
}

static const struct file_operations paths_file_ops = {
	.owner = THIS_MODULE,
	.write = paths_write,
	.read = paths_read,
};

static struct miscdevice paths_file = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "lablink",
	.fops = &paths_file_ops,
	.mode = 0600,
};

#include "device.h"

static void path_init(struct lab_path *path)
{
	int flow;

	line_init(&path->forward, state.server);
	line_init(&path->back_queue, NULL);
	for (flow = 0; flow < LABLINK_FLOWS; flow++)
		line_init(&path->backward[flow], state.client);
}

static void path_stop(struct lab_path *path)
{
	int flow;

	line_stop(&path->forward);
	line_stop(&path->back_queue);
	for (flow = 0; flow < LABLINK_FLOWS; flow++)
		line_stop(&path->backward[flow]);
}

static int __init labpaths_init(void)
{
	int err, i;

	spin_lock_init(&state.lock);
	state.count = 1;
	state.client = add_device("lab-client");
	if (IS_ERR(state.client))
		return PTR_ERR(state.client);
	state.server = add_device("lab-server");
	if (IS_ERR(state.server)) {
		err = PTR_ERR(state.server);
		goto remove_client;
	}
	for (i = 0; i < LABPATHS_MAX; i++)
		path_init(&state.paths[i]);
	err = misc_register(&paths_file);
	if (err)
		goto remove_server;
	return 0;

remove_server:
	unregister_netdev(state.server);
remove_client:
	unregister_netdev(state.client);
	return err;
}

static void __exit labpaths_exit(void)
{
	int i;

	misc_deregister(&paths_file);
	/* Nothing enters once the devices are down, and only then may the lines be emptied. */
	rtnl_lock();
	dev_close(state.client);
	dev_close(state.server);
	rtnl_unlock();
	for (i = 0; i < LABPATHS_MAX; i++)
		path_stop(&state.paths[i]);
	unregister_netdev(state.server);
	unregister_netdev(state.client);
	vfree(state.blob);
}

module_init(labpaths_init);
module_exit(labpaths_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Network paths with a known schedule, for the lab");
