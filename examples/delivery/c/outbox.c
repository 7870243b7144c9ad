/* An outbox and an inbox in PostgreSQL: each order is billed once, whichever process is killed.
 *
 *   outbox DATABASE create          the tables
 *   outbox DATABASE shop COUNT      orders, each in one transaction with its message
 *   outbox DATABASE relay           sends the messages, until it is killed
 *   outbox DATABASE billing COUNT   bills, each in one transaction with the record of its message
 *
 * DATABASE is a connection string, such as dbname=shop. */
#include <errno.h>
#include <inttypes.h>
#include <libpq-fe.h>
#include <pinnace.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH 100 /* the most rows that the relay sends at once */
#define IDLE_MS 10

static PGconn *database;

static void fail(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

/* Executes a statement with `count` parameters, as text. */
static PGresult *execute(const char *sql, int count, const char *const *parameters) {
    PGresult *result = PQexecParams(database, sql, count, NULL, parameters, NULL, NULL, 0);
    const ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        fail(sql, PQerrorMessage(database));
    return result;
}

/* The same without a result; returns the number of rows that were changed. */
static long change(const char *sql, int count, const char *const *parameters) {
    PGresult *result = execute(sql, count, parameters);
    const long rows = strtol(PQcmdTuples(result), NULL, 10);
    PQclear(result);
    return rows;
}

static void create(void) {
    const char *const tables[] = {"CREATE TABLE orders (number INTEGER PRIMARY KEY)",
                                  "CREATE TABLE bills (place SERIAL PRIMARY KEY, number INTEGER)",
                                  pinnace_cursor_schema()};
    for (size_t at = 0; at < sizeof tables / sizeof *tables; at++)
        change(tables[at], 0, NULL);
    /* Several statements, which PQexecParams does not take. */
    PGresult *result = PQexec(database, pinnace_sql(PINNACE_SQL_OUTBOX_SCHEMA_POSTGRESQL));
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        fail("the outbox", PQerrorMessage(database));
    PQclear(result);
}

static void shop(long count) {
    PGresult *result = execute("SELECT COALESCE(MAX(number), 0) FROM orders", 0, NULL);
    long number = strtol(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    while (number++ < count) {
        char text[32];
        const char *const parameters[] = {text};
        snprintf(text, sizeof text, "%ld", number);
        /* The order and its message are committed together, or neither is. */
        change("BEGIN", 0, NULL);
        change("INSERT INTO orders VALUES ($1)", 1, parameters);
        change("WITH message AS (INSERT INTO pinnace_outbox (topic, body) VALUES ('invoices', $1) RETURNING id)"
               " INSERT INTO pinnace_outbox_headers (row_id, name, value) SELECT id, 'currency', 'EUR' FROM message",
               1, parameters);
        change("COMMIT", 0, NULL);
        printf("%ld\n", number);
    }
}

/* True: the outbox belongs to this client's store, or does from now on. */
static int is_owner(pinnace_client_t *client) {
    const char *const parameters[] = {pinnace_client_store_id(client)};
    change(pinnace_sql(PINNACE_SQL_OUTBOX_CLAIM), 1, parameters);
    PGresult *owner = execute(pinnace_sql(PINNACE_SQL_OUTBOX_OWNER), 0, NULL);
    const int is_ours = PQntuples(owner) == 1 && strcmp(PQgetvalue(owner, 0, 0), parameters[0]) == 0;
    PQclear(owner);
    return is_ours;
}

/* A column of a row as text; NULL if it is NULL. */
static const char *column(const PGresult *rows, int row, int number) {
    return PQgetisnull(rows, row, number) ? NULL : PQgetvalue(rows, row, number);
}

/* Bytes, which the caller frees by PQfreemem. */
static unsigned char *bytes(const PGresult *rows, int row, int number, size_t *size) {
    unsigned char *found = PQunescapeBytea((const unsigned char *)PQgetvalue(rows, row, number), size);
    if (found == NULL)
        fail("the outbox", "out of memory");
    return found;
}

/* Sends a row with the headers that begin at `*next`, without waiting for the disk; -1 and errno as of
 * pinnace_client_send_async. */
static int send_row(pinnace_client_t *client, const PGresult *rows, int row, const PGresult *all, int *next,
                    uint64_t *ticket) {
    pinnace_send_options_t options = PINNACE_SEND_OPTIONS;
    pinnace_header_t headers[65];
    const long long id = atoll(PQgetvalue(rows, row, 0));
    for (; *next < PQntuples(all) && atoll(PQgetvalue(all, *next, 0)) <= id; (*next)++) {
        /* A header of another row; or one too many, by which the client refuses the row. */
        if (atoll(PQgetvalue(all, *next, 0)) < id || options.header_count == 65)
            continue;
        pinnace_header_t *header = &headers[options.header_count++];
        header->key = PQgetvalue(all, *next, 1);
        header->value = bytes(all, *next, 2, &header->size);
    }
    options.headers = headers;
    options.id = column(rows, row, 1);
    options.all = atoi(PQgetvalue(rows, row, 4));
    options.ttl_ms = column(rows, row, 5) == NULL ? 0 : atoll(column(rows, row, 5));
    options.content_type = column(rows, row, 6);
    options.traceparent = column(rows, row, 7);
    options.tracestate = column(rows, row, 8);
    options.ordering_key = column(rows, row, 9);
    size_t size;
    unsigned char *body = bytes(rows, row, 3, &size);
    const int sent = pinnace_client_send_async(client, column(rows, row, 2), body, size, &options, ticket);
    const int number = errno;
    PQfreemem(body);
    for (size_t header = 0; header < options.header_count; header++)
        PQfreemem((void *)(uintptr_t)headers[header].value);
    errno = number;
    return sent;
}

/* Sends rows, and waits until they are on the disk. `refused` gets a text for each that cannot be sent as it is. */
static void send_rows(pinnace_client_t *client, const PGresult *rows, const PGresult *headers, char **refused) {
    uint64_t ticket, last = 0;
    int next = 0;
    for (int row = 0; row < PQntuples(rows); row++) {
        if (send_row(client, rows, row, headers, &next, &ticket) >= 0)
            last = ticket > last ? ticket : last;
        else if (errno == EINVAL || errno == EMSGSIZE) {
            refused[row] = strdup(pinnace_client_error());
            fprintf(stderr, "row %s of the outbox cannot be sent: %s\n", PQgetvalue(rows, row, 0), refused[row]);
        } else
            fail("send", pinnace_client_error());
    }
    /* Messages reach the disk in the order of their tickets. */
    if (pinnace_client_wait(client, last, -1) < 0)
        fail("send", pinnace_client_error());
}

/* Sends the next rows, and deletes them when they are on the disk. Returns their number. */
static int relay_some(pinnace_client_t *client) {
    char text[32];
    const char *const most[] = {text};
    snprintf(text, sizeof text, "%d", BATCH);
    change("BEGIN", 0, NULL);
    if (!is_owner(client))
        fail("relay", "the outbox belongs to another store");
    PGresult *rows = execute(pinnace_sql(PINNACE_SQL_OUTBOX_NEXT), 1, most);
    const int count = PQntuples(rows);
    const char *const range[] = {count > 0 ? PQgetvalue(rows, 0, 0) : "0",
                                 count > 0 ? PQgetvalue(rows, count - 1, 0) : "0"};
    PGresult *headers = execute(pinnace_sql(PINNACE_SQL_OUTBOX_HEADERS), 2, range);
    change("COMMIT", 0, NULL);
    char *refused[BATCH] = {NULL};
    send_rows(client, rows, headers, refused);
    change("BEGIN", 0, NULL);
    for (int row = 0; row < count; row++) {
        const char *const refusal[] = {refused[row], PQgetvalue(rows, row, 0)};
        if (refused[row] == NULL)
            change(pinnace_sql(PINNACE_SQL_OUTBOX_DELETE), 1, &refusal[1]);
        else
            change(pinnace_sql(PINNACE_SQL_OUTBOX_REFUSE), 2, refusal);
        free(refused[row]);
    }
    change("COMMIT", 0, NULL);
    PQclear(headers);
    PQclear(rows);
    return count;
}

static pinnace_client_t *start(const char *name, const char *topic) {
    pinnace_client_options_t *options = pinnace_client_options_new(name, topic);
    /* Ids that count for ever: a relay that was killed after it has sent a row does not send it twice. */
    if (pinnace_client_options_set(options, "deduplicate_for_ms", "forever") < 0)
        fail(name, pinnace_client_error());
    pinnace_client_t *client = pinnace_client_start(options);
    pinnace_client_options_destroy(options);
    if (client == NULL)
        fail(name, pinnace_client_error());
    return client;
}

static void relay(void) {
    pinnace_client_t *client = start("shop", "orders");
    for (;;) {
        struct pollfd connection = {.fd = PQsocket(database), .events = POLLIN};
        if (relay_some(client) == 0)
            poll(&connection, 1, IDLE_MS);
    }
}

/* Bills an order, unless it was billed before. Returns its number. */
static long bill(pinnace_client_t *client, pinnace_delivery_t *order) {
    pinnace_cursor_t cursor;
    char number[32], stream[32], place[32], settled[32];
    if (pinnace_delivery_cursor(order, &cursor) < 0)
        fail("billing", pinnace_client_error());
    snprintf(number, sizeof number, "%.*s", (int)pinnace_delivery_size(order),
             (const char *)pinnace_delivery_body(order));
    snprintf(stream, sizeof stream, "%" PRIu64, cursor.stream);
    snprintf(place, sizeof place, "%" PRIu64, cursor.number);
    snprintf(settled, sizeof settled, "%" PRIu64, cursor.settled);
    const char *const handled[] = {pinnace_client_name(client), cursor.sender, stream, place};
    const char *const over[] = {handled[0], cursor.sender, stream, settled};
    const char *const parameters[] = {number};
    /* The bill and the record that its message was handled are committed together, or neither is. */
    change("BEGIN", 0, NULL);
    if (change(pinnace_sql(PINNACE_SQL_CURSOR_INSERT), 4, handled) == 1) {
        change(pinnace_sql(PINNACE_SQL_CURSOR_FORGET), 4, over);
        change("INSERT INTO bills (number) VALUES ($1)", 1, parameters);
    }
    change("COMMIT", 0, NULL);
    return strtol(number, NULL, 10);
}

static void billing(long count) {
    pinnace_client_t *client = start("billing", "invoices");
    for (long billed = 0; billed < count;) {
        pinnace_delivery_t *order = pinnace_client_recv(client, -1);
        if (order == NULL)
            fail("billing", pinnace_client_error());
        billed = bill(client, order);
        pinnace_delivery_ack(order);
        printf("%ld\n", billed);
    }
    if (pinnace_client_close_within(client, 10000) < 0)
        fail("billing", pinnace_client_error());
}

int main(int argc, char **argv) {
    const char *role = argc > 2 ? argv[2] : "";
    const long count = argc > 3 ? strtol(argv[3], NULL, 10) : 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    database = PQconnectdb(argc > 1 ? argv[1] : "");
    if (PQstatus(database) != CONNECTION_OK)
        fail("database", PQerrorMessage(database));
    if (strcmp(role, "create") == 0)
        create();
    else if (strcmp(role, "shop") == 0)
        shop(count);
    else if (strcmp(role, "relay") == 0)
        relay();
    else if (strcmp(role, "billing") == 0)
        billing(count);
    else
        fail("usage", "outbox DATABASE create|shop|relay|billing [COUNT]");
    PQfinish(database);
}
