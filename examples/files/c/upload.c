/* Uploads a file or a folder to a server that was started with a writable folder.
 *
 *   upload tcp://127.0.0.1:5670 new/ /photos/new */
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

int main(int count, char **words) {
    if (count != 4)
        return 2;
    pinnace_files_client_options_t *options = pinnace_files_client_options_new(words[1]);
    check(options != NULL);
    pinnace_files_client_t *client = pinnace_files_client_connect(options);
    check(client != NULL);
    pinnace_files_client_options_destroy(options);

    /* Temporary files stay here. */
    pinnace_files_rules_t *rules = pinnace_files_rules_new();
    check(rules != NULL && pinnace_files_rules_exclude(rules, "*.tmp") == 0);
    pinnace_files_transfer_t *transfer = pinnace_files_put(client, words[2], words[3], rules);
    check(transfer != NULL);
    pinnace_files_rules_destroy(rules);

    pinnace_files_report_t report = {.size = sizeof report};
    check(pinnace_files_transfer_wait(transfer, &report, -1) == 0);
    pinnace_files_failure_t failure = {.size = sizeof failure};
    for (size_t at = 0; pinnace_files_transfer_failure(transfer, at, &failure) == 0; at++)
        printf("%s: %s\n", failure.path, failure.text);
    printf("result files=%" PRIu64 " failed=%" PRIu64 "\n", report.files, report.failed);
    pinnace_files_transfer_close(transfer);
    pinnace_files_client_close(client);
    return report.failed > 0;
}
