// SPDX-License-Identifier: GPL-2.0-only
/* The module's parameters, at load and in /sys/module/tcp_mutant/parameters. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/jiffies.h>
#include <linux/module.h>
#include <linux/moduleparam.h>

#include "mutant_core.h"

#define WATCHDOG_MS_MAX	3600000		/* as in mutant.yaml */

struct mutant_config mutant_config = {
	.default_arm = MUTANT_ARM_ID_CUBIC,
	.fallback_arm = MUTANT_ARM_ID_CUBIC,
	.restore = MUTANT_RESTORE_MODE_REBASE,
	.handover = MUTANT_HANDOVER_MODE_BDP,
	.resume = MUTANT_RESUME_MODE_OFF,
	.resume_max_jump_kb = 1024,
	.flows_max = 524288,
	.watchdog_ms = 1000,
	.watchdog_jiffies = HZ,
};

/* Parameters given at load wait here until the arms are known. */
static char mutant_load_default[MUTANT_ARM_NAME_MAX] = "cubic";
static char mutant_load_fallback[MUTANT_ARM_NAME_MAX] = "cubic";
static bool mutant_config_ready;

static const char * const mutant_restore_names[] = {
	[MUTANT_RESTORE_MODE_AS_IS] = "as-is",
	[MUTANT_RESTORE_MODE_REBASE] = "rebase",
	[MUTANT_RESTORE_MODE_REINIT] = "reinit",
};

static const char * const mutant_handover_names[] = {
	[MUTANT_HANDOVER_MODE_AS_IS] = "as-is",
	[MUTANT_HANDOVER_MODE_BDP] = "bdp",
	[MUTANT_HANDOVER_MODE_DRAIN] = "drain",
};

static const char * const mutant_resume_names[] = {
	[MUTANT_RESUME_MODE_OFF] = "off",
	[MUTANT_RESUME_MODE_ON] = "on",
};

/* 0 if the arm may be the default (or the @fallback), else an error and @why. */
int mutant_config_check_arm(u8 id, bool fallback, const char **why)
{
	/* Nobody is there to control it. */
	if (fallback && mutant_arms[id].kind == MUTANT_ARM_KIND_LEARNED) {
		*why = "a learned arm cannot be the fallback";
		return -EINVAL;
	}
	/* An extra arm may refuse a flow in its init; where would the flow fall then? */
	if (fallback && mutant_arms[id].kind == MUTANT_ARM_KIND_EXTRA) {
		*why = "an arm loaded on demand cannot be the fallback";
		return -EINVAL;
	}
	if (!mutant_arm_retry(id)) {
		*why = "arm is not available";
		return -ENOENT;
	}
	return 0;
}

void mutant_config_set_watchdog(u32 ms)
{
	WRITE_ONCE(mutant_config.watchdog_ms, ms);
	WRITE_ONCE(mutant_config.watchdog_jiffies, msecs_to_jiffies(ms));
}

static int mutant_config_set_arm(const char *name, const char *param, u8 *setting)
{
	const char *why = "no such arm";
	u8 id = mutant_arm_by_name(name);
	int err = -ENOENT;

	if (id)
		err = mutant_config_check_arm(id, setting == &mutant_config.fallback_arm, &why);
	if (err) {
		pr_err("%s=%s: %s\n", param, name, why);
		return err;
	}
	WRITE_ONCE(*setting, id);
	return 0;
}

static int mutant_param_set_arm(const char *val, const struct kernel_param *kp)
{
	u8 *setting = kp->arg;
	bool fallback = setting == &mutant_config.fallback_arm;
	char name[MUTANT_ARM_NAME_MAX + 1];
	char *trimmed;

	if (strscpy(name, val, sizeof(name)) < 0)
		return -EINVAL;
	trimmed = strim(name);
	if (strlen(trimmed) >= MUTANT_ARM_NAME_MAX)
		return -EINVAL;
	if (mutant_config_ready)
		return mutant_config_set_arm(trimmed, kp->name, setting);
	strscpy(fallback ? mutant_load_fallback : mutant_load_default, trimmed,
		MUTANT_ARM_NAME_MAX);
	return 0;
}

static int mutant_param_get_arm(char *buffer, const struct kernel_param *kp)
{
	return sysfs_emit(buffer, "%s\n", mutant_arms[READ_ONCE(*(u8 *)kp->arg)].name);
}

static const struct kernel_param_ops mutant_arm_param_ops = {
	.set = mutant_param_set_arm,
	.get = mutant_param_get_arm,
};

