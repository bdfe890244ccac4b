/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * The data written to /dev/lablink of the module `labpaths`, in the byte order of the machine.
 *
 * A struct labpaths_header, and then for each path a struct labpaths_path and its schedule as
 * lablink.h has it, filled up with zeros to whole 8 bytes. All paths begin at one moment.
 */
#ifndef LABPATHS_H
#define LABPATHS_H

#include <linux/types.h>

#define LABPATHS_MAGIC 0x6874706cU /* "lpth" */
#define LABPATHS_MAX 16
#define LABPATHS_SILENT_BPS 1 /* a step of this rate is a silence of both ways */

struct labpaths_header {
	__u32 magic;
	__u32 paths; /* packets to and from 10.2.N.0/24 take path N; a single path takes all */
};

/* Probabilities are times 2^32, which is certainty. */
struct labpaths_path {
	__u64 schedule_bytes; /* size without the zeros that fill it up */
	__u64 jitter_ns; /* longest time between two turns of the way back; 0: none */
	__u64 to_bad; /* chance to go from good to bad, before each data packet */
	__u64 to_good; /* chance to go from bad to good, before each data packet */
	__u64 loss_bad; /* chance to lose a data packet in the bad state */
	__u64 loss_good;
	__u64 back_bps; /* rate of the bottleneck on the way back; 0: none */
	__u64 back_loss; /* chance to lose a packet on the way back */
	__u32 back_queue_pkts; /* packets that this bottleneck holds, the one in service included */
	__u32 back_thins; /* whether an ACK takes the place of an older one that waits */
};

#endif
