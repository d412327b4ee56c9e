/** What has to be done to the cells of an open notebook so that they are those of its file. */

import type * as nbformat from '@jupyterlab/nbformat';
import type { ReadonlyJSONValue } from '@lumino/coreutils';
import { JSONExt } from '@lumino/coreutils';

import type { ISourceEdit, Step } from './protocol';

/**
 * Steps from the cells that are there to those that are wanted, which leave alone what is the same.
 *
 * Cells are told by their ids. Of those in another order as many as can stay where they are.
 *
 * @returns null where cells cannot be told apart, or none is wanted.
 */
export function stepsTo(
  present: readonly nbformat.ICell[],
  wanted: readonly nbformat.ICell[]
): Step[] | null {
  const there = byId(present);
  const then = byId(wanted);
  if (there === null || then === null || wanted.length === 0) {
    return null;
  }
  const stay = staying([...there.keys()], [...then.keys()]);
  const steps: Step[] = [...there.keys()]
    .filter(id => !stay.has(id))
    .map(id => ({ do: 'delete', id }));
  [...then].forEach(([id, cell], index) => {
    const old = stay.has(id) ? there.get(id) : undefined;
    const step: Step | null =
      old === undefined ? { do: 'insert', index, cell } : change(id, old, cell);
    if (step !== null) {
      steps.push(step);
    }
  });
  return steps;
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

/** What makes a cell another one; null where it is the same. */
function change(id: string, old: nbformat.ICell, cell: nbformat.ICell): Step | null {
  const isOfAnotherKind =
    old.cell_type !== cell.cell_type ||
    !isSame(stored(old.metadata), stored(cell.metadata)) ||
    !isSame(old['attachments'] ?? {}, cell['attachments'] ?? {});
  if (isOfAnotherKind) {
    return { do: 'replace', id, cell };
  }
  const source = edits(text(old.source), text(cell.source));
  const step: Step = { do: 'set', id, ...(source.length > 0 && { source }) };
  if (cell.cell_type === 'code') {
    if (!isSame(old['outputs'] ?? [], cell['outputs'] ?? [])) {
      step.outputs = (cell['outputs'] ?? []) as nbformat.IOutput[];
    }
    const count = (cell['execution_count'] ?? null) as number | null;
    if (((old['execution_count'] ?? null) as number | null) !== count) {
      step.execution_count = count;
    }
  }
  return Object.keys(step).length > 2 ? step : null;
}

/** Metadata without what is said anew whenever a file is read. */
export function stored(metadata: object): object {
  return Object.fromEntries(Object.entries(metadata).filter(([key]) => key !== 'trusted'));
}

/** Whether two values are the same, or none is there. */
export function isSame(one: unknown, other: unknown): boolean {
  if (one === undefined || other === undefined) {
    return one === other;
  }
  return JSONExt.deepEqual(one as ReadonlyJSONValue, other as ReadonlyJSONValue);
}

/** A source as one text. */
export function text(source: nbformat.MultilineString): string {
  return Array.isArray(source) ? source.join('') : source;
}

/** The one edit between what is the same at both ends. */
function edits(old: string, now: string): ISourceEdit[] {
  if (old === now) {
    return [];
  }
  const shorter = Math.min(old.length, now.length);
  let start = 0;
  while (start < shorter && old[start] === now[start]) {
    start++;
  }
  let end = 0;
  while (end < shorter - start && old[old.length - 1 - end] === now[now.length - 1 - end]) {
    end++;
  }
  return [{ start, end: old.length - end, text: now.slice(start, now.length - end) }];
}

/** A sequence of things that stay, by where the last one of them is now. */
interface IChain {
  id: string;
  place: number;
  before: IChain | null;
}

/** As many ids as possible that stand in the same order before and after. */
export function staying(before: readonly string[], after: readonly string[]): Set<string> {
  const places = new Map(before.map((id, place) => [id, place]));
  // For each length the sequence that ends first: the longest rising subsequence of the places.
  const chains: IChain[] = [];
  for (const id of after) {
    const place = places.get(id);
    if (place === undefined) {
      continue;
    }
    let length = chains.findIndex(chain => chain.place > place);
    if (length < 0) {
      length = chains.length;
    }
    chains[length] = { id, place, before: chains[length - 1] ?? null };
  }
  const found = new Set<string>();
  for (let chain = chains.at(-1) ?? null; chain !== null; chain = chain.before) {
    found.add(chain.id);
  }
  return found;
}
