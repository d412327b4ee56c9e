/** Three-way merge of a notebook: its file as last read, the open document, and its file now. */

import type * as nbformat from '@jupyterlab/nbformat';

import { byId, isOfOneFormat, isSame, normal } from './cells';

/** Thrown if both sides changed the same part. */
class Conflict extends Error {}

/**
 * Merge both sides' changes of a notebook.
 *
 * Cells are matched by their ids. One side only may change the order of cells, and each part of a
 * cell: its source, or any other part. Of outputs that both sides changed, those of the file count.
 *
 * @param base - The file as the page last read or wrote it.
 * @returns null on a conflict, or if ids are missing or not unique.
 */
export function threeWayMerge(
  base: nbformat.INotebookContent,
  mine: nbformat.INotebookContent,
  theirs: nbformat.INotebookContent
): nbformat.INotebookContent | null {
  if (!isOfOneFormat(mine, theirs)) {
    return null;
  }
  try {
    return {
      ...mine,
      cells: mergedCells(cellsById(base.cells), cellsById(mine.cells), cellsById(theirs.cells)),
      metadata: mergedMetadata(base.metadata, mine.metadata, theirs.metadata)
    };
  } catch (error) {
    if (error instanceof Conflict) {
      return null;
    }
    throw error;
  }
}

/**
 * Return the base of a merge with a file, after a save of which it is unknown whether it was made.
 *
 * @param before - The file before the save.
 * @param sent - What was saved; where the file has that, it is the base.
 */
export function baseAfter(
  before: nbformat.INotebookContent,
  sent: nbformat.INotebookContent,
  file: nbformat.INotebookContent
): nbformat.INotebookContent {
  const sides = [before, sent, file].map(each => byId(each.cells) ?? new Map());
  const [old, mine, now] = sides as [Cells, Cells, Cells];
  const form = (cell?: nbformat.ICell): object | undefined => cell && normal(cell);
  const isMade = (id: string): boolean => isSame(form(mine.get(id)), form(now.get(id)));
  const shared = (side: Cells): string[] =>
    [...side.keys()].filter(id => sides.every(each => each.has(id)));
  const first = isSame(shared(mine), shared(now)) ? mine : old;
  const ids = new Set([...first.keys(), ...old.keys(), ...mine.keys()]);
  const cells = [...ids].flatMap(id => (isMade(id) ? mine : old).get(id) ?? []);
  return { ...before, cells };
}

/** Return a value that at most one side has changed. */
function chosen<T>(base: T, mine: T, theirs: T): T {
  if (isSame(base, theirs) || isSame(mine, theirs)) {
    return mine;
  }
  if (isSame(base, mine)) {
    return theirs;
  }
  throw new Conflict();
}

type Parts = Record<string, unknown>;

/** Merge an object by its parts. */
function chosenParts(base: Parts, mine: Parts, theirs: Parts): Parts {
  const keys = Object.keys({ ...mine, ...theirs });
  const parts = keys.map(key => [key, chosen(base[key], mine[key], theirs[key])] as const);
  return Object.fromEntries(parts.filter(([, value]) => value !== undefined));
}

function mergedMetadata(
  base: nbformat.INotebookMetadata,
  mine: nbformat.INotebookMetadata,
  theirs: nbformat.INotebookMetadata
): nbformat.INotebookMetadata {
  // JupyterLab adds missing metadata and the kernel.
  const kernelspec = theirs.kernelspec ?? mine.kernelspec;
  const isOurs =
    theirs.language_info === undefined || !isSame(base.language_info, mine.language_info);
  const language_info = isOurs ? mine.language_info : theirs.language_info;
  return chosenParts(base, mine, {
    ...theirs,
    kernelspec,
    language_info
  }) as nbformat.INotebookMetadata;
}

// --- cells

type Cells = Map<string, nbformat.ICell>;

function cellsById(cells: readonly nbformat.ICell[]): Cells {
  const found = byId(cells);
  if (found === null) {
    throw new Conflict();
  }
  return found;
}

function mergedCells(base: Cells, mine: Cells, theirs: Cells): nbformat.ICell[] {
  const cells: Cells = new Map();
  for (const id of new Set([...mine.keys(), ...theirs.keys()])) {
    const cell = mergedCell(base.get(id), mine.get(id), theirs.get(id));
    if (cell !== undefined) {
      cells.set(id, cell);
    }
  }
  return mergedOrder(base, mine, theirs, cells).flatMap(id => cells.get(id) ?? []);
}

/** Merge a cell; undefined if one side deleted it. */
function mergedCell(
  base: nbformat.ICell | undefined,
  mine: nbformat.ICell | undefined,
  theirs: nbformat.ICell | undefined
): nbformat.ICell | undefined {
  const [was, here, there] = [base && parts(base), mine && parts(mine), theirs && parts(theirs)];
  if (here === undefined || there === undefined) {
    return chosen(was, here, there) && (mine ?? theirs);
  }
  // Outputs are from a run: what is in the file by now is the later part of it.
  const last = isSame(was?.['ran'], there['ran']) ? here['ran'] : there['ran'];
  const { ran, ...rest } = chosenParts(was ?? {}, { ...here, ran: last }, { ...there, ran: last });
  // Outputs keep the trust of their side.
  const { trusted } = (isSame(ran, here['ran']) ? mine : theirs)?.metadata ?? {};
  const metadata = { ...(rest['metadata'] as object), ...(trusted !== undefined && { trusted }) };
  return { ...rest, ...(ran as object), metadata } as unknown as nbformat.ICell;
}

/** Return the parts of a cell that are merged: outputs together with their count. */
function parts(cell: nbformat.ICell): Parts {
  const { outputs, execution_count, ...rest } = normal(cell);
  return { ...rest, ...(cell.cell_type === 'code' && { ran: { outputs, execution_count } }) };
}

/** Return the order of the remaining cells: an added cell follows its former predecessor. */
function mergedOrder(base: Cells, mine: Cells, theirs: Cells, left: Cells): string[] {
  const kept = (side: Cells): string[] => [...side.keys()].filter(id => left.has(id));
  const shared = (side: Cells): string[] =>
    kept(side).filter(id => base.has(id) && mine.has(id) && theirs.has(id));
  const inOrder = shared(mine);
  const isMine = chosen(shared(base), inOrder, shared(theirs)) === inOrder;
  const [first, second] = isMine ? [mine, theirs] : [theirs, mine];
  const found = kept(first);
  kept(second).forEach((id, index, ids) => {
    if (!first.has(id)) {
      found.splice(found.indexOf(ids[index - 1] ?? '') + 1, 0, id);
    }
  });
  return found;
}
