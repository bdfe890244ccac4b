// SPDX-License-Identifier: GPL-2.0-only
/* The parts of the echoes that run once for a control; mutant_echo.h explains the whole. */
#ifdef __KERNEL__
#include <linux/math64.h>
#endif

#include "mutant_echo.h"

static struct mutant_mark *mutant_echo_mark_of(struct mutant_echoes *e, u32 number)
{
	return &e->mark[number & MUTANT_MARK_MASK];
}

/* Another arm has run in between: its packets are nobody's echo. */
static bool mutant_echo_stale(struct mutant_echoes *e, u32 epoch)
{
	if (likely(e->epoch == epoch))
		return false;
	e->epoch = epoch;
	e->made = 0;
	e->answered = 0;
	return true;
}

/* From @mark on, sent packets belong to another control. */
void mutant_echo_mark(struct mutant_echoes *e, u32 epoch, const struct mutant_mark *mark)
{
	mutant_echo_stale(e, epoch);
	if (e->made - e->answered == MUTANT_MARK_MASK)
		return;
	if (e->made == e->answered)
		e->next = mark->sent;
	*mutant_echo_mark_of(e, e->made++) = *mark;
}

/*
 * Answer every mark that the last ACK resolves. True if an echo ended with the batch before: the
 * last one if several, because those that ended with it have nothing of their own.
 */
bool mutant_echo_answer(struct mutant_echoes *e, u32 epoch, struct mutant_heard *heard)
{
	struct mutant_echo *echo = &heard->echo;
	const struct mutant_ack *from = &e->from, *to = &e->before;
	u32 resolved = e->last.delivered + e->last.lost;
	bool ended = false;

	if (mutant_echo_stale(e, epoch))
		return false;
	if (e->answered) {
		echo->number = mutant_echo_mark_of(e, e->answered - 1)->number;
		echo->delivered = to->delivered - from->delivered;
		echo->lost = to->lost - from->lost;
		echo->sending_us = to->sent_us - from->sent_us;
		echo->acking_us = to->now_us - from->now_us;
		echo->rtt_us_min = e->rtt_us_min ?: e->rtt_us;
		heard->rtt_us = e->rtts.samples ? div_u64(e->rtts.us_sum, e->rtts.samples) :
				e->rtt_us;
		/* After losses nothing newer than before may have come back. */
		ended = echo->delivered && to->sent_us > from->sent_us &&
			to->now_us > from->now_us;
	}
	do {
		e->answered++;
		e->next = mutant_echo_mark_of(e, e->answered)->sent;
	} while (e->answered != e->made && (s32)(resolved - e->next) >= 0);
	e->from = *to;
	e->rtt_us_min = 0;
	e->rtts = (struct mutant_rtts){};
	return ended;
}

/* Put an echo behind those that a record holds. */
void mutant_echo_put(struct mutant_record *rec, const struct mutant_heard *heard)
{
	memmove(&rec->echo[0], &rec->echo[1], sizeof(rec->echo) - sizeof(rec->echo[0]));
	memmove(&rec->echo_rtt_us[0], &rec->echo_rtt_us[1],
		sizeof(rec->echo_rtt_us) - sizeof(rec->echo_rtt_us[0]));
	rec->echo[MUTANT_ECHOES_MAX - 1] = heard->echo;
	rec->echo_rtt_us[MUTANT_ECHOES_MAX - 1] = heard->rtt_us;
}
