import type { Cell } from '@jupyterlab/cells';
import type { PanelLayout, Widget } from '@lumino/widgets';

/** The part of a cell that holds its prompt and its editor. */
const INPUT = 'jp-Cell-inputWrapper';

/**
 * Insert a widget into a cell that is rendered.
 *
 * @param place - Below the code, or at the cell's end.
 */
export function insertIntoCell(cell: Cell, widget: Widget, place: 'below-input' | 'end'): void {
  const layout = cell.layout as PanelLayout;
  const input = layout.widgets.findIndex(each => each.hasClass(INPUT));
  // The last one is the cell's footer.
  layout.insertWidget(place === 'end' ? layout.widgets.length - 1 : input + 1, widget);
}
