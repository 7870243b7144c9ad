/* This Source Code Form is subject to the terms of the Mozilla Public License, v. 2.0. If a copy of the MPL was
 * not distributed with this file, You can obtain one at https://mozilla.org/MPL/2.0/. */

/* Kept for programs that still include it: stopwatches, threads and keys are declared in zmq.h. */

#ifndef PINNACE_ZMQ_UTILS_H
#define PINNACE_ZMQ_UTILS_H

#include "zmq.h"

#endif /* PINNACE_ZMQ_UTILS_H */
