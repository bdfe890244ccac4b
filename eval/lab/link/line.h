/* SPDX-License-Identifier: GPL-2.0-only */
/* Packets that wait for the moment at which they leave. */
#ifndef LABLINK_LINE_H
#define LABLINK_LINE_H

#include <linux/hrtimer.h>
#include <linux/netdevice.h>
#include <linux/skbuff.h>

/* Packets on their way to `to`, in order of the moment they arrive. */
struct line {
	struct sk_buff_head queue;
	struct hrtimer timer;
	struct net_device *to;
	u64 last_ns; /* arrival of the packet that entered last */
};

struct packet {
	u64 arrival_ns;
	u32 bytes;
	u16 flow;
};

static struct packet *packet_of(struct sk_buff *skb)
{
	BUILD_BUG_ON(sizeof(struct packet) > sizeof(skb->cb));
	return (struct packet *)skb->cb;
}

/* The packet has come to the end of its line. */
static void arrive(struct sk_buff *skb, struct net_device *to)
{
	skb_scrub_packet(skb, true);
	skb->dev = to;
	skb->pkt_type = PACKET_HOST;
	skb_reset_mac_header(skb);
	skb_reset_network_header(skb);
	netif_receive_skb(skb);
}

#endif
