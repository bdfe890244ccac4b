/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A queue discipline of the kernel before the bottleneck, in the module `labqueue` alone.
 *
 * A packet that enters `lab-client` goes to the device `lab-queue`, which has the discipline. That
 * device holds two packets, one in service and the next, as a network card's ring does; so the
 * discipline holds the rest, and no service time is lost. In `lablink` all this is nothing.
 */
#ifndef LABLINK_QUEUE_H
#define LABLINK_QUEUE_H

#ifdef LABLINK_QUEUE
#include <net/sch_generic.h>

#define RING_PKTS 2

static struct net_device *add_device(const char *name);

static struct net_device *queue_device;

/* A discipline drops a packet by freeing it, with no word to the device. */
static void queue_dropped(struct sk_buff *skb)
{
	u16 flow = ntohl(ip_hdr(skb)->saddr) & (LABLINK_FLOWS - 1);

	spin_lock_bh(&link_state.lock);
	link_state.counters[flow].dropped_pkts++;
	spin_unlock_bh(&link_state.lock);
}

/* Whether the packet goes through the queue first; it has no owner then. */
static bool queue_takes(struct sk_buff *skb, struct net_device *dev)
{
	if (dev != link_state.client)
		return false;
	skb->destructor = queue_dropped;
	skb->dev = queue_device;
	dev_queue_xmit(skb);
	return true;
}

/* The discipline let the packet go. */
static void queue_passed(struct sk_buff *skb, struct net_device *dev)
{
	if (dev == queue_device)
		skb->destructor = NULL;
}

/* Whether the bottleneck serves the packets that this device sends. */
static bool queue_serves(struct net_device *dev)
{
	return dev == queue_device;
}

/* After a packet has come into the ring or left it, with the lock held. */
static void queue_adjust(u32 ring_pkts)
{
	if (ring_pkts >= RING_PKTS)
		netif_stop_queue(queue_device);
	else
		netif_wake_queue(queue_device);
}

static u32 queue_pkts(void)
{
	u32 pkts;

	rcu_read_lock();
	pkts = READ_ONCE(rcu_dereference(netdev_get_tx_queue(queue_device, 0)->qdisc)->q.qlen);
	rcu_read_unlock();
	return pkts;
}

static int queue_add(void)
{
	queue_device = add_device("lab-queue");
	return PTR_ERR_OR_ZERO(queue_device);
}

static void queue_close(void)
{
	dev_close(queue_device);
}

static void queue_remove(void)
{
	unregister_netdev(queue_device);
}
#else
static inline bool queue_takes(struct sk_buff *skb, struct net_device *dev)
{
	return false;
}

static inline void queue_passed(struct sk_buff *skb, struct net_device *dev)
{
}

static inline bool queue_serves(struct net_device *dev)
{
	return dev == link_state.client;
}

static inline void queue_adjust(u32 ring_pkts)
{
}

static inline u32 queue_pkts(void)
{
	return 0;
}

static inline int queue_add(void)
{
	return 0;
}

static inline void queue_close(void)
{
}

static inline void queue_remove(void)
{
}
#endif

#endif
