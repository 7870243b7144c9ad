-record(sock, {
    id :: pos_integer(),
    %% The socket for its users.
    handle :: {pinnace_socket, pos_integer(), pid()},
    port :: port(),
    is_rep = false :: boolean(),
    %% Its type receives messages.
    receives = true :: boolean(),
    owner :: pid(),
    monitor :: reference(),
    %% What is delivered: messages, or the events of this socket.
    events_of = none :: none | pos_integer(),
    room :: atomics:atomics_ref(),
    out :: atomics:atomics_ref(),
    %% What was refused or lost and the owner was not told, because its mailbox is full.
    unsent = #{} :: #{pinnace:reason() => pos_integer()},
    %% Those who wait for room.
    senders = [] :: [gen_server:from()],
    active = false :: boolean() | once | pos_integer(),
    deliver = message :: message | batch,
    %% Frames of at most as many octets are copied, so that they do not keep their packet in memory.
    copy = 0 :: non_neg_integer(),
    %% Messages that the program has delivered, and that no caller and not the owner has got.
    queue = queue:new() :: queue:queue(pinnace_wire:message()),
    %% The begin of a message that comes in parts.
    part = <<>> :: binary(),
    %% The octets that the program may deliver beyond those that callers or the owner have got.
    window = 262144 :: pos_integer(),
    %% Octets that callers or the owner have got, and that the program was not granted again.
    used = 0 :: non_neg_integer(),
    %% A timer runs, because the owner has too many messages.
    is_held = false :: boolean(),
    receivers = queue:new() :: queue:queue({gen_server:from(), reference() | none})
}).
