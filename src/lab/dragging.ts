import type { MimeData } from '@lumino/coreutils';

/** Paths, as the file browser gives them to whoever is dragged to. */
const FILES = 'application/x-jupyter-icontents';
/** Cells, as a notebook does. */
const CELLS = 'application/vnd.jupyter.cells';

/** What is dragged within JupyterLab: paths of files, or the ids of cells. */
export type Dragged =
  | { readonly kind: 'files'; readonly paths: readonly string[] }
  | { readonly kind: 'cells'; readonly ids: readonly string[] };

/** The files or cells that are dragged; null where it is something else. */
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
