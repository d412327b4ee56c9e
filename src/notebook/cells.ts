import type { Cell } from '@jupyterlab/cells';
import type { CellList, NotebookPanel } from '@jupyterlab/notebook';
import type { Widget } from '@lumino/widgets';

import { insertIntoCell } from '../lab/internals';
import { cellOf } from './keys';

/** Activate a cell and scroll to it. Call this for actions of the person only. */
export async function goTo(panel: NotebookPanel, key: string): Promise<void> {
  const cell = cellOf(panel, key);
  if (cell !== undefined) {
    const place = panel.content.widgets.indexOf(cell);
    panel.content.activeCellIndex = place;
    await panel.content.scrollToItem(place, 'smart');
    cell.node.focus({ preventScroll: true });
  }
}

/** Focus the first change mark of a notebook, or its active cell. */
export function focusOn({ content }: NotebookPanel): void {
  if (!content.isDisposed) {
    const mark = content.node.querySelector<HTMLElement>('.tk-Mark');
    (mark ?? content.activeCell?.node ?? content.node).focus({ preventScroll: true });
  }
}

/**
 * Insert a widget into a cell.
 *
 * Shortcuts of the notebook are suppressed in it. The cell gets the focus if the widget is disposed
 * while it has it: without its element the focus would move to the top of the page.
 *
 * @param place - Below the code, or at the cell's end.
 */
export function putInto(cell: Cell, widget: Widget, place: 'below-input' | 'end'): void {
  widget.node.dataset['lmSuppressShortcuts'] = 'true';
  widget.disposed.connect(() => {
    if (!cell.isDisposed && widget.node.contains(document.activeElement)) {
      cell.node.focus({ preventScroll: true });
    }
  });
  void cell.ready.then(() => {
    if (!cell.isDisposed && !widget.isDisposed) {
      insertIntoCell(cell, widget, place);
    }
  });
}

/**
 * Call back in a microtask, coalesced, when the cells of a notebook have changed.
 *
 * Moving a cell or changing its type creates a new widget for it.
 */
export function onCells(panel: NotebookPanel, changed: () => void): void {
  let due = false;
  onCellModels(panel, () => {
    if (!due) {
      due = true;
      queueMicrotask(() => {
        due = false;
        if (!panel.isDisposed) {
          changed();
        }
      });
    }
  });
}

/**
 * Call back synchronously when the cells of a notebook's model have changed, until this view is
 * closed. The model may live on in other views.
 */
export function onCellModels(panel: NotebookPanel, changed: () => void): void {
  let cells: CellList | undefined;
  const connect = (): void => {
    cells?.changed.disconnect(changed);
    cells = panel.content.model?.cells;
    cells?.changed.connect(changed);
    changed();
  };
  panel.content.modelChanged.connect(connect);
  panel.disposed.connect(() => cells?.changed.disconnect(changed));
  connect();
}
