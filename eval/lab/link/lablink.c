// SPDX-License-Identifier: GPL-2.0-only
/*
 * A network path of one bottleneck, as a pair of devices.
 *
 * A packet that enters `lab-client` passes the bottleneck and leaves at `lab-server`. The
 * bottleneck is a drop-tail queue in packets, served at a rate or at a trace's delivery
 * opportunities. A packet that enters `lab-server` takes the whole propagation delay and leaves at
 * `lab-client`; the way back has no queue. A delay split over both ways gives the same RTT.
 *
 * The schedule is known from the start, so the moment at which a packet leaves is computed when it
 * enters, to the nanosecond. If the rate changes meanwhile, each rate serves its part.
 *
 * Opportunities follow mahimahi's mm-link: small packets share one, a large packet takes several,
 * an opportunity without a packet is wasted, and the trace repeats after its last timestamp.
 *
 * A sender is told at once that its packet is gone (skb_orphan), as by a card of unlimited speed.
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
#include <linux/uaccess.h>
#include <linux/vmalloc.h>
#include <net/dst.h>

#include "line.h"
#include "schedule.h"

#define SCHEDULE_BYTES_MAX (64U << 20)

static struct {
	spinlock_t lock; /* everything below */
	struct net_device *client;
	struct net_device *server;
	struct schedule schedule;
	void *blob; /* the schedule's memory; NULL: no schedule yet, and no delay */
	struct rnd_state random;
	struct line forward;
	struct line backward[LABLINK_FLOWS];
	struct lablink_flow_counters counters[LABLINK_FLOWS];
} link_state;

#include "jitter.h"
#include "queue.h"

static void enqueue(struct line *line, struct sk_buff *skb, u64 arrival_ns)
{
	/* A delay that shrinks would let packets overtake; on a real path they queue instead. */
	line->last_ns = max(line->last_ns, arrival_ns);
	packet_of(skb)->arrival_ns = line->last_ns;
	__skb_queue_tail(&line->queue, skb);
	if (skb_queue_len(&line->queue) == 1)
		hrtimer_start(&line->timer,
			      ns_to_ktime(link_state.schedule.start_ns + line->last_ns),
			      HRTIMER_MODE_ABS_SOFT);
}

/* Takes `skb` over where the bottleneck has room for it. */
static bool enter_forward(struct sk_buff *skb, u64 now_ns)
{
	struct schedule *s = &link_state.schedule;
	struct packet *packet = packet_of(skb);
	u64 end_ns;

	packet->flow = ntohl(ip_hdr(skb)->saddr) & (LABLINK_FLOWS - 1);
	packet->bytes = skb->len;
	if (!link_state.blob) {
		enqueue(&link_state.forward, skb, now_ns);
		return true;
	}
	advance_step(s, &s->now_step, now_ns);
	if (s->steps[s->now_step].loss &&
	    prandom_u32_state(&link_state.random) < s->steps[s->now_step].loss) {
		link_state.counters[packet->flow].lost_pkts++;
		return false;
	}
	if (policed(s, now_ns, skb->len)) {
		link_state.counters[packet->flow].dropped_pkts++;
		return false;
	}
	if (skb_queue_len(&link_state.forward.queue) >= s->header->queue_pkts) {
		link_state.counters[packet->flow].dropped_pkts++;
		return false;
	}
	if (s->header->opportunities)
		end_ns = served_by_trace(s, now_ns, skb->len);
	else
		end_ns = served_at_rate(s, max(now_ns, link_state.forward.last_ns), skb->len);
	enqueue(&link_state.forward, skb, end_ns);
	queue_adjust(skb_queue_len(&link_state.forward.queue));
	return true;
}

static void enter_backward(struct sk_buff *skb, u64 now_ns)
{
	struct schedule *s = &link_state.schedule;
	u16 flow = ntohl(ip_hdr(skb)->daddr) & (LABLINK_FLOWS - 1);
	u64 delay_ns = 0;

	if (link_state.blob) {
		advance_step(s, &s->now_step, now_ns);
		if (flow < s->header->flow_delays)
			delay_ns = s->delays[flow].delay_ns;
		if (!delay_ns)
			delay_ns = s->steps[s->now_step].delay_ns;
		now_ns = jitter_leaves(now_ns);
	}
	enqueue(&link_state.backward[flow], skb, now_ns + delay_ns);
}

static netdev_tx_t lablink_xmit(struct sk_buff *skb, struct net_device *dev)
{
	bool taken = true;
	u64 now_ns;

	if (skb->protocol != htons(ETH_P_IP) || !pskb_may_pull(skb, sizeof(struct iphdr))) {
		kfree_skb(skb);
		return NETDEV_TX_OK;
	}
	queue_passed(skb, dev);
	skb_orphan(skb);
	skb_dst_drop(skb);
	if (queue_takes(skb, dev))
		return NETDEV_TX_OK;
	spin_lock_bh(&link_state.lock);
	now_ns = ktime_get_ns() - link_state.schedule.start_ns;
	if (queue_serves(dev))
		taken = enter_forward(skb, now_ns);
	else
		enter_backward(skb, now_ns);
	spin_unlock_bh(&link_state.lock);
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
	spin_lock(&link_state.lock);
	now_ns = ktime_get_ns() - link_state.schedule.start_ns;
	while ((skb = skb_peek(&line->queue)) && packet_of(skb)->arrival_ns <= now_ns) {
		__skb_unlink(skb, &line->queue);
		__skb_queue_tail(&due, skb);
		if (line == &link_state.forward) {
			link_state.counters[packet_of(skb)->flow].delivered_pkts++;
			link_state.counters[packet_of(skb)->flow].delivered_bytes +=
				packet_of(skb)->bytes;
			queue_adjust(skb_queue_len(&line->queue));
		}
	}
	if (skb)
		hrtimer_start(timer,
			      ns_to_ktime(link_state.schedule.start_ns +
					  packet_of(skb)->arrival_ns),
			      HRTIMER_MODE_ABS_SOFT);
	spin_unlock(&link_state.lock);
	while ((skb = __skb_dequeue(&due)))
		arrive(skb, line->to);
	return HRTIMER_NORESTART;
}

