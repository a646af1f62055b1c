"""Programs to watch and to copy from: `demo` is what `make demo` runs."""
