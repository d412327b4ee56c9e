import type { TranslationBundle } from '@jupyterlab/translation';

import type { CellTask } from './cellTasks';

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
