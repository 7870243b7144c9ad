defmodule Pinnace.MixProject do
  use Mix.Project

  def project do
    [
      app: :pinnace_elixir,
      version: "0.1.0",
      elixir: "~> 1.14",
      description: "Messaging without a broker: the sockets of Pinnace",
      deps: [{:pinnace, path: "../erlang", manager: :rebar3}]
    ]
  end

  def application do
    []
  end
end
