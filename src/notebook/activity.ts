import { JSONExt } from '@lumino/coreutils';
import type { IDisposable } from '@lumino/disposable';
import { type ISignal, Signal } from '@lumino/signaling';

import type { ChatApi } from '../api/client';
import type { ActivityEvent, CombinedChange, UndoResult } from '../api/events';
import type { IChannel } from '../api/channel';
import { quietly } from '../api/reads';
import { cellsByEntry } from '../common/changes';
import type { IChats } from '../chat/service';

/** Maximum cells of a change that are read alone: they are in the address of the request. */
const FEW = 50;

/** The routes of the changes in notebooks. */
export type Journal = Pick<ChatApi, 'changesIn' | 'keep' | 'undo'>;

/** A running cell, and the agent that runs it. */
export interface IRunning {
  cell: string;
  author: string;
}

/** What agents change, run and show in one open notebook. */
export class NotebookActivity implements IDisposable {
  /** @param path - The path on the server; null for a notebook of another drive. */
  constructor(
    private readonly _chats: Pick<IChats, 'decided'> & { api: Journal },
    private readonly _channel: IChannel,
    path: string | null
  ) {
    this._path = path;
    this._follow();
  }

  /** Emitted when the marks or the running cells have changed. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Emitted with the key of a cell when an agent has changed it, shows it, or begins to run it. */
  readonly worked = new Signal<this, string>(this);

  /** The cells with changes by agents that nobody has kept or undone, by their keys. */
  get marks(): ReadonlyMap<string, CombinedChange> {
    return this._marks;
  }

  /** The cell that an agent points to, as a mark without changes, until the person goes to it. */
  get shown(): CombinedChange | null {
    return this._shown;
  }

  /** Remove the mark of `shown`. */
  dismiss(): void {
    this._shown = null;
    this._changed.emit();
  }

  /** The cells that agents run now, in the order of their start. */
  get running(): readonly IRunning[] {
    return this._running;
  }

  get isDisposed(): boolean {
    return this._disposed;
  }

  /** Handle a renamed notebook. */
  rename(path: string | null): void {
    this._detach();
    this._path = path;
    if (path === null) {
      this._running = [];
      this._shown = null;
      this._mark(new Map());
    }
    this._follow();
  }

  /** Keep changes as they were shown, which removes their marks. */
  async keep(marks: Iterable<CombinedChange>): Promise<void> {
    const { _path: path } = this;
    if (path !== null) {
      await this._chats.api.keep(path, cellsByEntry(marks));
      await quietly(this._refresh(path));
    }
  }

  /**
   * Undo changes.
   *
   * @returns What was undone, and what was not, since it was edited later.
   * @throws ApiError - Nothing was undone.
   */
  async undo(marks: Iterable<CombinedChange>): Promise<readonly UndoResult[]> {
    const { _path: path } = this;
    if (path === null) {
      return [];
    }
    const undone = await this._chats.api.undo(path, cellsByEntry(marks));
    // If that fails, it is undone all the same: the event `taken_back` repeats the request.
    await quietly(this._refresh(path));
    return undone;
  }

  dispose(): void {
    this._disposed = true;
    this._detach();
    Signal.clearData(this);
  }

  private _mark(marks: Map<string, CombinedChange>): void {
    // An unchanged mark stays the same object, so that its review is not drawn again.
    for (const [cell, mark] of this._marks) {
      if (JSONExt.deepEqual(mark as never, (marks.get(cell) ?? null) as never)) {
        marks.set(cell, mark);
      }
    }
    this._marks = marks;
    this._changed.emit();
  }

  private _follow(): void {
    const path = this._path;
    if (path === null) {
      return;
    }
    this._following = this._channel.subscribe<ActivityEvent>(
      { changes: path },
      {
        live: async isReset => {
          if (isReset) {
            this._running = [];
            await this._refresh(path);
          }
        },
        take: event => this._take(event, path)
      }
    );
  }

  /** Handle an event. */
  private async _take({ author, cells, kind }: ActivityEvent, path: string): Promise<void> {
    const others = this._running.filter(({ cell }) => !cells.includes(cell));
    switch (kind) {
      case 'running':
        this._running = [...others, ...cells.map(cell => ({ cell, author }))];
        this._changed.emit();
        cells.forEach(cell => this.worked.emit(cell));
        break;
      case 'ran':
        this._running = others;
        this._changed.emit();
        break;
      case 'shown': {
        const [cell] = cells;
        this._shown = cell === undefined ? null : pointer(cell, author);
        this._changed.emit();
        cells.forEach(each => this.worked.emit(each));
        break;
      }
      case 'changed':
        await this._refresh(path, cells.length > FEW ? undefined : cells);
        cells.forEach(cell => this.worked.emit(cell));
        break;
      case 'kept':
      case 'taken_back':
        this._chats.decided.emit();
        await this._refresh(path);
        break;
      case 'missed':
        // A new subscription starts with the running cells.
        this._detach();
        this._follow();
    }
  }

  /**
   * Read what changed, after earlier reads.
   *
   * @param cells - The cells that are read; default: all.
   */
  private _refresh(path: string, cells?: readonly string[]): Promise<void> {
    const read = this._read.then(async () => {
      const found = await this._chats.api.changesIn(path, cells);
      if (path === this._path && !this._disposed) {
        const others = cells && [...this._marks].filter(([cell]) => !cells.includes(cell));
        this._mark(new Map([...(others ?? []), ...found.map(each => [each.cell, each] as const)]));
      }
    });
    this._read = read.catch(() => undefined);
    return read;
  }

  private _detach(): void {
    this._following?.dispose();
    this._following = null;
  }

  private _read: Promise<void> = Promise.resolve();
  private _path: string | null;
  private _marks: ReadonlyMap<string, CombinedChange> = new Map();
  private _running: readonly IRunning[] = [];
  private _shown: CombinedChange | null = null;
  private _following: IDisposable | null = null;
  private _disposed = false;
  private _changed = new Signal<this, void>(this);
}

/** Return the mark of a cell that an agent points to, which has no changes. */
function pointer(cell: string, author: string): CombinedChange {
  return {
    ...{ notebook: '', cell, action: 'replace', index: 0, cell_type: '', before: null, diff: '' },
    ...{ truncated: false, entries: [], author, time: Date.now() / 1000, yours: false }
  };
}
