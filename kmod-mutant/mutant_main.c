// SPDX-License-Identifier: GPL-2.0-only
/*
 * mutant: a TCP congestion control that runs other congestion controls, and switches a live flow
 * from one to another.
 *
 * The idea comes from "Mutant: Learning Congestion Control from Existing Protocols via Online
 * Reinforcement Learning" (section 3.1, Protocol Manager). Every protocol of a pool keeps its own
 * state for a flow. On a switch the active one's state is frozen, the other's is restored, and the
 * congestion window carries over. Who runs when is decided in user space, over generic netlink.
 * Without anybody to decide, a flow runs the default arm; its ACKs are measured all the same.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <net/tcp.h>

#include "mutant_core.h"
#include "mutant_host.h"
#include "mutant_session.h"
#include "mutant_start.h"

/* A socket runs this between choosing `mutant` and being established; then init picks an arm. */
static void mutant_self_init(void)
{
	struct tcp_congestion_ops *ops = &mutant_arms[MUTANT_ARM_NONE].ops;

	strscpy(ops->name, "mutant", sizeof(ops->name));
	ops->owner = THIS_MODULE;
	/* Steering a flow takes CAP_NET_ADMIN; anybody can choose only the default arm. */
	ops->flags = TCP_CONG_NON_RESTRICTED;
	ops->init = mutant_flow_init;
	ops->release = mutant_flow_release;
	ops->ssthresh = tcp_reno_ssthresh;
	ops->cong_avoid = tcp_reno_cong_avoid;
	ops->undo_cwnd = tcp_reno_undo_cwnd;
}

static int __init mutant_init(void)
{
	int err;

	mutant_self_init();
	mutant_arms_init();
	err = mutant_config_init();
	if (err)
		goto arms;
	err = mutant_flows_init();
	if (err)
		goto arms;
	err = mutant_starts_init();
	if (err)
		goto flows;
	err = mutant_hosts_init();
	if (err)
		goto starts;
	err = mutant_sessions_init();
	if (err)
		goto hosts;
	err = genl_register_family(&mutant_nl_family);
	if (err)
		goto sessions;
	err = tcp_register_congestion_control(&mutant_arms[MUTANT_ARM_NONE].ops);
	if (err)
		goto family;
	mutant_arms_register();
	return 0;

family:
	genl_unregister_family(&mutant_nl_family);
sessions:
	mutant_sessions_exit();
hosts:
	mutant_hosts_exit();
starts:
	mutant_starts_exit();
flows:
	mutant_flows_exit();
arms:
	mutant_arms_exit();
	return err;
}

/*
 * Every socket that runs an arm holds this module, so there is no flow left here. But requests and
 * parameters still come: arms are closed first.
 */
static void __exit mutant_exit(void)
{
	mutant_arms_unregister();
	tcp_unregister_congestion_control(&mutant_arms[MUTANT_ARM_NONE].ops);
	mutant_events_flush();
	genl_unregister_family(&mutant_nl_family);
	mutant_sessions_exit();
	mutant_hosts_exit();
	mutant_starts_exit();
	mutant_flows_exit();
	mutant_arms_exit();
}

module_init(mutant_init);
module_exit(mutant_exit);

MODULE_AUTHOR("The ltp-switcher authors");
MODULE_DESCRIPTION("TCP congestion control that live-switches flows between protocols");
MODULE_LICENSE("GPL");
MODULE_VERSION("0.1.0");
MODULE_ALIAS_GENL_FAMILY(MUTANT_FAMILY_NAME);
/* The arms' protocols, for whoever packs an initramfs; a kernel may lack some. */
MODULE_SOFTDEP("pre: tcp_cubic tcp_bbr tcp_vegas tcp_westwood tcp_hybla tcp_htcp tcp_veno tcp_yeah tcp_bic tcp_highspeed tcp_illinois");
