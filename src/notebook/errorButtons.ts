import type { Cell, ICodeCellModel } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { IDisposable } from '@lumino/disposable';
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
  const shown = new Map<Cell, ErrorButtons>();
  onCells(panel, () => {
    const cells = new Set(panel.content.widgets);
    for (const [cell, buttons] of shown) {
      if (!cells.has(cell)) {
        buttons.dispose();
        shown.delete(cell);
      }
    }
    for (const cell of cells) {
      const outputs = outputsOf(cell.model);
      if (outputs !== null && !shown.has(cell)) {
        shown.set(cell, new ErrorButtons(cell, outputs, task => ask(task, panel, cell), trans));
      }
    }
  });
}

type Outputs = ICodeCellModel['outputs'];
type OutputsChange = Parameters<Parameters<Outputs['changed']['connect']>[0]>[1];

function countErrors(outputs: readonly { type: string }[]): number {
  return outputs.filter(({ type }) => type === 'error').length;
}

/** The buttons of one cell, shown while its outputs have an error. */
class ErrorButtons implements IDisposable {
  constructor(
    private readonly _cell: Cell,
    private readonly _outputs: Outputs,
    private readonly _ask: (task: CellTask) => void,
    private readonly _trans: TranslationBundle
  ) {
    _outputs.changed.connect(this._onChanged);
    // The outputs may live on in another view.
    _cell.disposed.connect(() => this.dispose());
    for (let place = 0; place < _outputs.length; place++) {
      this._errors += countErrors([_outputs.get(place)]);
    }
    this._update();
  }

  get isDisposed(): boolean {
    return this._disposed;
  }

  dispose(): void {
    this._disposed = true;
    this._buttons?.dispose();
    this._outputs.changed.disconnect(this._onChanged);
  }

  /** Look at the changed outputs only: a cell may have a hundred thousand. */
  private readonly _onChanged = (_: object, { newValues, oldValues }: OutputsChange): void => {
    this._errors += countErrors(newValues) - countErrors(oldValues);
    this._update();
  };

  private _update(): void {
    const wanted = this._errors > 0;
    if (wanted && this._buttons === null) {
      this._buttons = this._createButtons();
      putInto(this._cell, this._buttons, 'end');
    } else if (!wanted) {
      this._buttons?.dispose();
      this._buttons = null;
    }
  }

  private _createButtons(): Widget {
    const widget = new Widget();
    widget.addClass('tk-Failed');
    widget.node.setAttribute('role', 'group');
    widget.node.setAttribute('aria-label', this._trans.__('Ask Claude about this error'));
    const add = (task: CellTask, label: string, title: string): void => {
      const button = document.createElement('button');
      button.type = 'button';
      button.className = 'tk-CellButton';
      button.textContent = label;
      button.title = title;
      button.addEventListener('click', () => this._ask(task));
      widget.node.append(button);
    };
    add('fix', this._trans.__('Fix'), this._trans.__('Ask Claude to fix this cell'));
    add('explain', this._trans.__('Explain'), this._trans.__('Ask Claude to explain this error'));
    return widget;
  }

  /** The number of errors among the outputs. */
  private _errors = 0;
  private _buttons: Widget | null = null;
  private _disposed = false;
}
