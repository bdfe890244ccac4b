// SPDX-License-Identifier: GPL-2.0-only
/*
 * A plugin of QEMU. The guest's processor waits at handover.h's instruction, at one moment of virtual time,
 * until the process at the other end of a socket has written into the mailbox.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "handover.h"
#include "plugin.h"

EXPORT int qemu_plugin_version = 1;

static int other_end = -1;

/* Once the other end is closed, the guest goes on alone, and finds an empty mailbox. */
static void hand_over(unsigned int processor, void *data)
{
	char turn = 0;
	ssize_t done;

	(void)processor;
	(void)data;
	do {
		done = write(other_end, &turn, 1);
	} while (done < 0 && errno == EINTR);
	if (done != 1)
		return;
	do {
		done = read(other_end, &turn, 1);
	} while (done < 0 && errno == EINTR);
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *block)
{
	static const char handover[] = HANDOVER_BYTES;
	size_t count = qemu_plugin_tb_n_insns(block);

	(void)id;
	for (size_t at = 0; at < count; at++) {
		struct qemu_plugin_insn *instruction = qemu_plugin_tb_get_insn(block, at);

		if (qemu_plugin_insn_size(instruction) == sizeof(handover) - 1 &&
		    !memcmp(qemu_plugin_insn_data(instruction), handover, sizeof(handover) - 1))
			qemu_plugin_register_vcpu_insn_exec_cb(instruction, hand_over,
							       QEMU_PLUGIN_CB_NO_REGS, NULL);
	}
}

int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc, char **argv)
{
	(void)info;
	for (int at = 0; at < argc; at++)
		if (!strncmp(argv[at], "socket=", 7))
			other_end = atoi(argv[at] + 7);
	if (other_end < 0) {
		fprintf(stderr, "handover: no socket=DESCRIPTOR\n");
		return 1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
