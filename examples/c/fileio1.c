/* This Source Code Form is subject to the terms of the Mozilla Public License, v. 2.0. If a copy of the MPL was
 * not distributed with this file, You can obtain one at https://mozilla.org/MPL/2.0/. */

/* fileio1 [OPTION]... FILE: the first file transfer of the ZeroMQ Guide. The client asks once, and the server sends the
 * whole file, chunk after chunk, as fast as it can read.
 *
 * This is the simplest way, and there is no round trip to wait for. Its flaw is memory: nothing makes the server wait
 * for the client, so what the connection has not yet taken is queued in the server, at worst the whole file for each
 * client. A high-water mark is no remedy, because a ROUTER at its mark discards: with --hwm 1000 and many thousand
 * chunks the report shows that some are missing. */

#include "transfer.h"

static void answer(Server *server, uint64_t offset, uint64_t size) {
    while (offset < server->file_size) {
        server_send(server, offset, size);
        offset += size;
    }
}

static void fetch(Client *client) {
    if (client->ended || !client_ask(client, 0))
        return;
    while (!client->ended && client_take(client))
        continue;
}

int main(int argc, char *argv[]) {
    const Model model = {
        .defaults = {.program = "fileio1", .chunk = 250000, .pipeline = 0, .hwm = 0},
        .client_hwm = 1000,
        .answer = answer,
        .fetch = fetch,
    };
    return transfer_main(&model, argc, argv);
}
