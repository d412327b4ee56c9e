/** The steps that turn the cells of an open notebook into those of its file. */

import type * as nbformat from '@jupyterlab/nbformat';

import { textEdit } from '../common/sourceEdit';
import { byId, changedFields, normal } from './cells';
import type { Step } from './protocol';

/**
 * Return the steps from the present cells to the wanted ones. Equal cells are not touched.
 *
 * Cells are matched by their ids. As few as possible are moved.
 *
 * @returns null if ids are missing or not unique, or no cell is wanted.
 */
export function diffSteps(
  present: readonly nbformat.ICell[],
  wanted: readonly nbformat.ICell[]
): Step[] | null {
  const there = byId(present);
  const then = byId(wanted);
  if (there === null || then === null || wanted.length === 0) {
    return null;
  }
  const stay = unmovedIds([...there.keys()], [...then.keys()]);
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

/** Return the step that changes a cell; null if it is equal. */
function change(id: string, old: nbformat.ICell, cell: nbformat.ICell): Step | null {
  const { source, ...fields } = changedFields(old, cell);
  if ('cell_type' in fields || 'attachments' in fields) {
    return { do: 'replace', id, cell };
  }
  const edits = source !== undefined && { source: [textEdit(normal(old).source, source)] };
  return edits || Object.keys(fields).length > 0 ? { do: 'set', id, ...fields, ...edits } : null;
}

/** A sequence of ids that are not moved, by the place of its last one. */
interface IChain {
  id: string;
  place: number;
  before: IChain | null;
}

/** Return how many of the chains, which are sorted, end before a place. */
function countBefore(chains: readonly IChain[], place: number): number {
  let [from, to] = [0, chains.length];
  while (from < to) {
    const middle = (from + to) >> 1;
    if ((chains[middle] as IChain).place < place) {
      from = middle + 1;
    } else {
      to = middle;
    }
  }
  return from;
}

/** Return the longest list of ids that have the same order before and after. */
export function unmovedIds(before: readonly string[], after: readonly string[]): Set<string> {
  const places = new Map(before.map((id, place) => [id, place]));
  // Longest increasing subsequence: for each length, the sequence with the smallest end.
  const chains: IChain[] = [];
  for (const id of after) {
    const place = places.get(id);
    if (place === undefined) {
      continue;
    }
    const length = countBefore(chains, place);
    chains[length] = { id, place, before: chains[length - 1] ?? null };
  }
  const found = new Set<string>();
  for (let chain = chains.at(-1) ?? null; chain !== null; chain = chain.before) {
    found.add(chain.id);
  }
  return found;
}
