[inputs: ["mix.exs", ".formatter.exs", "{lib,test}/**/*.{ex,exs}"]]
