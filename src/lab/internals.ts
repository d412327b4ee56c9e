/** Uses of JupyterLab beyond its public interface, with those of `context`. The self-test checks them. */

import type { Cell, CellModel, ICodeCellModel } from '@jupyterlab/cells';
import type { MimeData } from '@lumino/coreutils';
import type { PanelLayout, Widget } from '@lumino/widgets';

import { works } from './features';

/** The private member of a cell and its outputs with their trust. */
const TRUSTED = '_trusted';

/**
 * Withdraw the trust from new outputs of a cell, and do not change the present ones.
 *
 * The model's own setter writes the present outputs again, to a document that others may be writing. So
 * its private members are set, if the self-test has shown that this works.
 */
export function withdrawTrust(cell: ICodeCellModel): void {
  if (!cell.trusted) {
    return;
  }
  if (works('trust') === true && TRUSTED in cell && TRUSTED in cell.outputs) {
    Object.assign(cell.outputs, { [TRUSTED]: false });
    Object.assign(cell, { [TRUSTED]: false });
    const { stateChanged } = cell as unknown as Pick<CellModel, 'stateChanged'>;
    stateChanged.emit({ name: 'trusted', oldValue: true, newValue: false });
  } else {
    cell.trusted = false;
  }
}

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
  // The last one is the cell's footer.
  const end = layout.widgets.length - 1;
  layout.insertWidget(input < 0 ? end + 1 : place === 'end' ? end : input + 1, widget);
}

/** MIME type of dragged paths, from the file browser. */
const FILES = 'application/x-jupyter-icontents';
/** MIME type of dragged cells, from a notebook. */
const CELLS = 'application/vnd.jupyter.cells';

/** What is dragged within JupyterLab: paths of files, or the ids of cells. */
export type Dragged =
  | { readonly kind: 'files'; readonly paths: readonly string[] }
  | { readonly kind: 'cells'; readonly ids: readonly string[] };

/** Return the files or cells that are dragged; null for anything else. */
export function draggedIn(data: MimeData): Dragged | null {
  if (data.hasData(FILES)) {
    return { kind: 'files', paths: data.getData(FILES) as string[] };
  }
  if (data.hasData(CELLS)) {
    const cells = data.getData(CELLS) as { id?: string }[];
    return { kind: 'cells', ids: cells.flatMap(({ id }) => (id === undefined ? [] : [id])) };
  }
  return null;
}
