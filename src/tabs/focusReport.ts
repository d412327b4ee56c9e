import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';

import { seenIn, selectionOf } from '../notebook/seen';

/** Milliseconds without a change after which the server learns of it. */
const REST = 200;

/** Tells the server what the person looks at in the current notebook, whenever that has changed. */
export class FocusReport {
  /**
   * @param _idOf - Returns the page's id for a notebook that the server knows.
   * @param _send - Sends a message and returns whether the connection is open.
   */
  constructor(
    private readonly _tracker: INotebookTracker,
    private readonly _idOf: (panel: NotebookPanel) => string | undefined,
    private readonly _send: (message: object) => boolean
  ) {
    const soon = (): void => this.soon();
    _tracker.currentChanged.connect(soon);
    _tracker.activeCellChanged.connect(soon);
    _tracker.selectionChanged.connect(soon);
    document.addEventListener('selectionchange', soon);
  }

  /** Report after a moment. */
  soon(): void {
    window.clearTimeout(this._timer);
    this._timer = window.setTimeout(() => this._report(), REST);
  }

  /** Report again what the server has forgotten with the former connection. */
  again(): void {
    this._last = '';
    this.soon();
  }

  private _report(): void {
    const panel = this._tracker.currentWidget;
    const focus = panel && this._idOf(panel);
    if (panel === null || focus == null) {
      return;
    }
    const { cell, selected } = seenIn(panel, '');
    const editor = panel.content.activeCell?.editor;
    const found = cell && editor ? selectionOf(editor, { cell: cell.id }) : null;
    const selection = found && {
      text: found.text,
      first_line: found.first_line,
      last_line: found.last_line
    };
    const focused = document.hasFocus();
    const message = { focus, focused, cell: cell?.id ?? null, selected, selection };
    const said = JSON.stringify(message);
    if (said !== this._last && this._send(message)) {
      this._last = said;
    }
  }

  private _timer = 0;
  private _last = '';
}
