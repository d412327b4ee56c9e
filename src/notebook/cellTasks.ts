/** The tasks that Claude can do with cells. */

import type { Cell } from '@jupyterlab/cells';

import { lastErrorOf } from './cellOutputs';

export type CellTask = 'explain' | 'fix' | 'document' | 'optimise';

/** The tasks, in the order of menus. */
export const CELL_TASKS: readonly CellTask[] = ['explain', 'fix', 'document', 'optimise'];

/** Return the name of the error in a cell's outputs; null for none. */
export function errorOf(cell: Cell): string | null {
  const error = lastErrorOf(cell.model);
  return error === null ? null : error.ename || 'error';
}
