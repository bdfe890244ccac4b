/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The devices of a link and its lines, for a module that has lablink_xmit() for its devices and
 * lablink_due() for the timers of its lines.
 */
#ifndef LABLINK_DEVICE_H
#define LABLINK_DEVICE_H

static const struct net_device_ops lablink_device_ops = {
	.ndo_start_xmit = lablink_xmit,
};

static void lablink_setup(struct net_device *dev)
{
	dev->netdev_ops = &lablink_device_ops;
	dev->type = ARPHRD_NONE;
	dev->flags = IFF_POINTOPOINT | IFF_NOARP;
	dev->mtu = LABLINK_OPPORTUNITY_BYTES;
	dev->priv_flags |= IFF_NO_QUEUE;
	/* No segmentation: the bottleneck counts packets as they are on a wire. */
	dev->features = NETIF_F_SG | NETIF_F_HW_CSUM | NETIF_F_HIGHDMA;
	dev->hw_features = dev->features;
	dev->needs_free_netdev = true;
}

static struct net_device *add_device(const char *name)
{
	struct net_device *dev = alloc_netdev(0, name, NET_NAME_USER, lablink_setup);
	int err;

	if (!dev)
		return ERR_PTR(-ENOMEM);
	err = register_netdev(dev);
	if (err) {
		free_netdev(dev);
		return ERR_PTR(err);
	}
	return dev;
}

static void line_init(struct line *line, struct net_device *to)
{
	__skb_queue_head_init(&line->queue);
#ifdef LABLINK_HAS_HRTIMER_SETUP
	hrtimer_setup(&line->timer, lablink_due, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
#else
	hrtimer_init(&line->timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	line->timer.function = lablink_due;
#endif
	line->to = to;
}

static void line_stop(struct line *line)
{
	hrtimer_cancel(&line->timer);
	__skb_queue_purge(&line->queue);
}

#endif
