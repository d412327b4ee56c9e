/**
 * The names of cells outside of the page, both ways. They are the server's keys: see `cell_keys` there.
 *
 * An id alone is no name: notebooks before format 4.5 store none, and a cell that is pasted after its cut
 * was undone has the id of another one.
 */

import type { Cell, ICellModel } from '@jupyterlab/cells';
import type { INotebookModel, NotebookPanel } from '@jupyterlab/notebook';

const NUMBERED = /^cell-(\d{1,9})$/;

/**
 * Return the keys of a notebook's cells, in order: the id if it is stored and unique, else `cell-N`.
 *
 * @param cells - Its cells. Default: those of the model.
 */
export function keysOf(
  model: INotebookModel | null,
  cells: readonly Pick<ICellModel, 'id'>[] = [...(model?.cells ?? [])]
): string[] {
  const counts = new Map<string, number>();
  if (!isWithoutIds(model)) {
    cells.forEach(({ id }) => counts.set(id, (counts.get(id) ?? 0) + 1));
  }
  const isUnique = ({ id }: Pick<ICellModel, 'id'>): boolean => counts.get(id) === 1;
  const every = cells.every(isUnique);
  return cells.map((cell, index) =>
    isUnique(cell) && (every || !NUMBERED.test(cell.id)) ? cell.id : `cell-${index}`
  );
}

function isWithoutIds(model: INotebookModel | null): boolean {
  const { nbformat = 4, nbformatMinor = 5 }: Partial<INotebookModel> = model ?? {};
  return nbformat < 4 || (nbformat === 4 && nbformatMinor < 5);
}

/** Return the keys of the cells in a view. */
export function keysIn({ content }: NotebookPanel): string[] {
  return keysOf(
    content.model,
    content.widgets.map(cell => cell.model)
  );
}

/** Return the keys of some cells in a view. */
export function keysOfCells(panel: NotebookPanel, cells: readonly Cell[]): string[] {
  const keys = keysIn(panel);
  const places = new Map(panel.content.widgets.map((cell, place) => [cell, place]));
  return cells.map(cell => keys[places.get(cell) ?? -1] ?? cell.model.id);
}

/**
 * Return the keys for names of cells that another extension may have taken from its models.
 *
 * @param names - Keys or ids. One that is neither stays as it is.
 */
export function keysFor(panel: NotebookPanel | undefined, names: readonly string[]): string[] {
  if (panel === undefined) {
    return [...names];
  }
  const keys = keysIn(panel);
  const ids = panel.content.widgets.map(cell => cell.model.id);
  return names.map(name => (keys.includes(name) ? name : (keys[ids.indexOf(name)] ?? name)));
}

/** Return a function that finds the present cells of a notebook by their keys. */
export function cellsOf(panel: NotebookPanel): (key: string) => Cell | undefined {
  const keys = keysIn(panel);
  return key => panel.content.widgets[placeOf(key, keys)];
}

/** Return the cell of a notebook with this key; undefined if it is gone. */
export const cellOf = (panel: NotebookPanel, key: string): Cell | undefined => cellsOf(panel)(key);

/**
 * Return the index of a cell among cells with these keys; -1 if it is not there.
 *
 * A number is found, too, where the cells have got ids since.
 */
export function placeOf(cell: string, keys: readonly string[]): number {
  const place = keys.indexOf(cell);
  const number = NUMBERED.exec(cell)?.[1];
  return place >= 0 || number === undefined || Number(number) >= keys.length
    ? place
    : Number(number);
}
