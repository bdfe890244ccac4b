// SPDX-License-Identifier: GPL-2.0-only
/* The parts of the way back that do not run for every ACK; mutant_back.h explains the whole. */
#include "mutant_back.h"

#define CLOCK_US	500000U		/* time after which a clock's ticks are known */

void mutant_back_init(struct mutant_back *back, const struct mutant_back_ack *ack)
{
	back->begin_us = ack->now_us;
	back->half_us = ack->now_us;
	back->begin_ms = ack->sent_ms;
	back->newer_ms = ack->sent_ms - ack->echo_ms;
	back->older_ms = back->newer_ms;
}

/*
 * Whether the receiver's clock has ticks of a millisecond, or shorter ones: between two ACKs it
 * shows five eighths of our time, or more. Other clocks, of 500 Hz and less, show half of it. ACKs
 * that come later and later make a clock look slow, too. So a queue on the way back of more than
 * three eighths of the flow's life is not told.
 */
static bool mutant_back_clock(const struct mutant_back *back, const struct mutant_back_ack *ack)
{
	u64 us = ack->now_us - back->begin_us;

	return us >= CLOCK_US && (u64)(ack->sent_ms - back->begin_ms) * 8000 >= us * 5;
}

/*
 * A round trip ended with this ACK, and @path has heard of it. Tells the queues on both ways. Both
 * are 0 where they are not known.
 */
void mutant_back_round_ends(struct mutant_back *back, const struct mutant_path *path,
			    const struct mutant_back_ack *ack, u32 *there_us, u32 *back_us)
{
	u32 ms = ack->sent_ms - ack->echo_ms, floor_us = mutant_path_floor_us(path);
	u32 queue_us, us;

	if (back->half_us != path->half_us) {
		back->half_us = path->half_us;
		/* A floor that begins anew has an RTT of before: so the differences stay. */
		if (path->older_us != MUTANT_RTT_UNKNOWN) {
			back->older_ms = back->newer_ms;
			back->newer_ms = ms;
		}
	}
	*there_us = 0;
	*back_us = 0;
	if (ack->rtt_us < 0 || floor_us == MUTANT_RTT_UNKNOWN || !mutant_back_clock(back, ack))
		return;
	/* At least a microsecond, for two zeros tell that nothing is known. */
	queue_us = (u32)ack->rtt_us > floor_us ? (u32)ack->rtt_us - floor_us : 1;
	/* A delayed ACK echoes an earlier packet than the one that gives the RTT. */
	us = mutant_back_there_us(back, ack->sent_ms, ack->echo_ms);
	*there_us = us < queue_us ? us : queue_us;
	*back_us = queue_us - *there_us;
}
