import type { MimeData } from '@lumino/coreutils';
import { Widget } from '@lumino/widgets';

import { report } from './features';

/** Paths, as the file browser gives them to whoever is dragged to. */
const FILES = 'application/x-jupyter-icontents';
/** Cells, as a notebook does. */
const CELLS = 'application/vnd.jupyter.cells';

/** What is dragged within JupyterLab: paths of files, or the ids of cells. */
export type Dragged =
  | { readonly kind: 'files'; readonly paths: readonly string[] }
  | { readonly kind: 'cells'; readonly ids: readonly string[] };

/**
 * The files or cells that are dragged; null where it is something else.
 *
 * Nothing tells before a drag what it carries: where a notebook or the file browser has something
 * unknown dragged, the feature is switched off.
 */
export function draggedIn(data: MimeData, source: unknown): Dragged | null {
  if (data.hasData(FILES)) {
    return { kind: 'files', paths: data.getData(FILES) as string[] };
  }
  if (data.hasData(CELLS)) {
    const cells = data.getData(CELLS) as { id?: string }[];
    return { kind: 'cells', ids: cells.flatMap(({ id }) => (id === undefined ? [] : [id])) };
  }
  if (source instanceof Widget && /\bjp-(Notebook|DirListing)\b/.test(source.node.className)) {
    report('dragging', false);
  }
  return null;
}
