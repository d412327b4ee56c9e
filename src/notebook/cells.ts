import type { Cell } from '@jupyterlab/cells';
import type { CellList, NotebookPanel } from '@jupyterlab/notebook';
import type { Widget } from '@lumino/widgets';

import { insertIntoCell } from '../lab/cellLayout';
import { placeOf } from './marks';

/** How the cells that a notebook has at this moment are found by their keys. */
export function cellsOf({
  content: { widgets }
}: NotebookPanel): (key: string) => Cell | undefined {
  const ids = widgets.map(cell => cell.model.id);
  return key => widgets[placeOf(key, ids)];
}

/** The cell of a notebook with this key; undefined where it is gone. */
export const cellOf = (panel: NotebookPanel, key: string): Cell | undefined => cellsOf(panel)(key);

/** Goes to a cell, which happens only where a person asked for it. */
export async function goTo(panel: NotebookPanel, key: string): Promise<void> {
  const cell = cellOf(panel, key);
  if (cell !== undefined) {
    const place = panel.content.widgets.indexOf(cell);
    panel.content.activeCellIndex = place;
    await panel.content.scrollToItem(place, 'smart');
    cell.node.focus({ preventScroll: true });
  }
}

/** Lets a person go on in a notebook: at the first mark of what agents changed, or where they were. */
export function focusOn({ content }: NotebookPanel): void {
  if (!content.isDisposed) {
    const mark = content.node.querySelector<HTMLElement>('.tk-Mark');
    (mark ?? content.activeCell?.node ?? content.node).focus({ preventScroll: true });
  }
}

/**
 * Puts a widget into a cell.
 *
 * Keys that are pressed in it are its own, not the notebook's.
 *
 * @param place - Below the code, or at the cell's end.
 */
export function putInto(cell: Cell, widget: Widget, place: 'below-input' | 'end'): void {
  widget.node.dataset['lmSuppressShortcuts'] = 'true';
  void cell.ready.then(() => {
    if (!cell.isDisposed && !widget.isDisposed) {
      insertIntoCell(cell, widget, place);
    }
  });
}

/**
 * Calls back, once for all that happens in a moment, when a notebook has other cells.
 *
 * Moving a cell or changing its type makes a new widget for it.
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
 * Calls back at once when a notebook's model has other cells, until this view of it is closed: other
 * views of the notebook, and with them its model, may stay.
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
