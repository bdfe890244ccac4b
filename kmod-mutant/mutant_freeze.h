/* SPDX-License-Identifier: GPL-2.0-only */
/* Starting, freezing, restoring and leaving an arm; mutant_freeze.c says how. */
#ifndef _MUTANT_FREEZE_H
#define _MUTANT_FREEZE_H

#include "mutant_core.h"

bool mutant_arm_start(struct sock *sk, u8 id);
u8 mutant_start_first(struct sock *sk, u8 id);
void mutant_note_clamp(const struct sock *sk, struct mutant_flow *f);
void mutant_leave_arm(struct sock *sk, struct mutant_flow *f);
void mutant_freeze(struct sock *sk, struct mutant_flow *f);
bool mutant_can_restore(const struct sock *sk, const struct mutant_slot *slot, u8 id, u8 mode);
void mutant_restore(struct sock *sk, struct mutant_flow *f, u8 id, u8 mode);
void mutant_discard(struct sock *sk, struct mutant_slot *slot, u8 id);
bool mutant_past_ready(struct mutant_flow *f);
void mutant_past_free(struct mutant_past *past);
void mutant_release_slots(struct sock *sk, struct mutant_flow *f);
void mutant_finish_reduction(struct sock *sk);
void mutant_stop_pacing(struct sock *sk);

#endif /* _MUTANT_FREEZE_H */
