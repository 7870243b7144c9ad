defmodule Pinnace.Error do
  @moduledoc """
  What functions with `!` raise. `reason` is that of `{:error, reason}`.

      iex> Pinnace.connect!(Pinnace.socket!(:pull), "nonsense")
      ** (Pinnace.Error) invalid argument
  """

  defexception [:reason]

  @type t :: %__MODULE__{reason: :pinnace.reason()}

  @impl true
  def message(%{reason: reason}), do: List.to_string(:pinnace.format_error(reason))

  @doc "The value of a result. Raises the error."
  @spec value!(:ok | {:ok, value} | {:error, term()}) :: :ok | value when value: term()
  def value!(:ok), do: :ok
  def value!({:ok, value}), do: value
  def value!({:error, reason}), do: raise(__MODULE__, reason: reason)
end
