/** Changes of cells that need a person's decision. Pure functions. */

import type { TranslationBundle } from '@jupyterlab/translation';

import type { ICellsByEntry } from '../api/client';
import type { CombinedChange, UndoResult } from '../api/events';

/** Return whether a change's key is that of a text file, which an agent has changed with its built-in tools. */
export function isFile(key: string): boolean {
  return key.startsWith('file:');
}

/** Return these changes as the server keeps or undoes them. */
export function cellsByEntry(changes: Iterable<CombinedChange>): ICellsByEntry {
  const cells: ICellsByEntry = {};
  for (const { cell, entries } of changes) {
    for (const entry of entries) {
      (cells[entry] ??= []).push(cell);
    }
  }
  return cells;
}

/** Return a message about cells that were not undone; empty for none. */
export function leftNote(undone: readonly UndoResult[], trans: TranslationBundle): string {
  const count = undone.flatMap(({ left }) => left).length;
  if (undone.some(({ notebook, left }) => left.length > 0 && !notebook.endsWith('.ipynb'))) {
    return trans._n('%1 change was not undone.', '%1 changes were not undone.', count);
  }
  return count === 0
    ? ''
    : trans._n(
        '%1 cell was not undone: it was edited later, or was undone before.',
        '%1 cells were not undone: they were edited later, or were undone before.',
        count
      );
}

/** Return a message about an undo: how many cells are as before, and how many are not. */
export function undoneNote(undone: readonly UndoResult[], trans: TranslationBundle): string {
  const keys = undone.flatMap(({ cells }) => cells);
  const count = keys.length;
  const done = keys.some(isFile)
    ? trans._n('%1 change undone.', '%1 changes undone.', count)
    : count === 0
      ? ''
      : trans._n('%1 cell undone.', '%1 cells undone.', count);
  return [done, leftNote(undone, trans)].join(' ').trim();
}
