/* This Source Code Form is subject to the terms of the Mozilla Public License, v. 2.0. If a copy of the MPL was
 * not distributed with this file, You can obtain one at https://mozilla.org/MPL/2.0/. */

/* fileio3 [OPTION]... FILE: the third file transfer of the ZeroMQ Guide. As in fileio2 the client asks for each chunk,
 * but it keeps several requests under way (--pipeline), and each chunk that arrives is the credit for one more.
 *
 * The server never has more to send than the client has asked for, so the pipeline alone bounds its memory, and with
 * enough requests under way the round trips cost nothing.
 *
 * The flaw: as in the Guide, the ROUTER's high-water mark equals the pipeline. That looks like a check that can never
 * fail, and yet libzmq loses chunks with it, without an error on either side:
 *
 *   - libzmq's socket compares what it has put into the queue of a connection with what the I/O thread has reported to
 *     have taken out. The I/O thread reports after each (mark + 1) / 2 messages: with a mark of 10 after each fifth. So
 *     four chunks may have reached the client and still count as queued.
 *   - A report takes effect when the socket handles it: when a call has to wait, else about once a millisecond. Until
 *     then more chunks count as queued.
 *   - The client answers those chunks with new requests. The socket believes that ten chunks are queued, and a ROUTER
 *     at its mark discards.
 *
 * Each lost chunk takes its credit with it, so the pipeline becomes shorter. In the Guide's run that ended the loss
 * after four chunks of 4295. With late reports it can go on until no credit is left. Then the transfer stands still, as
 * it does when the file's last chunk is lost, and the client's deadline ends it.
 *
 * --hwm 0 is correct: the credit is the limit, and needs no second one. A mark of twice the pipeline only makes the
 * loss rare. With ZMQ_ROUTER_MANDATORY the server would get an error instead of a silent loss.
 *
 * Pinnace looks how far the queue has been taken out at the moment when it seems full. A mark as long as the pipeline
 * lost nothing there in hundreds of runs. A shorter one can lose chunks with any library. */

#include "transfer.h"

static void answer(Server *server, uint64_t offset, uint64_t size) { server_send(server, offset, size); }

static void fetch(Client *client) {
    const uint64_t chunk = client->side.options->chunk;
    uint64_t credit = client->side.options->pipeline, offset = 0;

    while (!client->ended) {
        for (; credit > 0 && offset < client->file_size; credit--, offset += chunk)
            if (!client_ask(client, offset))
                return;
        if (!client_take(client))
            return;
        credit++;
    }
}

int main(int argc, char *argv[]) {
    const Model model = {
        .defaults = {.program = "fileio3", .chunk = 250000, .pipeline = 10, .hwm = -1},
        .client_hwm = 1000,
        .answer = answer,
        .fetch = fetch,
    };
    return transfer_main(&model, argc, argv);
}
