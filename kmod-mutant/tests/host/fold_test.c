// SPDX-License-Identifier: GPL-2.0-only
/* The fold and its credit epochs against plain models of what they promise. */
#include "mutant_fold.h"
#include "tests.h"

/* A flow as the module holds it, without the socket. */
struct flow {
	struct mutant_epochs epochs;
	struct mutant_epoch ring[MUTANT_EPOCHS];
	struct mutant_counters last;
	struct mutant_step step[2];
	struct mutant_sample sample;
	u32 in_flight;
	u32 number;
};

static void flow_start(struct flow *f, u8 arm)
{
	memset(f, 0, sizeof(*f));
	mutant_epochs_init(&f->epochs, arm);
	f->number = 1;
	f->sample.now_us = 5000000;
	f->sample.srtt_us = 20000;
}

static struct mutant_step *flow_step(struct flow *f)
{
	struct mutant_step *step = &f->step[f->number & 1];

	if (step->number != f->number)
		mutant_step_open(step, &f->step[~f->number & 1], f->number);
	return step;
}

static void flow_ack(struct flow *f, u64 gap_us, s64 rtt_us, u32 delivered, u32 lost)
{
	f->sample.now_us += gap_us;
	f->sample.rtt_us = rtt_us;
	f->sample.delivered += delivered;
	f->sample.lost += lost;
	f->sample.acked_bytes += 1448ULL * delivered;
	mutant_fold(flow_step(f), &f->epochs, &f->last, &f->sample);
	mutant_fold_levels(&flow_step(f)->rec, f->sample.srtt_us / 2, lost, f->in_flight);
}

static void flow_switch(struct flow *f, u8 arm)
{
	if (!f->epochs.mask)
		mutant_epochs_extend(&f->epochs, f->ring);
	mutant_epoch_begin(&f->epochs, arm, f->sample.now_us);
}

static void flow_close(struct flow *f, struct mutant_record *rec)
{
	mutant_step_read(flow_step(f), rec);
	f->number++;
}

static void test_statistics(void)
{
	struct mutant_record rec;
	struct flow f;

	flow_start(&f, 1);
	f.sample.rate = 1000;
	f.in_flight = 7;
	flow_ack(&f, 100, 30000, 2, 0);
	f.sample.rate = 3000;
	f.in_flight = 5;
	flow_ack(&f, 200, -1, 3, 1);
	f.sample.rate = 2000;
	f.in_flight = 9;
	flow_ack(&f, 300, 10000, 1, 0);
	flow_close(&f, &rec);
	CHECK(rec.samples == 3 && rec.rtt_samples == 2);
	CHECK(rec.rtt_stat.min == 10000 && rec.rtt_stat.max == 30000 && rec.rtt_stat.sum == 40000);
	CHECK(rec.throughput_stat.min == 1000 && rec.throughput_stat.max == 3000);
	CHECK(rec.throughput_stat.sum == 6000);
	CHECK(rec.in_flight_stat.min == 5 && rec.in_flight_stat.max == 9);
	CHECK(rec.in_flight_stat.sum == 21);
	CHECK(rec.mdev_stat.max == 10000 && rec.mdev_stat.sum == 30000);
	CHECK(rec.lost_out_stat.min == 0 && rec.lost_out_stat.max == 1 && rec.lost_out_stat.sum == 1);
	CHECK(rec.srtt_stat.min == 20000 && rec.srtt_stat.sum == 60000);
	CHECK(rec.delivered == 6 && rec.lost == 1 && rec.acked_bytes == 6 * 1448);
	CHECK(rec.rtt_us == 10000);
	CHECK(rec.credit[0].arm == 1 && rec.credit[0].samples == 3);
	CHECK(rec.credit[0].rtt_samples == 2 && rec.credit[0].rtt_us_min == 10000);
	CHECK(rec.credit[0].rtt_us_sum == 40000);
	/* No ACK came before the first. */
	CHECK(rec.credit[0].time_ns == 500 * 1000);
	CHECK(rec.credit[1].arm == 0);
}

static void test_empty_minima_are_zero(void)
{
	struct mutant_record rec;
	struct flow f;

	flow_start(&f, 1);
	flow_close(&f, &rec);
	CHECK(!rec.samples && !rec.rtt_stat.min && !rec.srtt_stat.min && !rec.mdev_stat.min);
	CHECK(!rec.lost_out_stat.min && !rec.in_flight_stat.min && !rec.throughput_stat.min);
	flow_ack(&f, 100, -1, 1, 0);
	flow_close(&f, &rec);
	CHECK(rec.samples == 1 && !rec.rtt_samples && !rec.rtt_stat.min && !rec.rtt_stat.max);
	CHECK(rec.credit[0].samples == 1 && !rec.credit[0].rtt_us_min);
}

