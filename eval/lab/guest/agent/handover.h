/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Guest and host agree on two things. The guest's processor waits for the host at one instruction. The
 * mailbox is the last part of the memory that both share. `daemon.py` has the same layout.
 */
#ifndef HANDOVER_H
#define HANDOVER_H

#include <stdint.h>

/* nopl 0x6c61622e(%rax,%rax,1): it does nothing, and no compiler pads with it. */
#define HANDOVER_BYTES "\x0f\x1f\x84\x00\x2e\x62\x61\x6c"
#define HANDOVER ".byte 0x0f, 0x1f, 0x84, 0x00, 0x2e, 0x62, 0x61, 0x6c"

#define MAILBOX_BYTES 0x100000
#define MAILBOX_ARGUMENTS 6
#define NO_CALL -1

struct mailbox {
	int64_t monotonic_ns; /* the guest's clocks as the guest hands over */
	int64_t real_ns;
	int64_t result; /* the call's result, negative errno for an error */
	int64_t number; /* number of the system call that the host wants, or NO_CALL */
	uint64_t in_data; /* bit n: argument n is an offset in `data` */
	int64_t arguments[MAILBOX_ARGUMENTS];
	char data[];
};

#endif
