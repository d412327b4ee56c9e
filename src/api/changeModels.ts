/* Written by scripts/typescript.py, from the models of the server's routes. */

import type { TakenBack } from './models';

/** A change to a notebook. */
export interface ChangeInfo {
  /** The change's number, for undo. */
  entry: number;
  time: number;
  author: string;
  tool: string;
  /** The turn of a chat. */
  turn: string | null;
  /** Whether an agent of yours made it. */
  yours: boolean;
  summary: string;
  cells: readonly ChangedCell[];
}
/** The newest changes to a notebook that were not undone. */
export interface ChangeList {
  changes: readonly ChangeInfo[];
  /** Whether there are older ones. */
  more: boolean;
}
/** A cell of a change. */
export interface ChangedCell {
  cell: string;
  action: 'insert' | 'replace' | 'delete' | 'move' | 'outputs';
  /** Unified diff of its source. */
  diff: string;
  truncated: boolean;
}
/** A change of a chat that was not undone. */
export interface ChatChange {
  /** As the event `cell_change` names it. */
  entry: number;
  turn: string | null;
  /** Its path now. */
  notebook: string;
  time: number;
  /** The cells whose change was not undone. */
  cells: readonly string[];
}
/** The changes of a chat that were not undone. */
export interface ChatChanges {
  changes: readonly ChatChange[];
  /** Earlier changes are not listed. */
  since: number;
}
/** What several changes did to one cell. */
export interface NetChange {
  /** The path. */
  notebook: string;
  /** The cell's key. */
  cell: string;
  /** insert, replace, delete, move or outputs. */
  action: 'insert' | 'replace' | 'delete' | 'move' | 'outputs';
  /** Its index after the last change; before it, if it was deleted. */
  index: number;
  /** code, markdown or raw. */
  cell_type: string;
  /** The source before and after; empty where there was or is no cell. */
  before: string;
  /** The source before and after; empty where there was or is no cell. */
  after: string;
  /** The removed and added lines, as the event `cell_change` has them. */
  diff: string;
  /** Whether a source is too long: then these three are empty. */
  truncated: boolean;
}
/** What a turn changed, by cell. */
export interface NetChanges {
  changes: readonly NetChange[];
}
/** The result of an undo. */
export interface UndoneChanges {
  undone: readonly TakenBack[];
  /** Numbers of entries that are no changes to undo in this notebook (any more). */
  missing: readonly number[];
}
/** What was undone in each notebook, and what stays. */
export interface UndoneTurn {
  notebooks: readonly TakenBack[];
}
