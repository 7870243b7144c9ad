/* Two hosts: a shop on one of them takes orders, and billing on the other bills them. They find each other through a
 * Redis server and talk over TCP, encrypted with CURVE. docs/delivery-first-hosts.md has the steps.
 *
 *   two_hosts shop REGISTRY ENDPOINT KEYS
 *   two_hosts billing REGISTRY ENDPOINT KEYS
 *
 * The shop sends each line of its standard input as an order. Billing bills the orders that are numbers, until a signal
 * ends it. An order at which it has failed three times becomes a dead letter of the shop. KEYS is the directory of the
 * certificates. */
#include <pinnace.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST 1024

static void checked(int result) {
    if (result < 0) {
        fprintf(stderr, "%s\n", pinnace_client_error());
        exit(1);
    }
}

static void report(int error, const char *text, void *arg) {
    (void)error, (void)arg;
    fprintf(stderr, "%s\n", text);
}

static pinnace_client_t *start(const char *own, const char *topic, const char *other, char **place) {
    char own_cert[LONGEST], other_cert[LONGEST];
    snprintf(own_cert, sizeof own_cert, "%s/%s_secret", place[2], own);
    snprintf(other_cert, sizeof other_cert, "%s/%s", place[2], other);
    pinnace_client_options_t *options = pinnace_client_options_new(own, topic);
    checked(pinnace_client_options_set(options, "registry", place[0]));
    checked(pinnace_client_options_set(options, "listen", place[1]));
    checked(pinnace_client_options_set(options, "max_deliveries", "3"));
    checked(pinnace_client_options_cert(options, own_cert));
    checked(pinnace_client_options_trust_file(options, other, other_cert));
    pinnace_client_t *client = pinnace_client_start(options);
    checked(client == NULL ? -1 : 0);
    pinnace_client_options_destroy(options);
    checked(pinnace_client_on_error(client, report, NULL));
    return client;
}

static void shop(char **place) {
    pinnace_client_t *shop = start("shop", "orders", "billing", place);
    char order[LONGEST];
    while (fgets(order, sizeof order, stdin) != NULL) {
        order[strcspn(order, "\n")] = '\0';
        checked(pinnace_client_send_to(shop, "invoices", order, strlen(order)));
        /* It is on this host's disk. It waits there until billing has handled it. */
        printf("accepted %s\n", order);
        fflush(stdout);
    }
    checked(pinnace_client_close(shop));
}

static int bill(pinnace_delivery_t *order, void *arg) {
    (void)arg;
    char text[LONGEST], *end;
    const int size = (int)pinnace_delivery_size(order);
    snprintf(text, sizeof text, "%.*s", size, (const char *)pinnace_delivery_body(order));
    const unsigned long number = strtoul(text, &end, 10);
    if (end == text || *end != '\0')
        return PINNACE_FAIL; /* it is delivered again */
    printf("billed %lu\n", number);
    fflush(stdout);
    return PINNACE_ACK;
}

int main(int count, char **words) {
    const char *role = count == 5 ? words[1] : "";
    if (strcmp(role, "shop") == 0) {
        shop(words + 2);
    } else if (strcmp(role, "billing") == 0) {
        checked(pinnace_client_run(start("billing", "invoices", "shop", words + 2), bill, NULL));
    } else {
        fprintf(stderr, "two_hosts shop|billing REGISTRY ENDPOINT KEYS\n");
        return 1;
    }
}
