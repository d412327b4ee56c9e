/** The tasks that Claude can do with cells. */

import type { Cell, ICodeCellModel } from '@jupyterlab/cells';

export type CellTask = 'explain' | 'fix' | 'document' | 'optimise';

/** The tasks, in the order of menus. */
export const CELL_TASKS: readonly CellTask[] = ['explain', 'fix', 'document', 'optimise'];

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
