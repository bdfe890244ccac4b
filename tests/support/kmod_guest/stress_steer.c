// SPDX-License-Identifier: GPL-2.0-only
/* The steering of `stress`: batches of random arms, and of random parameters for the learned ones. */
#include "controls.h"
#include "stress.h"

/* Send a batch, and read the counts of its reply; attribute 2 is the first of them. */
static void send_batch(__u8 cmd, const void *data, size_t len, __u32 *counts, size_t n)
{
	static struct request r;
	__u8 reply[4096];
	const struct nlmsghdr *h = (const struct nlmsghdr *)reply;
	const void *attrs;
	size_t i, attrs_len;

	request_start(&r, family, cmd, 0);
	request_attr(&r, 1, data, len);
	if (send(control, r.data, r.len, 0) < 0 || recv(control, reply, sizeof(reply), 0) < 0)
		die("batch");
	if (h->nlmsg_type == NLMSG_ERROR) {
		fprintf(stderr, "batch of command %d refused: %d\n", cmd, *(int *)NLMSG_DATA(h));
		exit(1);
	}
	attrs = message_attrs(h, &attrs_len);
	for (i = 0; i < n; i++)
		memcpy(&counts[i], attr_data(attr_find(attrs, attrs_len, 2 + i)), sizeof(*counts));
}

void select_at_random(size_t flows)
{
	static struct mutant_command commands[FLOWS_MAX];
	__u32 counts[3];
	size_t i, n = 0;

	for (i = 0; i < flows; i++)
		if (sources[i].fd >= 0 && sources[i].connected)
			commands[n++] = (struct mutant_command){
				.cookie = sources[i].life->cookie,
				.arm = 1 + rnd_below(&seed, MUTANT_ARM_ID_OWL),
				.handover = rnd_below(&seed, MUTANT_HANDOVER_MODE_DRAIN + 1),
				.restore = rnd_below(&seed, MUTANT_RESTORE_MODE_REINIT + 2),
			};
	if (!n)
		return;
	send_batch(MUTANT_CMD_SELECT, commands, n * sizeof(*commands), counts, 3);
	count.batches++;
	count.applied += counts[0];
	count.unknown += counts[1];
	count.refused += counts[2];
}

void control_at_random_all(size_t flows)
{
	static struct mutant_control controls[FLOWS_MAX];
	__u32 counts[4];
	size_t i, n = 0;

	for (i = 0; i < flows; i++)
		if (sources[i].fd >= 0 && sources[i].connected)
			controls[n++] = control_at_random(&seed, sources[i].life->cookie);
	if (!n)
		return;
	send_batch(MUTANT_CMD_CONTROL, controls, n * sizeof(*controls), counts, 4);
	count.controlled += counts[0];
	count.unfit += counts[2];
	count.clamped += counts[3];
}
