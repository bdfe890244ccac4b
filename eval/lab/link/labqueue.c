// SPDX-License-Identifier: GPL-2.0-only
/* The module of `lablink.c` with a queue discipline of the kernel before its bottleneck. */
#define LABLINK_QUEUE
#include "lablink.c"
