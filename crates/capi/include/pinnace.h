/* This Source Code Form is subject to the terms of the Mozilla Public License, v. 2.0. If a copy of the MPL was
 * not distributed with this file, You can obtain one at https://mozilla.org/MPL/2.0/. */

/* What Pinnace adds to zmq.h. A program that uses it links to libpinnace and no longer runs on libzmq. */

#ifndef PINNACE_H
#define PINNACE_H

#include "zmq.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Pinnace's own version, "major.minor.patch"; static. zmq_version tells which libzmq it stands for. */
const char *pinnace_version(void);

#ifdef __cplusplus
}
#endif

#endif /* PINNACE_H */
