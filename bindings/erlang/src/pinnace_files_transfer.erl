%% @private
%% The process of a transfer. Its channel delivers events, and it tells its owner how the transfer has ended. When the
%% program dies, it begins the transfer again in the next one, where it goes on with what is on the disk.
-module(pinnace_files_transfer).
-behaviour(gen_server).

-export([start/4, cancel/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-include("pinnace_files.hrl").
-include_lib("kernel/include/logger.hrl").

%% The octets of events that the program may deliver beyond those that were told.
-define(WINDOW, 131072).
-define(MESSAGES, 16#FFFFFFFF).
%% At so many messages in the mailbox of a process that is told, no more is granted; it is looked at again later.
-define(MAILBOX_MAX, 1000).
-define(HELD_MS, 5).

-type asked() :: {client | program, gen_server:request_id()}.

-record(state, {
    id :: pos_integer(),
    owner :: pid(),
    %% The owner waits for the end, and does not read its events meanwhile.
    is_awaited :: boolean(),
    client :: pid(),
    what :: {pinnace_files:what(), pinnace_files:rules()},
    events :: non_neg_integer(),
    progress :: none | names | pid() | fun((pinnace_files:event()) -> term()),
    %% The names of a listing, the last first.
    names = [] :: [pinnace_files:entry()],
    asked :: asked() | none,
    %% The program that was asked last.
    port = none :: port() | none,
    part = [] :: iodata(),
    %% The octets that were delivered and not granted again.
    used = 0 :: non_neg_integer(),
    %% Why it was cancelled.
    cancelled = none :: none | ecanceled | timeout | progress_failed
}).

%% Starts a transfer of the calling process.
-spec start(boolean(), pid(), pinnace_files:what(), pinnace_files:transfer_options()) ->
    {ok, pid()} | {error, pinnace:reason()}.
start(IsAwaited, Client, What, Options) ->
    try state(IsAwaited, Client, What, Options) of
        State ->
            case gen_server:start(?MODULE, {State, maps:get(timeout, Options, infinity)}, []) of
                {error, {shutdown, Reason}} -> {error, Reason};
                Started -> Started
            end
    catch
        error:_ -> {error, einval}
    end.

state(IsAwaited, Client, What, Options) ->
    {Progress, Events} = told(What, Options),
    Rules = maps:without([progress, events, timeout], Options),
    _ = iolist_size(element(2, pinnace_files_wire:transfer({What, Rules}))),
    true = is_timeout(maps:get(timeout, Options, infinity)),
    #state{id = 1, owner = self(), is_awaited = IsAwaited, client = Client, what = {What, Rules}, events = Events,
           progress = Progress, asked = none}.

told(_What, #{progress := Progress} = Options) when is_pid(Progress); is_function(Progress, 1) ->
    {Progress, pinnace_files_wire:events(maps:get(events, Options, all))};
told({list, _}, Options) when not is_map_key(progress, Options) ->
    {names, pinnace_files_wire:events([listed])};
told(_What, Options) when not is_map_key(progress, Options), not is_map_key(events, Options) ->
    {none, 0}.

is_timeout(infinity) -> true;
is_timeout(Ms) -> is_integer(Ms) andalso Ms >= 0 andalso Ms < 1 bsl 32.

-spec cancel(pid()) -> ok.
cancel(Transfer) ->
    gen_server:cast(Transfer, {cancel, ecanceled}).

-spec init({#state{}, timeout()}) -> {ok, #state{}} | {stop, {shutdown, pinnace:reason()}}.
init({#state{owner = Owner, client = Client} = State, Timeout}) ->
    process_flag(message_queue_data, off_heap),
    case pinnace_relays:open({?CANCEL, <<>>}) of
        {ok, Id, _Port} ->
            _ = [monitor(process, Process) || Process <- [Owner, Client, pinnace_registry]],
            _ = is_integer(Timeout) andalso erlang:send_after(Timeout, self(), {cancel, timeout}),
            {ok, ask_client(State#state{id = Id})};
        {error, Reason} ->
            {stop, {shutdown, Reason}}
    end.

%% Asks for the client's channel, in another program than the one that died.
ask_client(#state{client = Client, port = Dead} = State) ->
    State#state{asked = {client, gen_server:send_request(Client, {channel, Dead})}}.

ask_program(Client, Port, #state{id = Id, what = What, events = Events} = State) ->
    {Operation, Arguments} = pinnace_files_wire:transfer(What),
    Begin = <<Client:32, Id:32, Events:32, ?MESSAGES:32, ?WINDOW:32>>,
    Request = {request, Port, Operation, [Begin | Arguments]},
    State#state{asked = {program, gen_server:send_request(pinnace_port, Request)}, port = Port, names = [], part = [],
                used = 0}.

-spec handle_call(term(), gen_server:from(), #state{}) -> {reply, {error, einval}, #state{}}.
handle_call(_Request, _From, State) ->
    {reply, {error, einval}, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}} | {stop, normal, #state{}}.
handle_cast({cancel, Reason}, State) ->
    cancelled(Reason, State);
handle_cast(_Message, State) ->
    {noreply, State}.

cancelled(_Reason, #state{cancelled = Before} = State) when Before =/= none ->
    {noreply, State};
cancelled(Reason, #state{asked = {client, _}} = State) ->
    ended({error, Reason}, State);
cancelled(Reason, #state{id = Id, port = Port} = State) ->
    %% Its answer is not waited for, and is dropped when it comes.
    _ = gen_server:send_request(pinnace_port, {request, Port, ?CANCEL, <<Id:32>>}),
    {noreply, State#state{cancelled = Reason}}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}} | {stop, normal, #state{}}.
handle_info({pinnace_channel, Port, <<132, _:32, Messages/binary>>}, #state{port = Port} = State) ->
    {noreply, arrived(Messages, State)};
handle_info({pinnace_channel, Port, <<133, _:32, 0, Content/binary>>}, #state{port = Port, part = Part} = State) ->
    {noreply, State#state{part = [Part, Content]}};
handle_info({pinnace_channel, Port, <<133, _:32, 1, Content/binary>>}, #state{port = Port, part = Part} = State) ->
    {noreply, arrived(iolist_to_binary([Part, Content]), State#state{part = []})};
handle_info({cancel, Reason}, State) ->
    cancelled(Reason, State);
handle_info(grant, State) ->
    {noreply, grant(State)};
handle_info({'DOWN', _, process, Owner, _}, #state{owner = Owner} = State) ->
    {stop, normal, State};
handle_info({'DOWN', _, process, Client, _}, #state{client = Client} = State) ->
    ended({error, closed}, State);
handle_info({'DOWN', _, process, {pinnace_registry, _}, _}, State) ->
    ended({error, not_started}, State);
handle_info(Message, #state{asked = {Of, Request}} = State) ->
    case gen_server:check_response(Message, Request) of
        no_reply -> {noreply, State};
        Response -> answered(Of, Response, State)
    end.

answered(client, {reply, {ok, Client, Port}}, State) ->
    {noreply, ask_program(Client, Port, State)};
answered(client, {error, _}, State) ->
    ended({error, closed}, State);
answered(program, {reply, {ok, Values}}, State) ->
    ended({ok, result(pinnace_files_wire:report(Values), State)}, State);
answered(program, _Error, #state{cancelled = Reason} = State) when Reason =/= none ->
    ended({error, Reason}, State);
answered(program, {reply, {error, {Reason, Text}}}, State) when is_binary(Text) ->
    ended({error, Reason}, State);
answered(program, {reply, {error, Reason}}, State) when Reason =/= port_crashed ->
    ended({error, Reason}, State);
answered(program, _Crashed, State) ->
    {noreply, ask_client(State)}.

%% A listing of which the names are not told has them in its report.
result(Report, #state{progress = names, names = Names}) -> Report#{entries => lists:reverse(Names)};
result(Report, _State) -> Report.

ended(Result, #state{owner = Owner} = State) ->
    Owner ! {pinnace_files, self(), {ended, Result}},
    {stop, normal, State}.

%% Events came.
arrived(Octets, #state{used = Used} = State) ->
    grant(tell(pinnace_wire:messages(Octets), State#state{used = Used + byte_size(Octets)})).

tell(Messages, #state{progress = names, names = Names} = State) ->
    State#state{names = lists:foldl(fun(Message, Known) ->
        [pinnace_files_wire:entry(Message) | Known]
    end, Names, Messages)};
tell(Messages, #state{progress = Pid} = State) when is_pid(Pid) ->
    lists:foreach(fun(Message) -> Pid ! {pinnace_files, self(), pinnace_files_wire:event(Message)} end, Messages),
    State;
tell(Messages, #state{progress = Progress, cancelled = none} = State) when is_function(Progress) ->
    try lists:foreach(fun(Message) -> Progress(pinnace_files_wire:event(Message)) end, Messages) of
        ok -> State
    catch
        Class:Reason:Stack ->
            ?LOG_ERROR("pinnace: the function that is told of a transfer's progress has failed: ~0tp:~0tp~n~0tp",
                       [Class, Reason, Stack]),
            self() ! {cancel, progress_failed},
            State#state{progress = none}
    end;
tell(_Messages, State) ->
    State.

grant(#state{used = Used} = State) when Used < ?WINDOW div 4 ->
    State;
grant(#state{id = Id, port = Port, used = Used} = State) ->
    case is_held(State) of
        true ->
            _ = erlang:send_after(?HELD_MS, self(), grant),
            State;
        false ->
            _ = catch port_command(Port, pinnace_wire:credit(Id, 0, Used)),
            State#state{used = 0}
    end.

%% An owner that waits for the end does not read: it gets all.
is_held(#state{progress = Owner, owner = Owner, is_awaited = true}) ->
    false;
is_held(#state{progress = Pid}) when is_pid(Pid), node(Pid) =:= node() ->
    case process_info(Pid, message_queue_len) of
        {message_queue_len, Length} -> Length > ?MAILBOX_MAX;
        undefined -> false
    end;
is_held(_State) ->
    false.