static void test_totals_go_on_and_sums_start_anew(void)
{
	struct mutant_record rec;
	struct flow f;
	u64 delivered = 0, total = 0;
	int step, ack;

	flow_start(&f, 1);
	for (step = 0; step < 50; step++) {
		for (ack = 0; ack < step % 4; ack++) {
			u32 n = random_below(10);

			flow_ack(&f, 500, 20000, n, n / 4);
			total += n;
		}
		flow_close(&f, &rec);
		delivered += rec.delivered;
		CHECK(rec.samples == (u64)(step % 4));
		CHECK(rec.total_delivered == total && delivered == total);
		CHECK(rec.total_acked_bytes == 1448 * total);
	}
}

static void test_counters_wrap(void)
{
	struct mutant_record rec;
	struct flow f;

	flow_start(&f, 1);
	f.last.delivered = 0xfffffff0;
	f.last.lost = 0xffffffff;
	f.last.retrans = 0xffffffff;
	f.sample.delivered = f.last.delivered;
	f.sample.lost = f.last.lost;
	f.sample.retrans = f.last.retrans;
	f.sample.retrans += 2;
	flow_ack(&f, 100, 20000, 0x20, 3);
	flow_close(&f, &rec);
	CHECK(rec.delivered == 0x20 && rec.lost == 3 && rec.retrans == 2);
	CHECK(rec.total_delivered == 0x20 && rec.total_lost == 3 && rec.total_retrans == 2);
}

static void test_credit_goes_to_the_arm_that_sent(void)
{
	struct mutant_record rec;
	struct flow f;

	flow_start(&f, 1);
	flow_ack(&f, 1000, 20000, 1, 0);
	flow_switch(&f, 2);
	/* Sent 19 ms before the switch, then 1 us before it, then at the switch itself. */
	flow_ack(&f, 1000, 20000, 2, 0);
	flow_ack(&f, 18999, 20000, 4, 0);
	flow_ack(&f, 1, 20000, 8, 0);
	flow_close(&f, &rec);
	CHECK(rec.credit[0].arm == 1 && rec.credit[0].epoch == 0);
	CHECK(rec.credit[0].samples == 3 && rec.credit[0].delivered == 7);
	CHECK(rec.credit[0].time_ns == 19999 * 1000);
	CHECK(rec.credit[1].arm == 2 && rec.credit[1].epoch == 1);
	CHECK(rec.credit[1].samples == 1 && rec.credit[1].delivered == 8);
	CHECK(rec.credit[1].time_ns == 1000);
	CHECK(rec.credit[2].arm == 0);
}

/* An older epoch may get a sample after a younger one did; the slots stay in order. */
static void test_slots_are_in_order(void)
{
	struct mutant_record rec;
	struct flow f;

	flow_start(&f, 1);
	flow_ack(&f, 1000, 1000, 1, 0);
	flow_switch(&f, 2);
	flow_ack(&f, 10000, 1000, 2, 0);
	flow_switch(&f, 3);
	flow_ack(&f, 10000, 1000, 4, 0);
	flow_close(&f, &rec);
	flow_ack(&f, 1000, 1000, 1, 0);
	flow_ack(&f, 0, 22000, 2, 0);
	flow_ack(&f, 0, 15000, 4, 0);
	flow_ack(&f, 0, 1000, 8, 0);
	flow_close(&f, &rec);
	CHECK(rec.credit[0].arm == 1 && rec.credit[0].delivered == 2);
	CHECK(rec.credit[1].arm == 2 && rec.credit[1].delivered == 4);
	CHECK(rec.credit[2].arm == 3 && rec.credit[2].delivered == 9);
	CHECK(rec.credit[3].arm == 0);
}

static void test_fifth_epoch_takes_the_oldest_slot(void)
{
	struct mutant_record rec;
	struct flow f;
	u8 arm;

	flow_start(&f, 1);
	for (arm = 2; arm <= 6; arm++) {
		flow_ack(&f, 10000, 1000, 1, 0);
		flow_switch(&f, arm);
	}
	flow_ack(&f, 10000, 1000, 1, 0);
	/* It is older than all that have a slot: nobody's credit, but still a sample. */
	flow_ack(&f, 0, 60000, 1, 0);
	flow_close(&f, &rec);
	CHECK(rec.credit[0].arm == 3 && rec.credit[1].arm == 4);
	CHECK(rec.credit[2].arm == 5 && rec.credit[3].arm == 6);
	CHECK(rec.credit[3].samples == 1);
	CHECK(rec.samples == 7 && rec.delivered == 7);
}

