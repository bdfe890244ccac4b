/* SPDX-License-Identifier: GPL-2.0-only */
/* What the module's pure logic takes from the kernel, for the host. */
#ifndef _KERNEL_H
#define _KERNEL_H

#include <sched.h>
#include <stdbool.h>
#include <string.h>

#include <linux/mutant.h>

typedef __u8 u8;
typedef __u32 u32;
typedef __s32 s32;
typedef __s64 s64;
typedef __u64 u64;

#define ARRAY_SIZE(array)	(sizeof(array) / sizeof((array)[0]))
#define likely(x)		__builtin_expect(!!(x), 1)
#define unlikely(x)		__builtin_expect(!!(x), 0)

static inline u64 div_u64(u64 dividend, u32 divisor)
{
	return dividend / divisor;
}

/* The highest bit that is set, counted from 1; 0 without one. */
static inline int fls64(u64 x)
{
	return x ? 64 - __builtin_clzll(x) : 0;
}

#define READ_ONCE(x)		__atomic_load_n(&(x), __ATOMIC_RELAXED)
#define WRITE_ONCE(x, value)	__atomic_store_n(&(x), value, __ATOMIC_RELAXED)

/* The barriers are those that the kernel's own names promise. */
#define smp_store_mb(x, value)	__atomic_exchange_n(&(x), value, __ATOMIC_SEQ_CST) /* full */
#define smp_store_release(p, v)	__atomic_store_n(p, v, __ATOMIC_RELEASE) /* release */
#define smp_load_acquire(p)	__atomic_load_n(p, __ATOMIC_ACQUIRE) /* acquire */
#define smp_wmb()		__atomic_thread_fence(__ATOMIC_RELEASE) /* stores before stores */
#define smp_rmb()		__atomic_thread_fence(__ATOMIC_ACQUIRE) /* loads before loads */
#define data_race(expression)	((void)(expression))

#define smp_cond_load_acquire(p, condition)				\
({									\
	__auto_type _p = (p);						\
	__auto_type VAL = __atomic_load_n(_p, __ATOMIC_ACQUIRE);	\
									\
	while (!(condition)) {						\
		sched_yield();						\
		VAL = __atomic_load_n(_p, __ATOMIC_ACQUIRE);		\
	}								\
	VAL;								\
})

/* A latch: its writer changes one copy while readers use the other. */
#define seqcount_latch_t	struct seqcount_latch

struct seqcount_latch {
	u32 sequence;
};

static inline void write_seqcount_latch(seqcount_latch_t *latch)
{
	smp_wmb(); /* the copy before the number */
	WRITE_ONCE(latch->sequence, latch->sequence + 1);
	smp_wmb(); /* the number before the other copy */
}

#define write_seqcount_latch_begin(latch)	write_seqcount_latch(latch)
#define write_seqcount_latch_end(latch)
#define raw_read_seqcount_latch(latch)		smp_load_acquire(&(latch)->sequence) /* acquire */
#define read_seqcount_latch(latch)		raw_read_seqcount_latch(latch)

static inline bool read_seqcount_latch_retry(const seqcount_latch_t *latch, u32 start)
{
	smp_rmb(); /* the copy before the number again */
	return READ_ONCE(latch->sequence) != start;
}

#define preempt_disable()
#define preempt_enable()

#endif /* _KERNEL_H */
