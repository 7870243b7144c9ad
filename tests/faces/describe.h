/* The commands of the C driver for what a message carries beside its body; included by driver.c, whose functions they
 * use. */

static const char *optional(const char *word) {
    return strcmp(word, "-") == 0 ? NULL : strcmp(word, "''") == 0 ? "" : word;
}

static void describe(int count, char **words) {
    size_t size;
    unsigned char *bytes = body(words[3], &size);
    pinnace_header_t headers[WORDS];
    pinnace_send_options_t options = PINNACE_SEND_OPTIONS;
    options.id = optional(words[4]);
    options.content_type = optional(words[5]);
    options.traceparent = optional(words[6]);
    options.tracestate = optional(words[7]);
    options.ordering_key = optional(words[8]);
    options.headers = headers;
    for (int at = 9; at < count; at++) {
        char *value = strchr(words[at], '=');
        *value++ = 0;
        headers[options.header_count++] = (pinnace_header_t){words[at], value, strlen(value)};
    }
    answer(pinnace_client_send(client(words[1]), words[2], bytes, size, &options));
    free(bytes);
}

static const char *or_none(const char *found) {
    return found == NULL ? "-" : found;
}

static void properties(int count, char **words) {
    (void)count;
    pinnace_delivery_t *delivery = deliveries[atoi(words[1])];
    if (pinnace_delivery_from(delivery) == NULL) {
        refused();
        return;
    }
    printf("properties %s %s %s %s %s", or_none(pinnace_delivery_id(delivery)),
           or_none(pinnace_delivery_content_type(delivery)), or_none(pinnace_delivery_traceparent(delivery)),
           or_none(pinnace_delivery_tracestate(delivery)), or_none(pinnace_delivery_ordering_key(delivery)));
    pinnace_header_t header, same;
    for (size_t at = 0; pinnace_delivery_header_at(delivery, at, &header) == 0; at++) {
        if (pinnace_delivery_header(delivery, header.key, &same) != 0 || same.value != header.value)
            abort();
        printf(" %s=%.*s", header.key, (int)header.size, (const char *)header.value);
    }
    puts("");
}
