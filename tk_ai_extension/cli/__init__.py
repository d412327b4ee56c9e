"""nb: the headless face. Thin commands, and the host behind them."""
