/** The messages between a page and the server about its open notebooks: see ADR 4. */

import type * as nbformat from '@jupyterlab/nbformat';
import type { PartialJSONObject } from '@lumino/coreutils';

import type { ITextEdit } from '../common/sourceEdit';

/** An open notebook as the page reports it. */
export interface ITabInfo {
  /** The page's id for it, which changes with a reload. */
  id: string;
  path: string;
  dirty: boolean;
  /** Whether all pages that have it open share it by collaboration. */
  shared: boolean;
  focused: boolean;
}

/** One step of a change. Indexes are those after the steps before. */
export type Step =
  | { do: 'insert'; index: number; cell: nbformat.ICell }
  | { do: 'delete'; id: string }
  | { do: 'move'; id: string; to: number }
  | { do: 'replace'; id: string; cell: nbformat.ICell }
  | {
      do: 'set';
      id: string;
      /** Edits, sorted from the end: offsets are those before all of them. */
      source?: ITextEdit[];
      metadata?: PartialJSONObject;
      outputs?: nbformat.IOutput[];
      execution_count?: number | null;
    };

/** One change of the outputs of a cell that runs. */
export type OutputChange =
  | { append: nbformat.IOutput }
  | { stream: number; cut: number; text: string }
  | { replace: number; output: nbformat.IOutput }
  | { clear: true };

export interface IRead {
  method: 'read';
  since: number;
}

/** What an open notebook has and its file lacks. The server writes it, and the page waits for that. */
export interface ILeft {
  /** The hash of the file. */
  base: string;
  /**
   * The cells by their numbers in the file, new ones by negative numbers, as runs of consecutive ones:
   * the first, and the one after the last.
   */
  order: [number, number][];
  /** The new cells, and of others the fields that differ, by these numbers. */
  cells: Record<number, object>;
}

export interface IApply {
  method: 'apply';
  op: string;
  /** The operation that this one takes back, if it was applied. */
  reverts?: string;
  /** The last version that the server knows. */
  since: number;
  /** What must not have changed since that version. The answer then leaves out the order. */
  needs: { order: boolean; cells: string[] };
  steps: Step[];
}

export interface IOutputs {
  method: 'outputs';
  cell: string;
  /** The version after which nobody may have changed the outputs; null for any. */
  expected: number | null;
  start?: true;
  changes?: OutputChange[];
  whole?: nbformat.IOutput[];
  finish?: true;
  execution_count?: number | null;
}

export interface IWritten {
  method: 'written';
  /** The hash of the file that the server has written; null if it has not. */
  hash: string | null;
}

/** A request of the server to a notebook. */
export type TabRequest = IRead | IApply | IOutputs | IWritten | { method: 'save' | 'refresh' };

/** `written` has no id, and no answer. */
export type IncomingRequest = TabRequest & { id: number; tab: string };

export type Code = 'not_open' | 'too_large' | 'file_changed' | 'save_failed' | 'bad_request';

/** Why a request was refused. */
export class Refusal extends Error {
  constructor(
    readonly code: Code,
    message: string,
    /** The status of the request that failed, or 0. */
    readonly status = 0
  ) {
    super(message);
  }
}
