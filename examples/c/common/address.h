/* This Source Code Form is subject to the terms of the Mozilla Public License, v. 2.0. If a copy of the MPL was
 * not distributed with this file, You can obtain one at https://mozilla.org/MPL/2.0/. */

/* Addresses by the name of their transport, and error exits. */

#ifndef ADDRESS_H
#define ADDRESS_H

/* The address for one word of the command line:
 *   ipc, tcp   a fixed address that the reader binds and the writer connects to; each is started by hand
 *   else       the word itself is the address */
const char *address_to_bind(const char *word);
const char *address_to_connect(const char *word);

/* An unused address of this transport ("ipc", "tcp" or "inproc"), in static memory. For ipc it is in a folder of its
 * own below /tmp, which address_remove removes. */
const char *address_fresh(const char *transport);
void address_remove(void);

/* The part before "://", in static memory; the whole word if it has no "://". */
const char *transport_of(const char *address);

/* Prints "what: reason" of the last zmq error and exits with 1. */
void die(const char *what);

/* Sets an int option or exits. */
void set_option(void *socket, int option, int value);

#endif
