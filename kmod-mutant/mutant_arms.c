// SPDX-License-Identifier: GPL-2.0-only
/*
 * The arms: finding a protocol, pinning its module, cloning its ops.
 *
 * No symbol gives one protocol's ops to another module, but setting the protocol on a socket of
 * ours makes the kernel load it and point that socket's icsk_ca_ops at it. The socket is kept: it
 * holds the protocol's module until we are unloaded. The learned arms are ops of our own.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/in.h>
#include <linux/net.h>
#include <linux/sockptr.h>
#include <net/net_namespace.h>
#include <net/sock.h>

#include "compat.h"
#include "mutant_jump.h"

#define FIRST_EXTRA	(MUTANT_LAST_LEARNED + 1)

struct mutant_arm mutant_arms[MUTANT_ARMS_MAX + 1];

/* Orders those who look for arms, and the module's end. */
static DEFINE_MUTEX(mutant_arms_mutex);

/*
 * Whether arms may be looked for, and are registered at once. Requests and parameters reach us
 * before `mutant` is ready, and until the module's memory goes: an arm that they found then would
 * outlive it. The mutex orders it.
 */
static bool mutant_arms_open;

static const struct tcp_congestion_ops *mutant_sock_ops(const struct socket *sock)
{
	return READ_ONCE(inet_csk(sock->sk)->icsk_ca_ops);
}

/* A socket that runs the protocol @name, or NULL. */
static struct socket *mutant_arm_pin(const char *name)
{
	struct socket *sock;
	struct sock *sk;

	if (sock_create_kern(&init_net, PF_INET, SOCK_STREAM, IPPROTO_TCP, &sock) < 0)
		return NULL;
	sk = sock->sk;
	if (sk->sk_prot->setsockopt(sk, SOL_TCP, TCP_CONGESTION, KERNEL_SOCKPTR((void *)name),
				    strlen(name)) < 0 ||
	    strcmp(mutant_sock_ops(sock)->name, name)) {
		sock_release(sock);
		return NULL;
	}
	return sock;
}

/* Make @arm run @orig, and offer it to flows. */
static void mutant_arm_open(struct mutant_arm *arm, const struct tcp_congestion_ops *orig,
			    struct socket *pin)
{
	arm->orig = orig;
	arm->pin = pin;
	arm->ops = *orig;
	arm->ops.owner = THIS_MODULE;
	INIT_LIST_HEAD(&arm->ops.list);
	strscpy(arm->ops.name, "m/", sizeof(arm->ops.name));
	strlcat(arm->ops.name, arm->name, sizeof(arm->ops.name));
	mutant_hook(&arm->ops);
	mutant_jump_hook(arm);
	arm->reason = NULL;
	/* Pairs with mutant_arm_available(): whoever sees the state sees the ops. */
	smp_store_release(&arm->state, MUTANT_ARM_STATE_AVAILABLE);
}

/* Why a protocol that exists cannot be an arm, or NULL. */
static const char *mutant_arm_unfit(const struct tcp_congestion_ops *ops)
{
	if (ops == &mutant_arms[MUTANT_ARM_NONE].ops)
		return "mutant cannot be an arm of itself";
	if (ops->flags & (TCP_CONG_NEEDS_ECN | TCP_CONG_NEEDS_ACCECN))
		return "needs ECN, which a running connection cannot negotiate";
	if (ops->flags & MUTANT_CONG_ECN_FLAGS)
		return "negotiates ECN in another way than the flow has";
	/* It asks a BPF program for the path's RTT, in its init. */
	if (!strcmp(ops->name, "nv"))
		return "runs BPF programs, which may change the congestion control by themselves";
	/* Its init may set another congestion control, and so release the flow in use. */
	if (mutant_is_bpf(ops))
		return "is a BPF program, which may change the congestion control by itself";
	return NULL;
}

/* Try to open @arm, whose name is set. Its state and reason hold the result. */
static void mutant_arm_find(struct mutant_arm *arm)
{
	struct socket *pin;
	const char *why;

	if (arm->state == MUTANT_ARM_STATE_AVAILABLE)
		return;
	if (arm->kind == MUTANT_ARM_KIND_LEARNED) {
		mutant_arm_open(arm, &mutant_executor_ops, NULL);
		return;
	}
	pin = mutant_arm_pin(arm->name);
	if (!pin) {
		arm->reason = "no such protocol in this kernel or its modules";
		return;
	}
	why = mutant_arm_unfit(mutant_sock_ops(pin));
	if (why) {
		sock_release(pin);
		arm->state = MUTANT_ARM_STATE_REFUSED;
		arm->reason = why;
		return;
	}
	mutant_arm_open(arm, mutant_sock_ops(pin), pin);
}

/* Flows must be possible by now: whoever finds a clone by its name may use it at once. */
static void mutant_arm_register(struct mutant_arm *arm)
{
	int err;

	if (arm->registered || arm->state != MUTANT_ARM_STATE_AVAILABLE)
		return;
	err = tcp_register_congestion_control(&arm->ops);
	if (err)
		pr_notice("arm %s: applications cannot ask for it: %d\n", arm->name, err);
	arm->registered = !err;
}

