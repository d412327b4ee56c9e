/** The tasks that Claude can do with cells, and their prompts. */

import type { Cell, ICodeCellModel } from '@jupyterlab/cells';
import type { TranslationBundle } from '@jupyterlab/translation';

export type CellTask = 'explain' | 'fix' | 'document' | 'optimise';

/** The tasks, in the order of menus. */
export const CELL_TASKS: readonly CellTask[] = ['explain', 'fix', 'document', 'optimise'];

/** Return the message to Claude for a task. */
export function messageFor(
  task: CellTask,
  { cells, error }: { cells: number; error: string | null },
  trans: TranslationBundle
): string {
  const many = cells > 1;
  switch (task) {
    case 'explain':
      if (error !== null && !many) {
        return trans.__('Explain the %1 in this cell.', error);
      }
      return many ? trans.__('Explain these cells.') : trans.__('Explain this cell.');
    case 'fix':
      if (error !== null && !many) {
        return trans.__('Fix the %1 in this cell.', error);
      }
      return many ? trans.__('Fix these cells.') : trans.__('Fix this cell.');
    case 'document':
      return many
        ? trans.__('Document these cells: add docstrings, and comments that say why.')
        : trans.__('Document this cell: add docstrings, and comments that say why.');
    case 'optimise':
      return many
        ? trans.__('Optimize these cells: less time or memory, with the same results.')
        : trans.__('Optimize this cell: less time or memory, with the same results.');
  }
}

/** Return the outputs of a cell; null if it is not a code cell. */
export function outputsOf(cell: Cell): ICodeCellModel['outputs'] | null {
  return cell.model.type === 'code' ? (cell.model as ICodeCellModel).outputs : null;
}

/** Return the name of the error in a cell's outputs; null for none. */
export function errorOf(cell: Cell): string | null {
  const outputs = outputsOf(cell);
  for (let place = (outputs?.length ?? 0) - 1; place >= 0; place--) {
    const output = outputs?.get(place).toJSON();
    if (output?.output_type === 'error') {
      return typeof output['ename'] === 'string' && output['ename'] !== ''
        ? output['ename']
        : 'error';
    }
  }
  return null;
}
