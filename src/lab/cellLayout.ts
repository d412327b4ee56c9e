import type { Cell } from '@jupyterlab/cells';
import type { PanelLayout, Widget } from '@lumino/widgets';

import { report } from './features';

/** The part of a cell with its prompt and editor. */
const INPUT = 'jp-Cell-inputWrapper';

/**
 * Insert a widget into a rendered cell. If the cell's parts are unknown, it is added as the last one.
 *
 * @param place - Below the code, or at the cell's end.
 */
export function insertIntoCell(cell: Cell, widget: Widget, place: 'below-input' | 'end'): void {
  const layout = cell.layout as PanelLayout;
  const input = layout.widgets.findIndex(each => each.hasClass(INPUT));
  report('controls', input >= 0);
  // The last one is the cell's footer.
  const end = layout.widgets.length - 1;
  layout.insertWidget(input < 0 ? end + 1 : place === 'end' ? end : input + 1, widget);
}
