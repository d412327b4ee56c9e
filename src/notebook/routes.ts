import type { ServerConnection } from '@jupyterlab/services';

import { type IUndone, listen, requestJson, undo } from '../api/client';

/** What became of one cell. */
export interface ICellChange {
  /** The cell's key: its id, or `cell-N` in a notebook without ids. */
  cell: string;
  action: 'insert' | 'replace' | 'delete' | 'move' | 'outputs';
  /** What became of the source, as a unified diff; empty where it stayed. */
  diff: string;
  /** Whether the diff was cut. */
  truncated: boolean;
}

/** A change of a notebook by an agent, that stands. */
export interface IChange {
  /** Its number, to take it back by. */
  entry: number;
  /** Seconds since the epoch. */
  time: number;
  author: string;
  tool: string;
  /** Of a chat. */
  turn: string | null;
  /** Whether an agent of this person's made it. */
  yours: boolean;
  summary: string;
  cells: readonly ICellChange[];
}

/** Something that agents do in a notebook at this moment. */
export interface IActivityEvent {
  kind: 'changed' | 'taken_back' | 'running' | 'ran' | 'missed';
  author: string;
  cells: readonly string[];
  turn: string | null;
  entry: number;
  status: string;
}

/** The routes that tell of what agents do in notebooks. Paths are the server's: without a drive. */
export class ChangesApi {
  constructor(private readonly _settings: ServerConnection.ISettings) {}

  /** The changes that stand, the newest first. */
  async changes(notebook: string): Promise<IChange[]> {
    const path = routeOf(notebook);
    return (await requestJson<{ changes: IChange[] }>(this._settings, 'GET', path)).changes;
  }

  /** Takes changes back, all of them or those of some cells. */
  async undo(notebook: string, entries: number[], cells: string[]): Promise<IUndone[]> {
    return undo(this._settings, notebook, entries, cells);
  }

  /**
   * What happens in a notebook from now on: null once the server listens, then each activity.
   *
   * @throws ApiError - the server cannot be reached, or does not tell.
   */
  async *follow(
    notebook: string,
    signal: AbortSignal
  ): AsyncGenerator<IActivityEvent | null, void, undefined> {
    for await (const event of listen(this._settings, routeOf(notebook), signal)) {
      yield event === null ? null : (event.value as IActivityEvent);
    }
  }
}

function routeOf(notebook: string): string {
  return `changes?notebook=${encodeURIComponent(notebook)}`;
}
