// SPDX-License-Identifier: GPL-2.0-only
/* The module of `lablink.c` with a way back that waits for its turn. */
#define LABLINK_JITTER
#include "lablink.c"
