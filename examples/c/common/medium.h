/* This Source Code Form is subject to the terms of the Mozilla Public License, v. 2.0. If a copy of the MPL was
 * not distributed with this file, You can obtain one at https://mozilla.org/MPL/2.0/. */

/* The medium that carries a socket's messages, if the library can tell. */

#ifndef MEDIUM_H
#define MEDIUM_H

/* The medium to the socket's first peer, as Pinnace reports it: "memory" or "socket"; "-" if it is unknown. */
const char *medium_of(void *socket);

#endif
