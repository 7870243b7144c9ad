/* load: one workload over any library with libzmq's C ABI.
 *
 *   load stream pattern=push|pub endpoint=E size=BYTES count=N    messages one way; two processes (inproc: threads)
 *   load tail   pattern=push     endpoint=E size=BYTES count=N    the same; the sender exits at once: what is lost?
 *   load round                   endpoint=E size=BYTES count=N    requests and replies: percentiles of round trips
 *   load fan    pattern=push|pub endpoint=E size=BYTES count=N peers=P    one sender, P receiving processes
 *   load turns                   endpoint=E size=BYTES count=N peers=P    over P connections, one message each in turn
 *   load memory                  endpoint=E size=BYTES count=N    private bytes per idle connection, with N connections
 *
 * Options: place=free|split|one   where the two sides run (split: a processor each; one: both on one)
 *          security=null|curve
 *          spin=auto|never         whether a waiting thread may spin before it sleeps (only Pinnace spins)
 *          watch=MS      a thread reads the statistics of each socket at this interval (only Pinnace has statistics)
 *          fault=wrong|torn|lost|twice:K   a fault that the sender injects at message K, to test that it is detected
 *
 * LD_LIBRARY_PATH chooses the library; the result line names the file that was loaded. Endpoints may have wildcards
 * (tcp://127.0.0.1:*). Messages have their number in them and are checked on receipt (load/stamp.h).
 * On success the program prints one line of key=value pairs; cpu_s is user and system time of all sides.
 * Exit status: 0 good, 1 the library refused something or a tail was lost, 2 usage, 3 a message was wrong.
 */
#include "load/load.h"

#include "load/stamp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Noreturn void usage(const char *what)
{
    fprintf(stderr,
            "load: %s\n"
            "usage: load stream|tail|round|fan|turns|memory [pattern=push|pub] endpoint=E size=BYTES count=N\n"
            "            [peers=P] [place=free|split|one] [security=null|curve] [spin=auto|never]\n"
            "            [watch=MS] [fault=wrong|torn|lost|twice:K]\n",
            what);
    exit(2);
}

/* The index of `word` in a list that ends with NULL. Exits if it is not in the list. */
static int word_in(const char *const *words, const char *word)
{
    for (int index = 0; words[index] != NULL; index++)
        if (strcmp(words[index], word) == 0)
            return index;
    usage(word);
}

static uint64_t number_in(const char *text)
{
    char *end;
    uint64_t number = strtoull(text, &end, 10);
    if (*text == '\0' || *end != '\0')
        usage(text);
    return number;
}

static void set_fault(struct plan *plan, char *value)
{
    static const char *const faults[] = {"none", "wrong", "torn", "lost", "twice", NULL};
    char *colon = strchr(value, ':');
    if (colon == NULL)
        usage("fault=KIND:NUMBER");
    *colon = '\0';
    plan->fault = (enum fault)word_in(faults, value);
    plan->fault_at = number_in(colon + 1);
}

static void set(struct plan *plan, const char *key, char *value)
{
    static const char *const keys[] = {"pattern", "endpoint", "size",     "count", "peers",
                                       "place",   "fault",    "security", "watch", "spin",  NULL};
    static const char *const patterns[] = {"push", "pub", NULL}, *const places[] = {"free", "split", "one", NULL};
    static const char *const securities[] = {"null", "curve", NULL}, *const spins[] = {"auto", "never", NULL};
    switch (word_in(keys, key)) {
    case 0:
        plan->pattern = (enum pattern)word_in(patterns, value);
        plan->pattern_name = value;
        break;
    case 1:
        plan->endpoint = value;
        break;
    case 2:
        plan->size = (size_t)number_in(value);
        break;
    case 3:
        plan->count = number_in(value);
        break;
    case 4:
        plan->peers = (unsigned)number_in(value);
        break;
    case 5:
        plan->place = (enum place)word_in(places, value);
        break;
    case 6:
        set_fault(plan, value);
        break;
    case 7:
        plan->curve = word_in(securities, value) == 1;
        break;
    case 8:
        plan->watch_ms = (unsigned)number_in(value);
        break;
    case 9:
        plan->never_spins = word_in(spins, value) == 1;
        break;
    }
}

int main(int argc, char **argv)
{
    static const char *const kinds[] = {"stream", "tail", "round", "fan", "turns", "memory", NULL};
    static int (*const runs[])(const struct plan *) = {run_stream, run_tail,  run_round,
                                                       run_fan,    run_turns, run_memory};
    struct plan plan = {.pattern = PATTERN_PUSH, .pattern_name = "push", .peers = 1};
    if (argc < 2)
        usage("what?");
    int kind = word_in(kinds, argv[1]);
    for (int index = 2; index < argc; index++) {
        char *equals = strchr(argv[index], '=');
        if (equals == NULL)
            usage(argv[index]);
        *equals = '\0';
        set(&plan, argv[index], equals + 1);
    }
    if (runs[kind] == run_round) {
        plan.pattern = PATTERN_REQ;
        plan.pattern_name = "req";
    }
    if (plan.endpoint == NULL || plan.size < STAMP_BYTES || plan.count < 2)
        usage("endpoint, size (8 or more) and count (2 or more) are needed");
    return runs[kind](&plan);
}
