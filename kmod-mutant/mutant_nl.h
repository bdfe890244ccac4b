/* SPDX-License-Identifier: GPL-2.0-only */
/* The files that answer netlink requests share this. */
#ifndef _MUTANT_NL_H
#define _MUTANT_NL_H

#include "mutant_core.h"

struct sk_buff *mutant_reply_new(struct genl_info *info, u8 cmd, void **header);
int mutant_batch_count(struct genl_info *info, const struct nlattr *attr, size_t size);
int mutant_reply_send(struct sk_buff *msg, void *header, int err, struct genl_info *info);

#endif /* _MUTANT_NL_H */
