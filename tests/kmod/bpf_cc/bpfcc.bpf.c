// SPDX-License-Identifier: GPL-2.0-only
/* A congestion control in BPF that sets another one in its init, as the kernel lets it do. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define SOL_TCP		6
#define TCP_CONGESTION	13

struct sock;

/* The members used; libbpf finds them by name in the kernel's own. */
struct tcp_congestion_ops {
	void (*init)(struct sock *sk);
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
	__u32 (*undo_cwnd)(struct sock *sk);
	char name[16];
};

SEC("struct_ops/bpfcc_init")
void bpfcc_init(unsigned long long *ctx)
{
	char reno[] = "reno";

	bpf_setsockopt((void *)ctx[0], SOL_TCP, TCP_CONGESTION, reno, sizeof(reno));
}

SEC("struct_ops/bpfcc_ssthresh")
__u32 bpfcc_ssthresh(unsigned long long *ctx)
{
	return 10;
}

SEC("struct_ops/bpfcc_undo_cwnd")
__u32 bpfcc_undo_cwnd(unsigned long long *ctx)
{
	return 10;
}

SEC("struct_ops/bpfcc_cong_avoid")
void bpfcc_cong_avoid(unsigned long long *ctx)
{
}

SEC(".struct_ops")
struct tcp_congestion_ops bpfcc = {
	.init = (void *)bpfcc_init,
	.ssthresh = (void *)bpfcc_ssthresh,
	.cong_avoid = (void *)bpfcc_cong_avoid,
	.undo_cwnd = (void *)bpfcc_undo_cwnd,
	.name = "bpfcc",
};

char bpfcc_license[] SEC("license") = "GPL";
