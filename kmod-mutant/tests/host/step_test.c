// SPDX-License-Identifier: GPL-2.0-only
/* One thread writes steps, another closes and looks at them: every sample is in one record. */
#include <pthread.h>
#include <sched.h>

#include "mutant_step.h"
#include "tests.h"

#define CLOSES		500
#define MARKED_SAMPLES	500

struct shared {
	struct mutant_steps steps;
	u64 written;
	bool stop;
	u32 marked;
};

/* The writer: sample n is worth n, so that a lost or doubled one shows in the sum. */
static void *write_steps(void *argument)
{
	struct shared *shared = argument;
	struct mutant_record *rec;
	u64 n;

	for (n = 1; !READ_ONCE(shared->stop); n++) {
		rec = &mutant_step_begin(&shared->steps)->rec;
		rec->samples++;
		rec->acked_bytes += n;
		rec->total_acked_bytes += n;
		mutant_stat_add(&rec->rtt_stat, n);
		rec->rtt_samples++;
		mutant_step_end(&shared->steps);
	}
	shared->written = n - 1;
	return NULL;
}

/* A given number of samples, of which the first of a step marks it, as mutant_index.h says. */
static void *write_marked(void *argument)
{
	struct shared *shared = argument;
	struct mutant_record *rec;
	u32 number, i;
	bool first;
	u64 n;

	for (n = 0; n < MARKED_SAMPLES; n++) {
		rec = &mutant_step_begin(&shared->steps)->rec;
		first = !rec->samples;
		rec->samples++;
		mutant_step_end(&shared->steps);
		if (first)
			smp_store_mb(shared->marked, 1); /* the step before the mark */
		/* Both are to run, however busy the machine is. */
		number = READ_ONCE(shared->steps.number);
		for (i = 0; i < 100 && READ_ONCE(shared->steps.number) == number; i++)
			sched_yield();
	}
	WRITE_ONCE(shared->stop, true);
	return NULL;
}

/* Whoever visits marked steps alone misses none. */
static void test_marks(void)
{
	static struct shared shared;
	struct mutant_record rec;
	bool running = true;
	pthread_t writer;
	u64 samples = 0;

	shared.steps.number = 1;
	if (pthread_create(&writer, NULL, write_marked, &shared)) {
		CHECK(!"no thread");
		return;
	}
	while (running || READ_ONCE(shared.marked)) {
		if (running && READ_ONCE(shared.stop)) {
			pthread_join(writer, NULL);
			running = false;
		}
		if (!READ_ONCE(shared.marked))
			continue;
		/* The mark before the step; the other way round, the next step may lose its own. */
		smp_store_mb(shared.marked, 0);
		sched_yield();
		if (mutant_steps_close(&shared.steps, &rec))
			samples += rec.samples;
	}
	CHECK(samples == MARKED_SAMPLES);
	CHECK(!mutant_steps_close(&shared.steps, &rec));
}

void test_steps(void)
{
	u64 samples = 0, bytes = 0, highest = 0, closes = 0, torn = 0, behind = 0, written;
	static struct shared shared;
	struct mutant_record rec;
	bool running = true;
	pthread_t writer;

	shared.steps.number = 1;
	CHECK(!mutant_steps_close(&shared.steps, &rec));
	if (pthread_create(&writer, NULL, write_steps, &shared)) {
		CHECK(!"no thread");
		return;
	}
	while (running) {
		if (closes == CLOSES) {
			WRITE_ONCE(shared.stop, true);
			pthread_join(writer, NULL);
			running = false;
		}
		mutant_steps_peek(&shared.steps, &rec);
		if (rec.acked_bytes != (rec.samples ? rec.rtt_stat.sum : 0) ||
		    rec.rtt_samples != rec.samples ||
		    rec.total_acked_bytes != bytes + rec.acked_bytes)
			torn++;
		if (!mutant_steps_close(&shared.steps, &rec))
			continue;
		closes++;
		samples += rec.samples;
		bytes += rec.acked_bytes;
		/* The samples of a step are consecutive, and go on where the last step ended. */
		if (rec.rtt_stat.min != highest + 1 || rec.rtt_stat.max != highest + rec.samples)
			torn++;
		if (rec.total_acked_bytes != bytes)
			behind++;
		highest = rec.rtt_stat.max;
	}
	written = shared.written;
	CHECK(samples == written);
	CHECK(bytes == written * (written + 1) / 2);
	CHECK(torn == 0);
	CHECK(behind == 0);
	test_marks();
}
