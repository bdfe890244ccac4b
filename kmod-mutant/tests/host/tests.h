/* SPDX-License-Identifier: GPL-2.0-only */
/* What the host tests share. */
#ifndef _TESTS_H
#define _TESTS_H

#include <stdio.h>

#include "kernel.h"

extern unsigned int passed, failed;

#define CHECK(condition)							\
	do {									\
		if (condition) {						\
			passed++;						\
		} else {							\
			failed++;						\
			printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);	\
		}								\
	} while (0)

u32 random_below(u32 limit);

void test_control(void);
void test_cubic(void);
void test_echoes(void);
void test_fold(void);
void test_gaps(void);
void test_laws(void);
void test_lives(void);
void test_back(void);
void test_path(void);
void test_pulses(void);
void test_resume(void);
void test_steps(void);
void test_visits(void);

#endif /* _TESTS_H */
