/** Comparison of cells, independent of how they are serialized. */

import type * as nbformat from '@jupyterlab/nbformat';
import type { PartialJSONObject, ReadonlyJSONValue } from '@lumino/coreutils';
import { JSONExt } from '@lumino/coreutils';

/** A cell in a normal form, without its trust. */
export interface INormal extends Record<string, unknown> {
  source: string;
  metadata: PartialJSONObject;
  outputs?: nbformat.IOutput[];
  execution_count?: number | null;
}

/** Return cells by their ids; null if an id is missing or occurs twice. */
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

/** Return the normal form of a cell. */
export function normal(cell: nbformat.ICell): INormal {
  const { source, metadata, attachments, outputs, execution_count: count, ...rest } = cell;
  const isCode = cell.cell_type === 'code';
  return {
    ...rest,
    source: Array.isArray(source) ? source.join('') : source,
    metadata: normalMetadata(metadata),
    ...(!isCode && { attachments: attachments ?? {} }),
    ...(isCode && { outputs: (outputs ?? []) as nbformat.IOutput[] }),
    ...(isCode && { execution_count: (count ?? null) as number | null })
  };
}

/** JupyterLab has two keys for hidden outputs. Trust is not part of the content. */
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

/** Return whether two values are deeply equal, or both undefined. */
export function isSame(one: unknown, other: unknown): boolean {
  if (one === undefined || other === undefined) {
    return one === other;
  }
  return JSONExt.deepEqual(one as ReadonlyJSONValue, other as ReadonlyJSONValue);
}

/** Return the fields of a cell that differ from those of a former form of it. */
export function changedFields(old: nbformat.ICell, cell: nbformat.ICell): Partial<INormal> {
  const [was, is] = [normal(old), normal(cell)];
  const isChanged = ([name, value]: [string, unknown]): boolean =>
    name !== 'id' && !isSame(value, was[name]);
  return Object.fromEntries(Object.entries(is).filter(isChanged));
}

/** Return whether two notebooks have the same format version. */
export function isOfOneFormat(
  one: nbformat.INotebookContent,
  other: nbformat.INotebookContent
): boolean {
  return one.nbformat === other.nbformat && one.nbformat_minor === other.nbformat_minor;
}