static bool lines_idle(void)
{
	int i;

	for (i = 0; i < LABLINK_FLOWS; i++)
		if (!skb_queue_empty(&link_state.backward[i].queue))
			return false;
	return skb_queue_empty(&link_state.forward.queue);
}

/* The clock starts anew, so the lines must be empty, and their times are void. */
static void lines_rewind(void)
{
	int i;

	link_state.forward.last_ns = 0;
	for (i = 0; i < LABLINK_FLOWS; i++)
		link_state.backward[i].last_ns = 0;
}

static ssize_t lablink_write(struct file *file, const char __user *data, size_t size, loff_t *at)
{
	struct schedule s = {};
	ssize_t err = -EINVAL;
	void *blob;

	if (size > SCHEDULE_BYTES_MAX)
		return -EINVAL;
	blob = vmalloc(size);
	if (!blob)
		return -ENOMEM;
	if (copy_from_user(blob, data, size)) {
		err = -EFAULT;
		goto free;
	}
	if (!schedule_parse(&s, blob, jitter_taken(size)))
		goto free;
	spin_lock_bh(&link_state.lock);
	if (link_state.blob || !lines_idle()) {
		spin_unlock_bh(&link_state.lock);
		err = -EBUSY;
		goto free;
	}
	s.start_ns = ktime_get_ns();
	link_state.schedule = s;
	link_state.blob = blob;
	prandom_seed_state(&link_state.random, s.header->seed);
	jitter_begin(blob + size, s.header->seed);
	lines_rewind();
	spin_unlock_bh(&link_state.lock);
	return size;

free:
	vfree(blob);
	return err;
}

static ssize_t lablink_read(struct file *file, char __user *data, size_t size, loff_t *at)
{
	struct lablink_counters *counters;

	if (size < sizeof(*counters) - sizeof(counters->flow))
		return -EINVAL;
	size = min(size, sizeof(*counters));
	counters = kmalloc(sizeof(*counters), GFP_KERNEL);
	if (!counters)
		return -ENOMEM;
	spin_lock_bh(&link_state.lock);
	counters->start_ns = link_state.schedule.start_ns;
	counters->queue_pkts = skb_queue_len(&link_state.forward.queue) + queue_pkts();
	counters->flows = LABLINK_FLOWS;
	memcpy(counters->flow, link_state.counters, size - offsetof(struct lablink_counters, flow));
	spin_unlock_bh(&link_state.lock);
	if (copy_to_user(data, counters, size))
		size = -EFAULT;
	kfree(counters);
	return size;
}

static const struct file_operations lablink_file_ops = {
	.owner = THIS_MODULE,
	.write = lablink_write,
	.read = lablink_read,
};

static struct miscdevice lablink_file = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "lablink",
	.fops = &lablink_file_ops,
	.mode = 0600,
};

#include "device.h"

static int __init lablink_init(void)
{
	int err, i;

	spin_lock_init(&link_state.lock);
	link_state.client = add_device("lab-client");
	if (IS_ERR(link_state.client))
		return PTR_ERR(link_state.client);
	link_state.server = add_device("lab-server");
	if (IS_ERR(link_state.server)) {
		err = PTR_ERR(link_state.server);
		goto remove_client;
	}
	err = queue_add();
	if (err)
		goto remove_server;
	line_init(&link_state.forward, link_state.server);
	for (i = 0; i < LABLINK_FLOWS; i++)
		line_init(&link_state.backward[i], link_state.client);
	err = misc_register(&lablink_file);
	if (err)
		goto remove_queue;
	return 0;

remove_queue:
	queue_remove();
remove_server:
	unregister_netdev(link_state.server);
remove_client:
	unregister_netdev(link_state.client);
	return err;
}

static void __exit lablink_exit(void)
{
	int i;

	misc_deregister(&lablink_file);
	/* Nothing enters once the devices are down, and only then may the lines be emptied. */
	rtnl_lock();
	queue_close();
	dev_close(link_state.client);
	dev_close(link_state.server);
	rtnl_unlock();
	line_stop(&link_state.forward);
	for (i = 0; i < LABLINK_FLOWS; i++)
		line_stop(&link_state.backward[i]);
	queue_remove();
	unregister_netdev(link_state.server);
	unregister_netdev(link_state.client);
	vfree(link_state.blob);
}

module_init(lablink_init);
module_exit(lablink_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("A network path of one bottleneck with a known schedule, for the lab");
