/** What a notebook is after two have changed it: its person in the page, and others in its file. */

import type * as nbformat from '@jupyterlab/nbformat';

import { byId, isOfOneFormat, isSame, normal } from './cells';

/** Thrown where both sides changed the same. */
class Conflict extends Error {}

/**
 * Both sides' changes of a notebook.
 *
 * Cells are told by their ids. A cell's source, its outputs and each other part of it may be changed
 * by one side only, and so may the order of the cells.
 *
 * @param base - the file as the page last read or wrote it.
 * @returns null where both changed the same, or cells cannot be told apart.
 */
export function merged(
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
      cells: mergedCells(told(base.cells), told(mine.cells), told(theirs.cells)),
      metadata: mergedMetadata(base.metadata, mine.metadata, theirs.metadata)
    };
  } catch (error) {
    if (error instanceof Conflict) {
      return null;
    }
    throw error;
  }
}

/** A value that only one side may have changed. */
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

/** An object of which each part may be changed by one side. */
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
  // JupyterLab fills in what a file lacks, and what its kernel is.
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

function told(cells: readonly nbformat.ICell[]): Cells {
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

/** A cell; undefined where one side deleted it. */
function mergedCell(
  base: nbformat.ICell | undefined,
  mine: nbformat.ICell | undefined,
  theirs: nbformat.ICell | undefined
): nbformat.ICell | undefined {
  const [was, here, there] = [base && parts(base), mine && parts(mine), theirs && parts(theirs)];
  if (here === undefined || there === undefined) {
    return chosen(was, here, there) && (mine ?? theirs);
  }
  const { ran, ...rest } = chosenParts(was ?? {}, here, there);
  // Outputs are as trusted as where they are from.
  const { trusted } = (isSame(ran, here['ran']) ? mine : theirs)?.metadata ?? {};
  const metadata = { ...(rest['metadata'] as object), ...(trusted !== undefined && { trusted }) };
  return { ...rest, ...(ran as object), metadata } as unknown as nbformat.ICell;
}

/** What is compared of a cell: outputs go with their count. */
function parts(cell: nbformat.ICell): Parts {
  const { outputs, execution_count, ...rest } = normal(cell);
  return { ...rest, ...(cell.cell_type === 'code' && { ran: { outputs, execution_count } }) };
}

/** The order of the cells that are left: what one side added stands after what it stood after. */
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
