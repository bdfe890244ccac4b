// SPDX-License-Identifier: GPL-2.0-only
/* Another program's sock_ops: it gives a receive window, and Reno to the flows to one port. */
#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define SOL_TCP		6
#define TCP_CONGESTION	13
#define PORT		7001
#define WINDOW_PACKETS	7

SEC("sockops")
int other(struct bpf_sock_ops *ctx)
{
	char reno[] = "reno";

	if (ctx->op == BPF_SOCK_OPS_RWND_INIT)
		ctx->reply = WINDOW_PACKETS;
	if (ctx->op == BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB && bpf_ntohl(ctx->remote_port) == PORT)
		bpf_setsockopt(ctx, SOL_TCP, TCP_CONGESTION, reno, sizeof(reno));
	return 1;
}

char other_license[] SEC("license") = "GPL";