module_param_cb(default_arm, &mutant_arm_param_ops, &mutant_config.default_arm, 0644);
MODULE_PARM_DESC(default_arm, "arm that a new flow starts with (default cubic)");
module_param_cb(fallback_arm, &mutant_arm_param_ops, &mutant_config.fallback_arm, 0644);
MODULE_PARM_DESC(fallback_arm, "arm of a flow whose daemon is silent (default cubic)");

module_param_named(flows_max, mutant_config.flows_max, uint, 0644);
MODULE_PARM_DESC(flows_max, "flows at a time; a socket beyond them is not steered (default 524288)");

static int mutant_param_set_watchdog(const char *val, const struct kernel_param *kp)
{
	unsigned int ms;
	int err = kstrtouint(val, 0, &ms);

	if (err)
		return err;
	if (ms > WATCHDOG_MS_MAX) {
		pr_err("%s=%u: at most %u\n", kp->name, ms, WATCHDOG_MS_MAX);
		return -ERANGE;
	}
	mutant_config_set_watchdog(ms);
	return 0;
}

static int mutant_param_get_watchdog(char *buffer, const struct kernel_param *kp)
{
	return sysfs_emit(buffer, "%u\n", READ_ONCE(mutant_config.watchdog_ms));
}

static const struct kernel_param_ops mutant_watchdog_param_ops = {
	.set = mutant_param_set_watchdog,
	.get = mutant_param_get_watchdog,
};

module_param_cb(watchdog_ms, &mutant_watchdog_param_ops, NULL, 0644);
MODULE_PARM_DESC(watchdog_ms, "silence after which a steered flow falls back, ms; 0 never (default 1000)");

/* A setting that is one of @names. */
struct mutant_mode_param {
	u8 *setting;
	const char * const *names;
	size_t count;
};

static int mutant_param_set_mode(const char *val, const struct kernel_param *kp)
{
	const struct mutant_mode_param *param = kp->arg;
	size_t i;

	for (i = 0; i < param->count; i++)
		if (param->names[i] && sysfs_streq(param->names[i], val)) {
			WRITE_ONCE(*param->setting, i);
			return 0;
		}
	pr_err("%s: see modinfo for the modes\n", kp->name);
	return -EINVAL;
}

static int mutant_param_get_mode(char *buffer, const struct kernel_param *kp)
{
	const struct mutant_mode_param *param = kp->arg;

	return sysfs_emit(buffer, "%s\n", param->names[READ_ONCE(*param->setting)]);
}

static const struct kernel_param_ops mutant_mode_param_ops = {
	.set = mutant_param_set_mode,
	.get = mutant_param_get_mode,
};

static struct mutant_mode_param mutant_restore_param = {
	&mutant_config.restore, mutant_restore_names, ARRAY_SIZE(mutant_restore_names),
};

module_param_cb(restore, &mutant_mode_param_ops, &mutant_restore_param, 0644);
MODULE_PARM_DESC(restore, "state of an arm that a flow returns to: as-is, rebase (default) or reinit");

static struct mutant_mode_param mutant_handover_param = {
	&mutant_config.handover, mutant_handover_names, ARRAY_SIZE(mutant_handover_names),
};

module_param_cb(handover, &mutant_mode_param_ops, &mutant_handover_param, 0644);
MODULE_PARM_DESC(handover, "window that a flow takes to its next arm: as-is, bdp (default) or drain");

static struct mutant_mode_param mutant_resume_param = {
	&mutant_config.resume, mutant_resume_names, ARRAY_SIZE(mutant_resume_names),
};

module_param_cb(resume, &mutant_mode_param_ops, &mutant_resume_param, 0644);
MODULE_PARM_DESC(resume, "begin with a part of the window that earlier flows to the host had: off (default) or on");

module_param_named(resume_max_jump_kb, mutant_config.resume_max_jump_kb, uint, 0644);
MODULE_PARM_DESC(resume_max_jump_kb, "the most to which the window of a flow that resumes may jump, KiB (default 1024)");

/* Check the parameters given at load, once the arms are known. */
int mutant_config_init(void)
{
	int err;

	err = mutant_config_set_arm(mutant_load_default, "default_arm", &mutant_config.default_arm);
	if (err)
		return err;
	err = mutant_config_set_arm(mutant_load_fallback, "fallback_arm",
				    &mutant_config.fallback_arm);
	if (err)
		return err;
	mutant_config_ready = true;
	return 0;
}
