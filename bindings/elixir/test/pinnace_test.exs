defmodule PinnaceTest do
  use ExUnit.Case
  doctest Pinnace
  doctest Pinnace.Error

  @patience 20_000

  defp pair(options \\ []) do
    pull = Pinnace.socket!(:pull, options)
    push = Pinnace.socket!(:push)
    Pinnace.connect!(push, Pinnace.bind!(pull, "tcp://127.0.0.1:*"))
    {pull, push}
  end

  test "requests and replies" do
    rep = Pinnace.socket!(:rep)
    req = Pinnace.socket!(:req)
    :ok = Pinnace.connect(req, Pinnace.bind!(rep, "ipc://*"))
    assert Pinnace.send!(req, "question") == :ok
    assert Pinnace.recv!(rep, @patience) == ["question"]
    assert Pinnace.send(rep, ["answer", ["in ", "parts"]], [:confirm]) == :ok
    assert Pinnace.recv(req, @patience) == {:ok, ["answer", "in parts"]}
  end

  test "the owner's messages are events with the socket" do
    {pull, push} = pair(active: 2)
    Pinnace.send_many!(push, Stream.map(1..3, &to_string/1))

    events =
      for _ <- 1..3 do
        receive do
          term -> Pinnace.event(term, pull)
        after
          @patience -> nil
        end
      end

    assert events == [{:message, pull, ["1"]}, {:message, pull, ["2"]}, {:passive, pull}]
    assert Pinnace.recv!(pull, @patience) == ["3"]
  end

  test "batches, unsent messages, and events of connections" do
    {pull, push} = pair(deliver: :batch, active: true)
    Pinnace.send!(push, "x")
    assert_receive {:pinnace_batch, _, _} = batch, @patience
    assert Pinnace.event(batch, pull) == {:messages, pull, [["x"]]}
    router = Pinnace.socket!(:router, router_mandatory: true)
    Pinnace.send!(router, ["nobody", "x"])
    assert_receive {:pinnace_unsent, _, _, _} = unsent, @patience
    assert Pinnace.event(unsent, router) == {:unsent, router, 1, :ehostunreach}
    assert %Pinnace.Socket{type: :monitor} = Pinnace.monitor!(pull)
    Pinnace.bind!(pull, "tcp://127.0.0.1:*")
    assert_receive {:pinnace_event, _, _} = event, @patience
    assert {:event, ^pull, %{event: :listening}} = Pinnace.event(event, pull)
  end

  test "a stream ends at a timeout, and when the socket is closed" do
    {pull, push} = pair()
    Pinnace.send_many!(push, ["a", ["b", "c"]])
    assert pull |> Pinnace.stream() |> Enum.take(2) == [["a"], ["b", "c"]]
    assert pull |> Pinnace.stream(0) |> Enum.to_list() == []
    task = Task.async(fn -> pull |> Pinnace.stream() |> Enum.to_list() end)
    Pinnace.send!(push, "last")
    :ok = until(fn -> match?(%{messages: 3}, Pinnace.statistics!(pull).received) end)
    :ok = until(fn -> Pinnace.info!(pull).queued == 0 end)
    Pinnace.close!(pull)
    assert Task.await(task, @patience) == [["last"]]
  end

  test "a stream raises other errors" do
    push = Pinnace.socket!(:pull, active: true)

    assert_raise Pinnace.Error, "invalid argument", fn ->
      push |> Pinnace.stream() |> Enum.to_list()
    end
  end

  test "all else is passed on" do
    {pull, push} = pair()
    assert %{type: :pull, bound: [endpoint]} = Pinnace.info!(pull)
    assert Pinnace.disconnect(push, endpoint) == :ok
    assert Pinnace.unbind(pull, endpoint) == :ok
    assert Pinnace.unbind(pull, endpoint) == {:error, :enoent}
    sub = Pinnace.socket!(:sub)
    assert {Pinnace.subscribe(sub, "a"), Pinnace.unsubscribe(sub, "a")} == {:ok, :ok}
    dish = Pinnace.socket!(:dish)
    assert {Pinnace.join(dish, "a"), Pinnace.leave(dish, "a")} == {:ok, :ok}
    assert Pinnace.controlling_process(pull, spawn(fn -> :ok end)) == :ok
    assert Pinnace.controlling_process(pull, self()) in [{:error, :not_owner}, {:error, :closed}]
    assert inspect(push) =~ ~r/^#Pinnace.Socket<push \d+>$/
  end

  defp until(holds, deadline \\ System.monotonic_time(:millisecond) + @patience) do
    cond do
      holds.() -> :ok
      System.monotonic_time(:millisecond) > deadline -> :late
      true -> until(holds, deadline)
    end
  end
end
