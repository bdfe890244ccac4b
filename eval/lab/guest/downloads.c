// SPDX-License-Identifier: Apache-2.0
/* The web client whose downloads each have an address and a port of their own. */
#define _GNU_SOURCE
#define MANY_CLIENTS
#include "../link/browser.h"
