// SPDX-License-Identifier: Apache-2.0
/* The web client of one address. */
#define _GNU_SOURCE
#include "../link/browser.h"
