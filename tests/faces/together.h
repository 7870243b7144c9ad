/* The command of the C driver that acknowledges together with messages; included by driver.c, whose functions it
 * uses. */

static void together(int count, char **words) {
    pinnace_message_t messages[WORDS];
    pinnace_send_options_t options[WORDS];
    unsigned char *bodies[WORDS];
    size_t messages_given = 0;
    for (int at = 4; at + 3 < count; at += 4, messages_given++) {
        size_t size;
        bodies[messages_given] = body(words[at + 1], &size);
        options[messages_given] = (pinnace_send_options_t)PINNACE_SEND_OPTIONS;
        options[messages_given].timeout_ms = atoll(words[3]);
        options[messages_given].all = atoi(words[at + 2]);
        options[messages_given].id = optional(words[at + 3]);
        messages[messages_given] =
            (pinnace_message_t){words[at], bodies[messages_given], size, &options[messages_given]};
    }
    pinnace_delivery_t *delivery = deliveries[atoi(words[2])];
    answer(pinnace_client_ack_and_send(client(words[1]), delivery, messages, messages_given));
    while (messages_given > 0)
        free(bodies[--messages_given]);
}
