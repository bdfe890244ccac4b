/* SPDX-License-Identifier: GPL-2.0-only */
/* What `nlfuzz` and the maker of its messages share. */
#ifndef NLFUZZ_H
#define NLFUZZ_H

#include <linux/mutant.h>
#include <stdbool.h>

#include "genl.h"

#define FLOWS 3

struct fuzz_flow {
	int client, server;
	__u64 cookie;
};

extern struct fuzz_flow flows[FLOWS];
extern __u16 family;
extern __u64 seed;

bool make_message(struct request *r);
void put_u32(struct request *r, __u16 type, __u32 value);
void put_u64(struct request *r, __u16 type, __u64 value);

#endif
