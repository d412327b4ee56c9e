import type { MimeData } from '@lumino/coreutils';
import { Widget } from '@lumino/widgets';

import { report } from './features';

/** MIME type of dragged paths, from the file browser. */
const FILES = 'application/x-jupyter-icontents';
/** MIME type of dragged cells, from a notebook. */
const CELLS = 'application/vnd.jupyter.cells';

/** What is dragged within JupyterLab: paths of files, or the ids of cells. */
export type Dragged =
  | { readonly kind: 'files'; readonly paths: readonly string[] }
  | { readonly kind: 'cells'; readonly ids: readonly string[] };

/**
 * Return the files or cells that are dragged; null for anything else.
 *
 * The MIME types cannot be checked before a drag: if a notebook or the file browser sends an unknown
 * one, the feature is switched off.
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