static void test_ring_forgets(void)
{
	struct mutant_record rec;
	struct flow f;
	int i;

	flow_start(&f, 1);
	for (i = 0; i < 1000; i++) {
		f.sample.now_us += 10000;
		flow_switch(&f, 1 + i % 11);
	}
	/* 127 epochs of 10 ms are known, the one in progress included; its length is 0 so far. */
	flow_ack(&f, 0, 1270000, 1, 0);
	flow_close(&f, &rec);
	CHECK(rec.credit[0].arm && rec.credit[0].epoch == 1000 - 127);
	flow_ack(&f, 0, 1270001, 1, 0);
	flow_close(&f, &rec);
	CHECK(rec.samples == 1 && !rec.credit[0].arm);
	flow_ack(&f, 0, 800000, 1, 0);
	flow_close(&f, &rec);
	CHECK(rec.credit[0].epoch == 1000 - 80 && rec.credit[0].arm == 1 + (1000 - 80 - 1) % 11);
}

/* What a step should credit: samples by epoch, the youngest MUTANT_CREDITS_MAX epochs of them. */
struct model {
	u32 used;
	u32 epoch[MUTANT_CREDITS_MAX];
	u64 samples[MUTANT_CREDITS_MAX];
};

static void model_add(struct model *m, u32 epoch)
{
	u32 pos = 0, i;

	while (pos < m->used && m->epoch[pos] < epoch)
		pos++;
	if (pos == m->used || m->epoch[pos] != epoch) {
		if (m->used == MUTANT_CREDITS_MAX) {
			if (!pos)
				return;
			pos--;
			for (i = 0; i < pos; i++) {
				m->epoch[i] = m->epoch[i + 1];
				m->samples[i] = m->samples[i + 1];
			}
		} else {
			for (i = m->used++; i > pos; i--) {
				m->epoch[i] = m->epoch[i - 1];
				m->samples[i] = m->samples[i - 1];
			}
		}
		m->epoch[pos] = epoch;
		m->samples[pos] = 0;
	}
	m->samples[pos]++;
}

/* Random switches, RTTs and steps against a search through the whole history. */
static void test_against_history(void)
{
	static u64 start_us[20000];
	static u8 arms[20000];
	struct mutant_record rec;
	struct model model = { 0 };
	u64 samples = 0, differing = 0;
	u32 newest = 0, at, i, slot;
	struct flow f;

	flow_start(&f, 1);
	arms[0] = 1;
	for (i = 0; i < 200000; i++) {
		u32 rtt_us = 100 + random_below(random_below(4) ? 30000 : 900000);

		flow_ack(&f, 50 + random_below(2000), rtt_us, 1, 0);
		for (at = newest; start_us[at] > f.sample.now_us - rtt_us; at--)
			;
		if (newest - at < MUTANT_EPOCHS)
			model_add(&model, at);
		if (newest < 19999 && !random_below(10)) {
			newest++;
			arms[newest] = 1 + random_below(11);
			start_us[newest] = f.sample.now_us;
			flow_switch(&f, arms[newest]);
		}
		if (random_below(8))
			continue;
		flow_close(&f, &rec);
		samples += rec.samples;
		for (slot = 0; slot < MUTANT_CREDITS_MAX; slot++) {
			const struct mutant_credit *credit = &rec.credit[slot];

			if (slot >= model.used)
				differing += credit->arm != 0;
			else if (credit->epoch != model.epoch[slot] ||
				 credit->samples != model.samples[slot] ||
				 credit->arm != arms[model.epoch[slot]])
				differing++;
		}
		memset(&model, 0, sizeof(model));
	}
	flow_close(&f, &rec);
	CHECK(samples + rec.samples == 200000);
	CHECK(differing == 0);
}

void test_fold(void)
{
	test_statistics();
	test_empty_minima_are_zero();
	test_totals_go_on_and_sums_start_anew();
	test_counters_wrap();
	test_credit_goes_to_the_arm_that_sent();
	test_slots_are_in_order();
	test_fifth_epoch_takes_the_oldest_slot();
	test_ring_forgets();
	test_against_history();
}
