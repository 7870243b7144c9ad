/* This Source Code Form is subject to the terms of the Mozilla Public License, v. 2.0. If a copy of the MPL was
 * not distributed with this file, You can obtain one at https://mozilla.org/MPL/2.0/. */

#define _GNU_SOURCE
#include "transfer_options.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ENDPOINT = 1, CHUNK, PIPELINE, HWM, OUT, WAIT, ROLE, HELP };

static const struct option NAMES[] = {
    {"endpoint", required_argument, NULL, ENDPOINT}, {"chunk", required_argument, NULL, CHUNK},
    {"pipeline", required_argument, NULL, PIPELINE}, {"hwm", required_argument, NULL, HWM},
    {"out", required_argument, NULL, OUT},           {"wait", required_argument, NULL, WAIT},
    {"role", required_argument, NULL, ROLE},         {"help", no_argument, NULL, HELP},
    {NULL, 0, NULL, 0},
};

static void usage(FILE *to, const Options *options) {
    fprintf(to,
            "usage: %s [OPTION]... FILE\n"
            "  --endpoint tcp|ipc|ADDRESS  where server and client meet (tcp)\n"
            "  --chunk BYTES               bytes of the file in one message (%" PRIu64 ")\n",
            options->program, options->chunk);
    if (options->pipeline > 1)
        fprintf(to, "  --pipeline N                requests under way (%" PRIu64 ")\n", options->pipeline);
    fprintf(to, "  --hwm N                     high-water mark of the server's socket, 0 for none (%s)\n",
            options->hwm < 0 ? "the pipeline" : "0");
    fprintf(to, "  --out FILE                  write the data there, do not discard it\n"
                "  --wait SECONDS              give up when nothing arrives for so long (5)\n"
                "  --role server|client        run only this side; the client needs no FILE\n");
}

static void refuse(const Options *options, const char *what, const char *text) {
    fprintf(stderr, "%s: %s: %s\n", options->program, what, text);
    exit(2);
}

/* Digits alone: no sign, no blank, no unit. */
static uint64_t number(const Options *options, const char *name, const char *text, uint64_t least, uint64_t most) {
    char *end = NULL;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (!*text || strspn(text, "0123456789") != strlen(text) || errno || value < least || value > most) {
        fprintf(stderr, "%s: --%s: not a whole number from %" PRIu64 " to %" PRIu64 ": %s\n", options->program, name,
                least, most, text);
        exit(2);
    }
    return value;
}

static Role role_of(const Options *options, const char *text) {
    if (strcmp(text, "server") && strcmp(text, "client"))
        refuse(options, "--role is server or client, not", text);
    return strcmp(text, "server") == 0 ? ROLE_SERVER : ROLE_CLIENT;
}

static const char *endpoint_of(const Options *options, const char *text) {
    int is_address = strstr(text, "://") && strncmp(text, "inproc:", 7);
    if (!is_address && strcmp(text, "tcp") && strcmp(text, "ipc"))
        refuse(options, "--endpoint is tcp, ipc or an address that two processes can share, not", text);
    return text;
}

Options options_parse(const Options *defaults, int argc, char *argv[]) {
    Options chosen = *defaults;
    chosen.endpoint = "tcp";
    chosen.wait_ms = 5000;
    for (int name; (name = getopt_long(argc, argv, "", NAMES, NULL)) != -1;) {
        if (name == ENDPOINT)
            chosen.endpoint = endpoint_of(defaults, optarg);
        else if (name == CHUNK)
            chosen.chunk = number(defaults, "chunk", optarg, 1, CHUNK_MAX);
        else if (name == PIPELINE && defaults->pipeline < 2)
            refuse(defaults, "this model has no --pipeline", optarg);
        else if (name == PIPELINE)
            chosen.pipeline = number(defaults, "pipeline", optarg, 1, PIPELINE_MAX);
        else if (name == HWM)
            chosen.hwm = (int)number(defaults, "hwm", optarg, 0, 1000000);
        else if (name == OUT)
            chosen.out = optarg;
        else if (name == WAIT)
            chosen.wait_ms = 1000 * (int)number(defaults, "wait", optarg, 1, 3600);
        else if (name == ROLE)
            chosen.role = role_of(defaults, optarg);
        else {
            usage(name == HELP ? stdout : stderr, defaults);
            exit(name == HELP ? 0 : 2);
        }
    }
    int files = argc - optind;
    if (files != (chosen.role == ROLE_CLIENT ? 0 : 1)) {
        fprintf(stderr, "%s: %s\n", defaults->program,
                chosen.role == ROLE_CLIENT ? "the client's role takes no FILE" : "one FILE is needed");
        usage(stderr, defaults);
        exit(2);
    }
    if (chosen.out && chosen.role == ROLE_SERVER)
        refuse(defaults, "--out belongs to the client", chosen.out);
    chosen.file = files ? argv[optind] : NULL;
    chosen.hwm = chosen.hwm < 0 ? (int)chosen.pipeline : chosen.hwm;
    return chosen;
}
