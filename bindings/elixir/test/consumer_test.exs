defmodule Pinnace.ConsumerTest do
  use ExUnit.Case

  @patience 20_000
  @max_demand 10

  defmodule Teller do
    use Pinnace.Consumer, max_demand: 10

    @impl true
    def init({endpoint, test}) do
      with {:ok, socket} <- Pinnace.socket(:pull, rcvhwm: 10),
           {:ok, endpoint} <- Pinnace.bind(socket, endpoint) do
        send(test, {:bound, socket, endpoint})
        {:ok, socket, test}
      end
    end

    @impl true
    def handle_messages([["stop"] | _], test), do: {:stop, :normal, test}

    def handle_messages([["wait"] | _] = messages, test) do
      send(test, {:handled, self(), messages})

      receive do
        :go_on -> {:noreply, test}
      end
    end

    def handle_messages(messages, test) do
      send(test, {:handled, self(), messages})
      {:noreply, test}
    end

    @impl true
    def handle_info(other, test) do
      send(test, {:other, other})
      {:noreply, test}
    end
  end

  defmodule Quiet do
    use Pinnace.Consumer
    @impl true
    def init(result), do: result
    @impl true
    def handle_messages(_messages, state), do: {:noreply, state}
  end

  setup do
    pid = start_supervised!({Teller, {"tcp://127.0.0.1:*", self()}})
    assert_receive {:bound, socket, endpoint}, @patience
    push = Pinnace.socket!(:push)
    Pinnace.connect!(push, endpoint)
    %{pid: pid, push: push, socket: socket}
  end

  defp take(0), do: []

  defp take(count) do
    assert_receive {:handled, _, messages}, @patience
    assert length(messages) in 1..@max_demand
    messages ++ take(max(count - length(messages), 0))
  end

  test "all messages are handled, in their order", %{push: push} do
    numbers = Enum.map(1..1000, &Integer.to_string/1)
    Pinnace.send_many!(push, numbers)
    assert take(1000) == Enum.map(numbers, &[&1])
  end

  test "no more come than are demanded", %{pid: pid, push: push, socket: socket} do
    Pinnace.send!(push, "wait")
    assert_receive {:handled, ^pid, [["wait"]]}, @patience
    Pinnace.send_many!(push, List.duplicate("x", 100))
    # It has what it demanded, a note that this is all, and nothing else.
    :ok = until(fn -> Pinnace.info!(socket).active == false end)
    assert Process.info(pid, :message_queue_len) == {:message_queue_len, @max_demand}
    send(pid, :go_on)
    assert take(100) == List.duplicate(["x"], 100)
  end

  test "other messages, and the end", %{pid: pid, push: push} do
    send(pid, :something)
    assert_receive {:other, :something}, @patience
    reference = Process.monitor(pid)
    Pinnace.send!(push, "stop")
    assert_receive {:DOWN, ^reference, :process, ^pid, :normal}, @patience
  end

  test "what init returns" do
    Process.flag(:trap_exit, true)
    assert Pinnace.Consumer.start_link(Quiet, :ignore) == :ignore
    assert Pinnace.Consumer.start_link(Quiet, {:error, :einval}) == {:error, :einval}

    assert_raise ArgumentError, fn ->
      Pinnace.Consumer.start_link(Quiet, :ignore, max_demand: 0)
    end

    pull = Pinnace.socket!(:pull)
    Pinnace.close!(pull)
    assert Pinnace.Consumer.start_link(Quiet, {:ok, pull, nil}) == {:error, :closed}
    other = Pinnace.socket!(:pull)
    assert {:ok, pid} = Pinnace.Consumer.start_link(Quiet, {:ok, other, nil}, max_demand: 1)
    send(pid, :ignored)
    assert :sys.get_state(pid).most == 1
  end

  test "it goes on after the program has died", %{push: push, pid: pid} do
    {_, 0} = System.cmd("kill", ["-KILL", Integer.to_string(Pinnace.info!(push).os_pid)])
    Pinnace.send!(push, "first")
    send_until_handled(push, System.monotonic_time(:millisecond) + @patience)
    assert Process.alive?(pid)
  end

  # What the dead program had got is lost.
  defp send_until_handled(push, deadline) do
    assert System.monotonic_time(:millisecond) < deadline
    Pinnace.send!(push, "again")

    receive do
      {:handled, _, [["again"] | _]} -> :ok
    after
      10 -> send_until_handled(push, deadline)
    end
  end

  defp until(holds, deadline \\ System.monotonic_time(:millisecond) + @patience) do
    cond do
      holds.() -> :ok
      System.monotonic_time(:millisecond) > deadline -> :late
      true -> until(holds, deadline)
    end
  end
end
