"""`nb`, the command line: thin commands and the server behind them."""
