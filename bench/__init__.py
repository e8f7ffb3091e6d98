"""Where the figures of docs/benchmarks.md come from; nothing there is typed by hand."""
