/** Cells and notebooks for tests. */

import type * as nbformat from '@jupyterlab/nbformat';

/** A code cell that was not run. */
export function code(id: string, source = id, rest: object = {}): nbformat.ICell {
  return {
    id,
    cell_type: 'code',
    metadata: {},
    source,
    outputs: [],
    execution_count: null,
    ...rest
  };
}

/** A notebook of these cells. */
export function notebook(
  cells: nbformat.ICell[],
  metadata: object = {}
): nbformat.INotebookContent {
  return { cells, metadata, nbformat: 4, nbformat_minor: 5 } as nbformat.INotebookContent;
}
