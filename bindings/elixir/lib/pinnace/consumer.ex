defmodule Pinnace.Consumer do
  @moduledoc """
  A process that takes as many messages from a socket as it can work on.

  It has a socket, and demands messages with `{active, N}`: at most `:max_demand` are on their way to
  it. When half of them were handled it demands as many again. What it does not demand waits in
  the node, up to 256 KiB (the socket's option `window`), and then with its peers.

      defmodule Printer do
        use Pinnace.Consumer

        @impl true
        def init(endpoint) do
          with {:ok, socket} <- Pinnace.socket(:pull),
               {:ok, _} <- Pinnace.bind(socket, endpoint) do
            {:ok, socket, :state}
          end
        end

        @impl true
        def handle_messages(messages, state) do
          Enum.each(messages, &IO.inspect/1)
          {:noreply, state}
        end
      end

      {:ok, pid} = Pinnace.Consumer.start_link(Printer, "tcp://*:5555", max_demand: 100)

  `use Pinnace.Consumer` also defines `child_spec/1` for supervisors, whose argument is that of
  `init/1`; `use Pinnace.Consumer, max_demand: 100` sets its options.
  """

  use GenServer

  alias Pinnace.Socket

  @doc "Makes the socket, in the consumer's process, which owns it."
  @callback init(argument :: term()) ::
              {:ok, Socket.t(), state :: term()} | {:error, term()} | :ignore

  @doc "Handles messages that came, the oldest first: at least one, and at most `:max_demand`."
  @callback handle_messages([Pinnace.message(), ...], state :: term()) ::
              {:noreply, state :: term()} | {:stop, reason :: term(), state :: term()}

  @doc "Handles any other message to the process, among them `Pinnace.event/1`'s of the socket."
  @callback handle_info(term(), state :: term()) ::
              {:noreply, state :: term()} | {:stop, reason :: term(), state :: term()}

  @optional_callbacks handle_info: 2

  @max_demand 1000
  # The most that `{active, N}` takes.
  @most 32_767

  defmacro __using__(options) do
    quote do
      @behaviour Pinnace.Consumer

      def child_spec(argument) do
        start = {Pinnace.Consumer, :start_link, [__MODULE__, argument, unquote(options)]}
        %{id: __MODULE__, start: start}
      end

      defoverridable child_spec: 1
    end
  end

  @doc """
  Starts a consumer. Options: `:max_demand` (1 to #{@most}, default #{@max_demand}), and those of
  `GenServer.start_link/3`.
  """
  @spec start_link(module(), term(), keyword()) :: GenServer.on_start()
  def start_link(module, argument, options \\ []) do
    {most, others} = Keyword.pop(options, :max_demand, @max_demand)

    unless most in 1..@most do
      raise ArgumentError, "max_demand is a number from 1 to #{@most}, not #{inspect(most)}"
    end

    GenServer.start_link(__MODULE__, {module, argument, most}, others)
  end

  @impl true
  def init({module, argument, most}) do
    case module.init(argument) do
      {:ok, %Socket{} = socket, state} ->
        # Messages come one by one, so that each counts.
        case Pinnace.setopts(socket, deliver: :message, active: most) do
          :ok -> {:ok, %{module: module, socket: socket, most: most, handled: 0, state: state}}
          {:error, reason} -> {:stop, reason}
        end

      {:error, reason} ->
        {:stop, reason}

      :ignore ->
        :ignore
    end
  end

  @impl true
  def handle_info({:pinnace, handle, message}, %{socket: %{handle: handle}} = consumer) do
    messages = [message | waiting(handle, consumer.most - 1)]
    handled = consumer.handled + length(messages)

    case consumer.module.handle_messages(messages, consumer.state) do
      {:noreply, state} -> demand(%{consumer | state: state, handled: handled})
      {:stop, reason, state} -> {:stop, reason, %{consumer | state: state}}
    end
  end

  # All that was demanded came. More is demanded when it was handled.
  def handle_info({:pinnace_passive, handle}, %{socket: %{handle: handle}} = consumer),
    do: {:noreply, consumer}

  def handle_info(other, %{module: module} = consumer) do
    if function_exported?(module, :handle_info, 2) do
      case module.handle_info(other, consumer.state) do
        {:noreply, state} -> {:noreply, %{consumer | state: state}}
        {:stop, reason, state} -> {:stop, reason, %{consumer | state: state}}
      end
    else
      {:noreply, consumer}
    end
  end

  # Messages of the socket that are in the mailbox already.
  defp waiting(_handle, 0), do: []

  defp waiting(handle, most) do
    receive do
      {:pinnace, ^handle, message} -> [message | waiting(handle, most - 1)]
    after
      0 -> []
    end
  end

  # Demands what was handled once that is half of the most.
  defp demand(%{handled: handled, most: most} = consumer) when handled * 2 >= most do
    case Pinnace.setopts(consumer.socket, active: handled) do
      :ok -> {:noreply, %{consumer | handled: 0}}
      {:error, reason} -> {:stop, reason, consumer}
    end
  end

  defp demand(consumer), do: {:noreply, consumer}
end
