import type { Cell, ICodeCellModel } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';

import { outputsOf } from './cellOutputs';
import type { CellTask } from './commands';
import { onCells, putInto } from './cells';

/** Sends a task about a cell to Claude. */
export type AskAboutCell = (task: CellTask, panel: NotebookPanel, cell: Cell) => void;

/** Add "Fix" and "Explain" below the traceback of each failed cell. */
export function addErrorButtons(
  panel: NotebookPanel,
  ask: AskAboutCell,
  trans: TranslationBundle
): void {
  const known = new WeakSet<Cell>();
  onCells(panel, () => {
    for (const cell of panel.content.widgets) {
      const outputs = outputsOf(cell.model);
      if (outputs !== null && !known.has(cell)) {
        known.add(cell);
        watch(cell, outputs, () => buttonsOf(task => ask(task, panel, cell), trans));
      }
    }
  });
}

type Outputs = ICodeCellModel['outputs'];
type OutputsChange = Parameters<Parameters<Outputs['changed']['connect']>[0]>[1];

function countErrors(outputs: readonly { type: string }[]): number {
  return outputs.filter(({ type }) => type === 'error').length;
}

/** Show a cell's buttons while its outputs have an error. */
function watch(cell: Cell, outputs: Outputs, make: () => Widget): void {
  let errors = 0;
  let buttons: Widget | null = null;
  const count = (change: number): void => {
    errors += change;
    if (errors > 0 && buttons === null) {
      buttons = make();
      putInto(cell, buttons, 'end');
    } else if (errors === 0) {
      buttons?.dispose();
      buttons = null;
    }
  };
  // Only the changed outputs are counted: a cell may have a hundred thousand.
  const onChanged = (_: object, { newValues, oldValues }: OutputsChange): void =>
    count(countErrors(newValues) - countErrors(oldValues));
  outputs.changed.connect(onChanged);
  // The outputs may live on in another view.
  cell.disposed.connect(() => outputs.changed.disconnect(onChanged));
  count(countErrors(Array.from({ length: outputs.length }, (_, place) => outputs.get(place))));
}

function buttonsOf(ask: (task: CellTask) => void, trans: TranslationBundle): Widget {
  const widget = new Widget();
  widget.addClass('tk-Failed');
  widget.node.setAttribute('role', 'group');
  widget.node.setAttribute('aria-label', trans.__('Ask Claude about this error'));
  const add = (task: CellTask, label: string, title: string): void => {
    const button = document.createElement('button');
    button.type = 'button';
    button.className = 'tk-CellButton';
    button.textContent = label;
    button.title = title;
    button.addEventListener('click', () => ask(task));
    widget.node.append(button);
  };
  add('fix', trans.__('Fix'), trans.__('Ask Claude to fix this cell'));
  add('explain', trans.__('Explain'), trans.__('Ask Claude to explain this error'));
  return widget;
}
