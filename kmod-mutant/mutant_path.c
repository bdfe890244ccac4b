// SPDX-License-Identifier: GPL-2.0-only
/* The parts of a flow's path that do not run for every ACK; mutant_path.h explains the whole. */
#include "mutant_path.h"

#define HALF_US		5000000U	/* half of the floor's window */
#define ROUND_US_MAX	(~0U)
#define DELAYED_PKTS	2U		/* packets of a delayed ACK */

void mutant_path_init(struct mutant_path *path, u64 now_us, u32 delivered, u32 in_flight)
{
	*path = (struct mutant_path){
		.half_us = now_us,
		.round_us = now_us,
		.ack_us = now_us,
		.older_us = MUTANT_RTT_UNKNOWN,
		.newer_us = MUTANT_RTT_UNKNOWN,
		.exact_us = MUTANT_RTT_UNKNOWN,
		.round_min_us = MUTANT_RTT_UNKNOWN,
		.last_min_us = MUTANT_RTT_UNKNOWN,
		.round_begin = delivered,
		.round_end = delivered + (in_flight ?: 1),
	};
}

static void mutant_path_floor_anew(struct mutant_path *path, u64 now_us, u32 rtt_us)
{
	path->half_us = now_us;
	path->older_us = MUTANT_RTT_UNKNOWN;
	path->newer_us = rtt_us;
	path->longer = true;
}

/*
 * The window was cut to the path's content, computed from the floor. If the RTT has hardly come
 * down, nothing of it was a queue: the path is longer than it was, and a window by the old floor
 * would starve the flow. Packets that were in flight at the cut still met the queue, so the round
 * trip that is judged begins after the last of them.
 */
static void mutant_path_judge_cut(struct mutant_path *path, u64 now_us)
{
	if (!path->cut_long_us)
		return;
	if (path->round_min_us < path->cut_min_us)
		path->cut_min_us = path->round_min_us;
	if ((s32)(path->round_begin - path->cut_end) < 0 || path->cut_min_us == MUTANT_RTT_UNKNOWN)
		return;
	if (path->cut_min_us > path->cut_long_us)
		mutant_path_floor_anew(path, now_us, path->cut_min_us);
	path->cut_long_us = 0;
}

/* This ACK ends a round trip: note its values, and begin the next. */
void mutant_path_round_ends(struct mutant_path *path, const struct mutant_path_ack *ack)
{
	u64 us = ack->now_us - path->round_us;

	if (path->round_min_us != MUTANT_RTT_UNKNOWN)
		path->last_min_us = path->round_min_us;
	if (path->round_min_us < path->newer_us)
		path->newer_us = path->round_min_us;
	if (ack->now_us - path->half_us > HALF_US) {
		path->older_us = path->newer_us;
		path->newer_us = path->round_min_us;
		path->half_us = ack->now_us;
	}
	mutant_path_judge_cut(path, ack->now_us);
	if (path->exact_us < mutant_path_floor_us(path))
		path->exact_us = MUTANT_RTT_UNKNOWN;

	if (!path->held_back && us && us < ROUND_US_MAX) {
		path->round[1] = path->round[0];
		path->round[0].pkts = ack->delivered - path->round_begin;
		path->round[0].us = us;
		path->round[0].silent_us = path->gaps_us2 / us;
	}
	path->gaps_us2 = 0;
	path->rounds++;
	path->round_us = ack->now_us;
	path->round_begin = ack->delivered;
	path->round_end = ack->delivered + (ack->in_flight ?: 1);
	path->round_min_us = MUTANT_RTT_UNKNOWN;
	path->held_back = false;
}

/* The bandwidth-delay product, packets; 0 where it is not known. */
u32 mutant_path_bdp(const struct mutant_path *path)
{
	u64 floor_us = mutant_path_floor_us(path), most = 0, pkts;
	u32 i;

	if (floor_us == MUTANT_RTT_UNKNOWN)
		return 0;
	for (i = 0; i < 2; i++) {
		if (!path->round[i].us)
			continue;
		pkts = path->round[i].pkts * floor_us;
		pkts = (pkts + path->round[i].us - 1) / path->round[i].us;
		if (pkts > most)
			most = pkts;
	}
	return most < ~0U ? most : ~0U;
}

/*
 * The packets that a turn of ACKs brings, where it is silent between two turns for longer than the
 * RTT floor; else 0. Two of them are no turn's: a receiver delays its ACKs for as many.
 */
u32 mutant_path_turn(const struct mutant_path *path)
{
	u32 floor_us = mutant_path_floor_us(path), i;
	u64 most = 0, pkts;

	for (i = 0; i < 2; i++) {
		if (!path->round[i].us || path->round[i].silent_us <= floor_us)
			continue;
		pkts = (u64)path->round[i].pkts * path->round[i].silent_us / path->round[i].us;
		if (pkts > most)
			most = pkts;
	}
	return most > DELAYED_PKTS ? most - DELAYED_PKTS : 0;
}

/*
 * The window was just cut to @window, near the path's bandwidth-delay product: watch the effect.
 * Where few packets fill the path, such a window still holds a queue, which tells nothing.
 */
void mutant_path_cut(struct mutant_path *path, u32 window, u32 delivered, u32 in_flight)
{
	u32 floor_us = mutant_path_floor_us(path), rtt_us = path->round_min_us;
	u32 hardly_us, i;
	u64 queued_us = ROUND_US_MAX, us;

	/* A flow with a small window waits most of a round trip for its first ACK. */
	if (rtt_us == MUTANT_RTT_UNKNOWN)
		rtt_us = path->last_min_us;
	if (path->cut_long_us || rtt_us == MUTANT_RTT_UNKNOWN ||
	    rtt_us <= floor_us + floor_us / 4)
		return;
	hardly_us = floor_us + (rtt_us - floor_us) / 4 * 3;
	/* The time of the window at the rate of the faster round trip, and a quarter. */
	for (i = 0; i < 2; i++) {
		if (!path->round[i].us || !path->round[i].pkts)
			continue;
		us = (u64)window * path->round[i].us / path->round[i].pkts * 5 / 4;
		if (us < queued_us)
			queued_us = us;
	}
	path->cut_long_us = queued_us > hardly_us ? queued_us : hardly_us;
	path->cut_min_us = MUTANT_RTT_UNKNOWN;
	path->cut_end = delivered + in_flight;
}

/*
 * The window with which the next arm begins. @ssthresh gets its threshold where that changes.
 * @own_model: the arm sets its window by a model of its own (BBR's), and only has to let the queue
 * go. An unknown path changes nothing.
 */
u32 mutant_handover_window(const struct mutant_path *path, u32 mode, u32 window, u32 in_flight,
			   bool own_model, u32 *ssthresh)
{
	u32 bdp = mutant_path_bdp(path), drained;

	bdp += mutant_path_turn(path);
	if (!bdp || mode == MUTANT_HANDOVER_MODE_AS_IS)
		return window;
	drained = 2ULL * bdp > (u64)in_flight + MUTANT_HANDOVER_MIN ?
		  2ULL * bdp - in_flight : MUTANT_HANDOVER_MIN;
	if ((own_model || mode == MUTANT_HANDOVER_MODE_DRAIN) && in_flight > bdp) {
		if (!own_model && *ssthresh > bdp)
			*ssthresh = bdp > 2 ? bdp : 2;
		return window < drained ? window : drained;
	}
	if (own_model || window <= bdp + MUTANT_HANDOVER_MIN)
		return window;
	window = bdp + MUTANT_HANDOVER_MIN;
	if (*ssthresh > window)
		*ssthresh = window;
	return window;
}
