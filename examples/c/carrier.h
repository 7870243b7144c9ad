/* This Source Code Form is subject to the terms of the Mozilla Public License, v. 2.0. If a copy of the MPL was
 * not distributed with this file, You can obtain one at https://mozilla.org/MPL/2.0/. */

/* How a library moves messages, where it can say so. */

#ifndef CARRIER_H
#define CARRIER_H

/* How the messages of a socket's first peer move: "memory" or "socket", as Pinnace says; "-" where nobody says. */
const char *carrier_of(void *socket);

#endif
