/** Cells as they are compared: what they hold, however it is written. */

import type * as nbformat from '@jupyterlab/nbformat';
import type { PartialJSONObject, ReadonlyJSONValue } from '@lumino/coreutils';
import { JSONExt } from '@lumino/coreutils';

/** A cell without what only says how it is written, or whom it is trusted by. */
export interface INormal extends Record<string, unknown> {
  source: string;
  metadata: PartialJSONObject;
  outputs?: nbformat.IOutput[];
  execution_count?: number | null;
}

/** Cells by their ids; null where one has none, or two have one. */
export function byId(cells: readonly nbformat.ICell[]): Map<string, nbformat.ICell> | null {
  const found = new Map<string, nbformat.ICell>();
  for (const cell of cells) {
    const { id } = cell;
    if (typeof id !== 'string' || found.has(id)) {
      return null;
    }
    found.set(id, cell);
  }
  return found;
}

/** What a cell holds. */
export function normal(cell: nbformat.ICell): INormal {
  const { source, metadata, attachments, outputs, execution_count: count, ...rest } = cell;
  const isCode = cell.cell_type === 'code';
  return {
    ...rest,
    source: Array.isArray(source) ? source.join('') : source,
    metadata: normalMetadata(metadata),
    ...(!isSame(attachments ?? {}, {}) && { attachments }),
    ...(isCode && { outputs: (outputs ?? []) as nbformat.IOutput[] }),
    ...(isCode && { execution_count: (count ?? null) as number | null })
  };
}

/** JupyterLab writes in two ways that outputs are hidden; whether they are trusted, the reader says. */
function normalMetadata(metadata: PartialJSONObject = {}): PartialJSONObject {
  const { collapsed, jupyter, ...rest } = metadata;
  delete rest['trusted'];
  const hidden = (jupyter as PartialJSONObject | undefined)?.['outputs_hidden'] ?? collapsed;
  if (hidden === undefined) {
    return { ...rest, ...(jupyter !== undefined && { jupyter }) };
  }
  const both = { ...(jupyter as PartialJSONObject | undefined), outputs_hidden: hidden };
  return { ...rest, collapsed: hidden, jupyter: both };
}

/** Whether two values are the same, or none is there. */
export function isSame(one: unknown, other: unknown): boolean {
  if (one === undefined || other === undefined) {
    return one === other;
  }
  return JSONExt.deepEqual(one as ReadonlyJSONValue, other as ReadonlyJSONValue);
}

/** Whether two notebooks are of one format. */
export function isOfOneFormat(
  one: nbformat.INotebookContent,
  other: nbformat.INotebookContent
): boolean {
  return one.nbformat === other.nbformat && one.nbformat_minor === other.nbformat_minor;
}

/** Whether two notebooks have the same cells. */
export function isSameContent(
  one: nbformat.INotebookContent,
  other: nbformat.INotebookContent
): boolean {
  return isSame(one.cells.map(normal), other.cells.map(normal));
}