/* Look for @arm while that is allowed, and let applications ask for it by its name. */
static void mutant_arm_seek(struct mutant_arm *arm)
{
	lockdep_assert_held(&mutant_arms_mutex);
	if (!mutant_arms_open)
		return;
	mutant_arm_find(arm);
	mutant_arm_register(arm);
}

/* Look again for a fixed arm that was missing; true if it can be used. */
bool mutant_arm_retry(u8 id)
{
	if (mutant_arm_available(id))
		return true;
	if (!id || id >= FIRST_EXTRA)
		return false;
	mutex_lock(&mutant_arms_mutex);
	mutant_arm_seek(&mutant_arms[id]);
	mutex_unlock(&mutant_arms_mutex);
	return mutant_arm_available(id);
}

/* The id of the arm @name, available or not; MUTANT_ARM_NONE if there is none. */
u8 mutant_arm_by_name(const char *name)
{
	u8 id;

	for (id = 1; id <= MUTANT_ARMS_MAX; id++)
		if (!strcmp(mutant_arms[id].name, name))
			return id;
	return MUTANT_ARM_NONE;
}

/*
 * Look for the protocol @name. A protocol without a fixed id gets the first free one of those kept
 * for extra arms; one that is not fit or does not exist gets none, and @result says why.
 * Returns -ENOSPC when no id is left, and -EAGAIN while the module is being loaded or unloaded.
 */
int mutant_arm_load(const char *name, struct mutant_arm *result)
{
	struct mutant_arm *arm;
	int err = 0;
	u8 id;

	mutex_lock(&mutant_arms_mutex);
	if (!mutant_arms_open) {
		err = -EAGAIN;
		goto out;
	}
	id = mutant_arm_by_name(name);
	if (id) {
		mutant_arm_seek(&mutant_arms[id]);
		*result = mutant_arms[id];
		goto out;
	}
	memset(result, 0, sizeof(*result));
	result->kind = MUTANT_ARM_KIND_EXTRA;
	strscpy(result->name, name, sizeof(result->name));
	mutant_arm_find(result);
	if (result->state != MUTANT_ARM_STATE_AVAILABLE)
		goto out;
	for (id = FIRST_EXTRA; id <= MUTANT_ARMS_MAX; id++)
		if (!mutant_arms[id].name[0])
			break;
	if (id > MUTANT_ARMS_MAX) {
		sock_release(result->pin);
		err = -ENOSPC;
		goto out;
	}
	arm = &mutant_arms[id];
	strscpy(arm->name, name, sizeof(arm->name));
	mutant_arm_open(arm, result->orig, result->pin);
	mutant_arm_register(arm);
	result->id = id;
	pr_info("arm %u is %s\n", id, name);
out:
	mutex_unlock(&mutant_arms_mutex);
	return err;
}

void mutant_arms_init(void)
{
	unsigned int found = 0;
	struct mutant_arm *arm;
	u8 id;

	for (id = 1; id <= MUTANT_ARMS_MAX; id++) {
		arm = &mutant_arms[id];
		arm->id = id;
		if (id >= FIRST_EXTRA) {
			arm->kind = MUTANT_ARM_KIND_EXTRA;
			continue;
		}
		arm->kind = id < MUTANT_FIRST_LEARNED ? MUTANT_ARM_KIND_KERNEL :
						       MUTANT_ARM_KIND_LEARNED;
		strscpy(arm->name, mutant_arm_names[id], sizeof(arm->name));
		mutant_arm_find(arm);
		if (arm->state != MUTANT_ARM_STATE_AVAILABLE)
			pr_notice("arm %s: %s\n", arm->name, arm->reason);
		else if (arm->kind == MUTANT_ARM_KIND_KERNEL)
			found++;
	}
	pr_info("%u of %u kernel arms available\n", found, MUTANT_FIRST_LEARNED - 1);
}

void mutant_arms_register(void)
{
	u8 id;

	mutex_lock(&mutant_arms_mutex);
	mutant_arms_open = true;
	for (id = 1; id <= MUTANT_ARMS_MAX; id++)
		mutant_arm_register(&mutant_arms[id]);
	mutex_unlock(&mutant_arms_mutex);
}

/* From here on no arm is found, and none comes back. */
void mutant_arms_unregister(void)
{
	u8 id;

	mutex_lock(&mutant_arms_mutex);
	mutant_arms_open = false;
	for (id = 1; id <= MUTANT_ARMS_MAX; id++) {
		if (!mutant_arms[id].registered)
			continue;
		tcp_unregister_congestion_control(&mutant_arms[id].ops);
		mutant_arms[id].registered = false;
	}
	mutex_unlock(&mutant_arms_mutex);
}

void mutant_arms_exit(void)
{
	u8 id;

	for (id = 1; id <= MUTANT_ARMS_MAX; id++)
		if (mutant_arms[id].pin)
			sock_release(mutant_arms[id].pin);
}
