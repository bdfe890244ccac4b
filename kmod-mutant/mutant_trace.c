// SPDX-License-Identifier: GPL-2.0-only
/* The tracepoints of mutant_trace.h. */
#define CREATE_TRACE_POINTS
#include "mutant_trace.h"
