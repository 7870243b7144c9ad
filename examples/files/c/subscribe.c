/* Subscribes to a folder: fetches it, and then whatever changes in it, until the program is stopped.
 *
 *   subscribe tcp://127.0.0.1:5670 /photos/ copy */
#include <errno.h>
#include <pinnace.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

static void check(int worked) {
    if (!worked) {
        fprintf(stderr, "%s\n", pinnace_files_error());
        exit(1);
    }
}

static void print(const pinnace_files_event_t *event) {
    switch (event->kind) {
    case PINNACE_FILES_CURRENT:
        puts("current");
        break;
    case PINNACE_FILES_FINISHED:
        printf("changed %s\n", event->path);
        break;
    case PINNACE_FILES_REMOVED:
        printf("removed %s\n", event->path);
        break;
    case PINNACE_FILES_MOVED:
        printf("moved %s to %s\n", event->path, event->other);
        break;
    case PINNACE_FILES_FAILED:
        printf("%s: %s\n", event->path, event->text);
        break;
    case PINNACE_FILES_ABORTED:
        fprintf(stderr, "%s\n", event->text);
        break;
    default:
        break;
    }
    fflush(stdout);
}

int main(int count, char **words) {
    if (count != 4)
        return 2;
    pinnace_files_client_options_t *options = pinnace_files_client_options_new(words[1]);
    check(options != NULL);
    pinnace_files_client_t *client = pinnace_files_client_connect(options);
    check(client != NULL);
    pinnace_files_client_options_destroy(options);

    /* A mirror: what the server removes is removed here too. */
    pinnace_files_rules_t *rules = pinnace_files_rules_new();
    check(rules != NULL && pinnace_files_rules_set(rules, "deletion", "1") == 0);
    pinnace_files_transfer_t *transfer = pinnace_files_follow(client, words[2], words[3], rules);
    check(transfer != NULL);
    pinnace_files_rules_destroy(rules);

    /* The descriptor could be one of many in an event loop. */
    struct pollfd item = {.fd = pinnace_files_transfer_fd(transfer), .events = POLLIN};
    pinnace_files_event_t event = {.size = sizeof event};
    int found;
    check(item.fd >= 0);
    do {
        poll(&item, 1, -1);
        while ((found = pinnace_files_transfer_next_event(transfer, &event, 0)) == 1)
            print(&event);
    } while (found < 0 && errno == EAGAIN);
    check(found == 0);
    /* The transfer has ended by itself: there is no server, or it refuses this client. */
    pinnace_files_transfer_close(transfer);
    pinnace_files_client_close(client);
    return 1;
}
