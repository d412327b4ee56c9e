"""Plain data: cells, outputs, executions, callers, errors and the cell-marked text. No I/O."""
