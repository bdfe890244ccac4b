/* SPDX-License-Identifier: GPL-2.0-only */
/* A protocol tells of itself by its get_info, as ss shows it. */
#ifndef _MUTANT_INFO_H
#define _MUTANT_INFO_H

#include <linux/inet_diag.h>
#include <net/tcp.h>

/* Whether the protocol tells @kind, INET_DIAG_*INFO, which is then in @info. */
static inline bool mutant_info(struct sock *sk, const struct tcp_congestion_ops *ops, int kind,
			       union tcp_cc_info *info)
{
	int attr = 0;

	return ops->get_info && ops->get_info(sk, 1 << (kind - 1), &attr, info) && attr == kind;
}

#endif /* _MUTANT_INFO_H */
