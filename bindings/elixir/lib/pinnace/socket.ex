defmodule Pinnace.Socket do
  @moduledoc """
  A socket: its type, and the handle that `:pinnace` knows it by.
  """

  @enforce_keys [:handle, :type]
  defstruct [:handle, :type]

  @type t :: %__MODULE__{handle: :pinnace.socket(), type: :pinnace.type() | :monitor}

  defimpl Inspect do
    def inspect(%{handle: handle, type: type}, _options),
      do: "#Pinnace.Socket<#{type} #{elem(handle, 1)}>"
  end
end
