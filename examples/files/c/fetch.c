/* Fetches a file or a folder, and prints how far it is.
 *
 *   fetch tcp://127.0.0.1:5670 /photos/ copy */
#include <inttypes.h>
#include <pinnace.h>
#include <stdio.h>
#include <stdlib.h>

static void check(int worked) {
    if (!worked) {
        fprintf(stderr, "%s\n", pinnace_files_error());
        exit(1);
    }
}

static pinnace_files_client_t *connect_to(const char *endpoint) {
    pinnace_files_client_options_t *options = pinnace_files_client_options_new(endpoint);
    check(options != NULL);
    pinnace_files_client_t *client = pinnace_files_client_connect(options);
    check(client != NULL);
    pinnace_files_client_options_destroy(options);
    return client;
}

int main(int count, char **words) {
    if (count != 4)
        return 2;
    pinnace_files_client_t *client = connect_to(words[1]);
    /* With a slash at the end of the path, what is in the folder goes to the target; without, the folder itself. */
    pinnace_files_transfer_t *transfer = pinnace_files_get(client, words[2], words[3], NULL);
    check(transfer != NULL);
    pinnace_files_event_t event = {.size = sizeof event};
    uint64_t bytes = 0, failed = 1;
    int found;
    while ((found = pinnace_files_transfer_next_event(transfer, &event, -1)) == 1) {
        switch (event.kind) {
        case PINNACE_FILES_PROGRESS:
            fprintf(stderr, "\r%" PRIu64 " bytes", bytes += event.bytes);
            break;
        case PINNACE_FILES_FINISHED:
            puts(event.path);
            break;
        case PINNACE_FILES_FAILED: /* the others go on */
            printf("%s: %s\n", event.path, event.text);
            break;
        case PINNACE_FILES_ENDED:
            failed = event.failed;
            printf("result files=%" PRIu64 " failed=%" PRIu64 "\n", event.files, event.failed);
            break;
        case PINNACE_FILES_ABORTED: /* what has arrived stays, and the next transfer goes on from there */
            fprintf(stderr, "%s\n", event.text);
            break;
        default:
            break;
        }
    }
    check(found == 0);
    pinnace_files_transfer_close(transfer);
    pinnace_files_client_close(client);
    return failed > 0;
}
