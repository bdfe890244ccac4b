// SPDX-License-Identifier: GPL-2.0-only
/* The parts of a flow's life that do not run for every ACK; mutant_life.h explains the whole. */
#ifdef __KERNEL__
#include <linux/string.h>
#endif

#include "mutant_life.h"

/* The flow begins, after a handshake that took @handshake_us; 0 where that is not known. */
void mutant_life_begin(struct mutant_life *life, u32 now_us, u32 handshake_us, bool idle)
{
	*life = (struct mutant_life){
		.busy_us = handshake_us,
		.acked_us = now_us,
		.idle = idle,
	};
}

/* The flow ends. Data in flight has waited since the last ACK. */
void mutant_life_end(struct mutant_life *life, u32 now_us)
{
	if (!life->idle)
		life->busy_us += now_us - life->acked_us;
	life->acked_us = now_us;
}

/* The flow leaves @arm. */
void mutant_life_left(const struct mutant_life *life, struct mutant_shares *shares, u32 arm)
{
	shares->busy_us[arm] += life->busy_us - shares->counted_us;
	shares->counted_us = life->busy_us;
}

/*
 * The arms of a flow that runs @arm, those with the longest time first; @shares is NULL if the flow
 * has never switched.
 */
void mutant_life_shares(const struct mutant_life *life, const struct mutant_shares *shares,
			u32 arm, struct mutant_outcome *outcome)
{
	u64 total_us = life->busy_us, busy_us[MUTANT_ARMS_MAX + 1] = {};
	u32 i, id, most;

	if (shares)
		memcpy(busy_us, shares->busy_us, sizeof(busy_us));
	busy_us[arm] += total_us - (shares ? shares->counted_us : 0);
	/* A flow that was never busy ran its arm all the time. */
	if (!total_us) {
		total_us = 1;
		busy_us[arm] = 1;
	}
	for (i = 0; i < MUTANT_OUTCOME_ARMS; i++) {
		for (id = 0, most = 0; id <= MUTANT_ARMS_MAX; id++)
			if (busy_us[id] > busy_us[most])
				most = id;
		if (!busy_us[most])
			break;
		outcome->share_arm[i] = most;
		outcome->share[i] = busy_us[most] * MUTANT_OUTCOME_ONE / total_us;
		busy_us[most] = 0;
	}
}
