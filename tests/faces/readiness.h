/* The commands of the C driver for the readiness descriptor and for what is given back; included by driver.c, whose
 * functions they use. */
#include <poll.h>

static void poll_client(int count, char **words) {
    (void)count;
    struct pollfd one = {pinnace_client_fd(client(words[1])), POLLIN, 0};
    if (one.fd < 0)
        refused();
    else
        printf("number %d\n", poll(&one, 1, atoi(words[2])));
}

static void give_back(int count, char **words) {
    (void)count;
    answer(pinnace_delivery_give_back(deliveries[atoi(words[1])]));
}
