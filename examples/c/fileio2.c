/* This Source Code Form is subject to the terms of the Mozilla Public License, v. 2.0. If a copy of the MPL was
 * not distributed with this file, You can obtain one at https://mozilla.org/MPL/2.0/. */

/* fileio2 [OPTION]... FILE: the second file transfer of the ZeroMQ Guide. The client asks for each chunk by offset and
 * size, and asks for the next one only when it has this one.
 *
 * One chunk is under way at any time, so memory stays small. The client chooses the chunk size, can stop at any chunk
 * and can begin at any offset. The price is a round trip for each chunk, in which neither the connection nor the disk
 * has work. On a long line this is most of the time.
 *
 * The Guide sets the ROUTER's high-water mark to 1 as well. With --hwm 1 libzmq soon loses a chunk, and the client
 * waits in vain until its deadline: the ROUTER may still count the chunk before, which the client has received, as
 * queued. fileio3.c explains why. Hence there is no mark here: one request at a time is limit enough. */

#include "transfer.h"

static void answer(Server *server, uint64_t offset, uint64_t size) { server_send(server, offset, size); }

static void fetch(Client *client) {
    while (!client->ended && client_ask(client, client->next) && client_take(client))
        continue;
}

int main(int argc, char *argv[]) {
    const Model model = {
        .defaults = {.program = "fileio2", .chunk = 250000, .pipeline = 1, .hwm = 0},
        .client_hwm = 1,
        .answer = answer,
        .fetch = fetch,
    };
    return transfer_main(&model, argc, argv);
}
