/** What goes over the line between a page and the server: see ADR 20 of the project. */

import type * as nbformat from '@jupyterlab/nbformat';
import type { PartialJSONObject } from '@lumino/coreutils';

/** A notebook as the page tells of it. */
export interface ITold {
  /** The page's name for it: another one after a reload. */
  id: string;
  path: string;
  dirty: boolean;
  focused: boolean;
}

/** An edit of a source; places are those before it, and edits come from the end on. */
export interface ISourceEdit {
  start: number;
  end: number;
  text: string;
}

/** One step of a change; cells are named by their ids, indexes count after the steps before. */
export type Step =
  | { do: 'insert'; index: number; cell: nbformat.ICell }
  | { do: 'delete'; id: string }
  | { do: 'move'; id: string; to: number }
  | { do: 'replace'; id: string; cell: nbformat.ICell }
  | {
      do: 'set';
      id: string;
      source?: ISourceEdit[];
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

export interface IApply {
  method: 'apply';
  op: string;
  /** The number of the last change that the server knows of. */
  since: number;
  /** Whether outputs count as changes, too. */
  exact: boolean;
  /** What must not have changed since. */
  needs: { order: boolean; cells: string[] };
  steps: Step[];
}

export interface IOutcome {
  method: 'outcome';
  op: string;
}

export interface IOutputs {
  method: 'outputs';
  cell: string;
  /** How many outputs the cell must have; null where that does not matter. */
  expected: number | null;
  start?: true;
  changes?: OutputChange[];
  whole?: nbformat.IOutput[];
  finish?: true;
  execution_count?: number | null;
}

/** What the server asks of a notebook. */
export type Question = IRead | IApply | IOutcome | IOutputs | { method: 'save' | 'refresh' };

export type Asked = Question & { id: number; tab: string };

export type Code = 'not_open' | 'too_large' | 'file_changed' | 'save_failed' | 'bad_request';

/** Why something was not done. */
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
