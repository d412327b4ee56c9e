import type { Cell } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';

import type { CombinedChange } from '../api/events';
import type { NotebookActivity } from './activity';
import { CellMark } from './CellMark';
import { onCells } from './cells';
import { cellsOf } from './keys';

/** Mark the cells of a notebook that agents changed, and the one that an agent points to. */
export function markCells(
  panel: NotebookPanel,
  activity: NotebookActivity,
  trans: TranslationBundle
): void {
  const shown = new Map<Cell, CellMark>();
  let shownCell: Cell | null = null;
  panel.content.activeCellChanged.connect((_, cell) => {
    if (cell !== null && cell === shownCell) {
      activity.dismiss();
    }
  });
  const update = (): void => {
    const cellOf = cellsOf(panel);
    const wanted = new Map<Cell, CombinedChange>();
    const pointed = activity.shown && (cellOf(activity.shown.cell) ?? null);
    if (pointed !== shownCell) {
      shownCell?.removeClass('tk-mod-shown');
      pointed?.addClass('tk-mod-shown');
      shownCell = pointed;
    }
    if (pointed !== null && activity.shown !== null) {
      wanted.set(pointed, activity.shown);
    }
    for (const mark of activity.marks.values()) {
      const cell = cellOf(mark.cell);
      if (cell !== undefined && mark.action !== 'delete') {
        wanted.set(cell, mark);
      }
    }
    for (const [cell, mark] of shown) {
      if (!wanted.has(cell)) {
        mark.dispose();
        shown.delete(cell);
      }
    }
    for (const [cell, mark] of wanted) {
      const known = shown.get(cell);
      if (known === undefined) {
        shown.set(cell, new CellMark(cell, activity, trans, mark));
      } else {
        known.mark = mark;
      }
    }
  };
  follow(panel, activity, update);
}

/** Show `[*]` in the prompts of cells that agents run. The document is not changed. */
export function showRunning(panel: NotebookPanel, activity: NotebookActivity): void {
  let shown = new Set<Cell>();
  const update = (): void => {
    const cellOf = cellsOf(panel);
    const cells = activity.running.map(({ cell }) => cellOf(cell));
    const runs = new Set(cells.filter(cell => cell !== undefined));
    for (const cell of shown) {
      if (!runs.has(cell) && !cell.isDisposed) {
        cell.removeClass('tk-mod-running');
        resetPrompt(cell);
      }
    }
    for (const cell of runs) {
      cell.addClass('tk-mod-running');
      void cell.ready.then(() => {
        if (!cell.isDisposed && cell.hasClass('tk-mod-running')) {
          setPrompt(cell, '*');
        }
      });
    }
    shown = runs;
  };
  follow(panel, activity, update);
}

/** Reset the prompt of a cell to that of its model. */
function resetPrompt(cell: Cell): void {
  const { execution_count: count } = cell.model.sharedModel as { execution_count?: number | null };
  const { executionState } = cell.model.sharedModel as { executionState?: string };
  if (cell.model.type === 'code') {
    setPrompt(cell, executionState === 'running' ? '*' : String(count ?? ''));
  }
}

function setPrompt(cell: Cell, prompt: string): void {
  // The alternative is the model's execution state, which would change the document.
  // oxlint-disable-next-line typescript/no-deprecated
  cell.setPrompt(prompt);
}

function follow(panel: NotebookPanel, activity: NotebookActivity, update: () => void): void {
  onCells(panel, update);
  activity.changed.connect(update);
  panel.disposed.connect(() => activity.changed.disconnect(update));
}
