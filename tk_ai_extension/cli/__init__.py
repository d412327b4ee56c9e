"""nb: the command line. Thin commands, and the server behind them."""
