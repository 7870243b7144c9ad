defmodule Pinnace do
  @moduledoc """
  Sockets of ZeroMQ's patterns, in a program of their own: no fault there ends the node.

  A socket belongs to the process that made it, and is closed when that ends. Any process of the
  node may use it. A message is a list of frames, which are binaries.

      iex> {:ok, pull} = Pinnace.socket(:pull)
      iex> {:ok, endpoint} = Pinnace.bind(pull, "tcp://127.0.0.1:*")
      iex> push = Pinnace.socket!(:push)
      iex> :ok = Pinnace.connect(push, endpoint)
      iex> Pinnace.send(push, ["two", "frames"])
      :ok
      iex> Pinnace.recv(pull)
      {:ok, ["two", "frames"]}

  Functions return what those of the Erlang module `:pinnace` do; those with `!` return the value,
  or raise `Pinnace.Error`. An owner with `active: true`, `:once` or a number gets messages of that
  module, `{:pinnace, handle, frames}`; `event/1` makes them of sockets.
  """

  import Kernel, except: [send: 2]

  alias Pinnace.{Error, Socket}

  @type frames :: binary() | [iodata()]
  @type message :: [binary(), ...]
  @type error :: {:error, :pinnace.reason()}
  @type event ::
          {:message, Socket.t(), message()}
          | {:messages, Socket.t(), [message()]}
          | {:passive, Socket.t()}
          | {:unsent, Socket.t(), non_neg_integer(), :pinnace.reason()}
          | {:event, Socket.t(), map()}
          | {:error, Socket.t(), :pinnace.reason()}

  @doc """
  A new socket with options, which are those of `:pinnace.setopts/2`.

      iex> {:ok, %Pinnace.Socket{type: :sub}} = Pinnace.socket(:sub, subscribe: "news", rcvhwm: 10)
      iex> Pinnace.socket(:nonsense)
      {:error, :einval}
  """
  @spec socket(:pinnace.type(), [:pinnace.option()]) :: {:ok, Socket.t()} | error()
  def socket(type, options \\ []) do
    with {:ok, handle} <- :pinnace.socket(type, options) do
      {:ok, %Socket{handle: handle, type: type}}
    end
  end

  @doc "Closes a socket. What waits is sent, for as long as its option `linger` says."
  @spec close(Socket.t()) :: :ok | error()
  def close(%Socket{handle: handle}), do: :pinnace.close(handle)

  @doc "Gives a socket to another process."
  @spec controlling_process(Socket.t(), pid()) :: :ok | error()
  def controlling_process(%Socket{handle: handle}, pid),
    do: :pinnace.controlling_process(handle, pid)

  @doc "Binds a socket. The result is the endpoint, with the port that the system chose for `*`."
  @spec bind(Socket.t(), iodata()) :: {:ok, binary()} | error()
  def bind(%Socket{handle: handle}, endpoint), do: :pinnace.bind(handle, endpoint)

  @spec connect(Socket.t(), iodata()) :: :ok | error()
  def connect(%Socket{handle: handle}, endpoint), do: :pinnace.connect(handle, endpoint)

  @spec unbind(Socket.t(), iodata()) :: :ok | error()
  def unbind(%Socket{handle: handle}, endpoint), do: :pinnace.unbind(handle, endpoint)

  @spec disconnect(Socket.t(), iodata()) :: :ok | error()
  def disconnect(%Socket{handle: handle}, endpoint), do: :pinnace.disconnect(handle, endpoint)

  @doc "Sends a message: a binary, or a list of frames. `[:nowait]` and `[:confirm]` as in Erlang."
  @spec send(Socket.t(), frames(), [:nowait | :confirm]) :: :ok | error()
  def send(%Socket{handle: handle}, frames, options \\ []),
    do: :pinnace.send(handle, frames, options)

  @doc "Sends messages, with few steps for many."
  @spec send_many(Socket.t(), Enumerable.t()) :: :ok | error()
  def send_many(%Socket{handle: handle}, messages),
    do: :pinnace.send_many(handle, Enum.to_list(messages))

  @doc """
  The next message. A message that comes after the timeout is not lost.

      iex> Pinnace.recv(Pinnace.socket!(:pull), 0)
      {:error, :eagain}
  """
  @spec recv(Socket.t(), timeout()) :: {:ok, message()} | error()
  def recv(%Socket{handle: handle}, timeout \\ :infinity), do: :pinnace.recv(handle, timeout)

  @doc """
  The messages that are received, one after the other. It ends when none comes for `timeout`
  milliseconds, or when the socket is closed; another error is raised.

      iex> pull = Pinnace.socket!(:pull)
      iex> Pinnace.bind!(pull, "inproc://stream")
      iex> push = Pinnace.socket!(:push)
      iex> Pinnace.connect!(push, "inproc://stream")
      iex> Pinnace.send_many!(push, Enum.map(1..5, &Integer.to_string/1))
      iex> pull |> Pinnace.stream() |> Stream.map(&hd/1) |> Enum.take(2)
      ["1", "2"]
      iex> pull |> Pinnace.stream(100) |> Enum.to_list()
      [["3"], ["4"], ["5"]]
  """
  @spec stream(Socket.t(), timeout()) :: Enumerable.t()
  def stream(%Socket{} = socket, timeout \\ :infinity) do
    Stream.repeatedly(fn -> recv(socket, timeout) end)
    |> Stream.take_while(&(&1 not in [{:error, :timeout}, {:error, :eagain}, {:error, :closed}]))
    |> Stream.map(&Error.value!/1)
  end

  @doc """
  Sets options.

      iex> pull = Pinnace.socket!(:pull)
      iex> Pinnace.setopts!(pull, rcvhwm: 7, linger: :infinity)
      iex> Pinnace.getopts!(pull, [:rcvhwm, :linger])
      [rcvhwm: 7, linger: -1]
  """
  @spec setopts(Socket.t(), [:pinnace.option()]) :: :ok | error()
  def setopts(%Socket{handle: handle}, options), do: :pinnace.setopts(handle, options)

  @spec getopts(Socket.t(), [atom()]) :: {:ok, keyword()} | error()
  def getopts(%Socket{handle: handle}, names), do: :pinnace.getopts(handle, names)

  @spec subscribe(Socket.t(), iodata()) :: :ok | error()
  def subscribe(%Socket{handle: handle}, topic), do: :pinnace.subscribe(handle, topic)

  @spec unsubscribe(Socket.t(), iodata()) :: :ok | error()
  def unsubscribe(%Socket{handle: handle}, topic), do: :pinnace.unsubscribe(handle, topic)

  @doc "Lets a DISH receive what is sent to a group."
  @spec join(Socket.t(), iodata()) :: :ok | error()
  def join(%Socket{handle: handle}, group), do: :pinnace.join(handle, group)

  @spec leave(Socket.t(), iodata()) :: :ok | error()
  def leave(%Socket{handle: handle}, group), do: :pinnace.leave(handle, group)

  @doc "What the node knows of a socket."
  @spec info(Socket.t()) :: {:ok, :pinnace.info()} | error()
  def info(%Socket{handle: handle}), do: :pinnace.info(handle)

  @doc "What a socket has received, sent and dropped, with its peers."
  @spec statistics(Socket.t()) :: {:ok, map()} | error()
  def statistics(%Socket{handle: handle}), do: :pinnace.statistics(handle)

  @doc "Has the events of a socket's connections sent to the calling process, until it is closed."
  @spec monitor(Socket.t()) :: {:ok, Socket.t()} | error()
  def monitor(%Socket{handle: handle}) do
    with {:ok, monitor} <- :pinnace.monitor(handle) do
      {:ok, %Socket{handle: monitor, type: :monitor}}
    end
  end

  @doc """
  A new pair of keys for CURVE, public and secret.

      iex> {:ok, {public, secret}} = Pinnace.key_pair()
      iex> {byte_size(public), byte_size(secret)}
      {32, 32}
  """
  @spec key_pair() :: {:ok, {binary(), binary()}} | error()
  defdelegate key_pair(), to: :pinnace

  @doc """
  A message that the owner of a socket got from `:pinnace`, with the socket; `nil` for others.

      iex> push = Pinnace.socket!(:push)
      iex> Pinnace.event({:pinnace_unsent, push.handle, 3, :port_crashed}, push)
      {:unsent, push, 3, :port_crashed}
      iex> Pinnace.event(:something, push)
      nil
  """
  @spec event(term(), Socket.t()) :: event() | nil
  def event(term, %Socket{handle: handle} = socket) do
    case term do
      {:pinnace, ^handle, frames} -> {:message, socket, frames}
      {:pinnace_batch, ^handle, messages} -> {:messages, socket, messages}
      {:pinnace_passive, ^handle} -> {:passive, socket}
      {:pinnace_unsent, ^handle, count, reason} -> {:unsent, socket, count, reason}
      {:pinnace_event, ^handle, event} -> {:event, socket, event}
      {:pinnace_error, ^handle, reason} -> {:error, socket, reason}
      _ -> nil
    end
  end

  for {name, arguments} <- [
        socket: [:type],
        socket: [:type, :options],
        close: [:socket],
        controlling_process: [:socket, :pid],
        bind: [:socket, :endpoint],
        connect: [:socket, :endpoint],
        unbind: [:socket, :endpoint],
        disconnect: [:socket, :endpoint],
        send: [:socket, :frames],
        send: [:socket, :frames, :options],
        send_many: [:socket, :messages],
        recv: [:socket],
        recv: [:socket, :timeout],
        setopts: [:socket, :options],
        getopts: [:socket, :names],
        subscribe: [:socket, :topic],
        unsubscribe: [:socket, :topic],
        join: [:socket, :group],
        leave: [:socket, :group],
        info: [:socket],
        statistics: [:socket],
        monitor: [:socket],
        key_pair: []
      ] do
    variables = Enum.map(arguments, &Macro.var(&1, __MODULE__))
    @doc "As `#{name}/#{length(arguments)}`, but returns the value, or raises `Pinnace.Error`."
    def unquote(:"#{name}!")(unquote_splicing(variables)) do
      Error.value!(unquote(name)(unquote_splicing(variables)))
    end
  end
end
