import { JSONExt } from '@lumino/coreutils';
import type { IDisposable } from '@lumino/disposable';
import { type ISignal, Signal } from '@lumino/signaling';

import type { ChatApi, ICellsByEntry } from '../api/client';
import type { Activity, ChangeInfo } from '../api/events';
import type { IChannel } from '../api/channel';
import { quietly, inOrder } from '../api/reads';
import { cellsByEntry, leftIn } from '../changes/pending';
import type { IChats } from '../chat/service';
import { entriesOf, type IMark, marksOf, pointer } from './marks';

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

  /** Changes by agents that nobody has kept or undone, by the cells' keys. */
  get marks(): ReadonlyMap<string, IMark> {
    return this._marks;
  }

  /** The changes by agents that are neither kept nor undone, from the newest. */
  get changes(): readonly ChangeInfo[] {
    return this._changes;
  }

  /** The cell that an agent points to, as a mark without changes, until the person goes to it. */
  get shown(): IMark | null {
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
      this._changes = [];
      this._running = [];
      this._shown = null;
      this._mark();
    }
    this._follow();
  }

  /** Keep the changes that a mark shows, which removes it. */
  keep(mark: IMark): Promise<void> {
    return this._keep(entriesOf([mark]));
  }

  /** Keep all changes of the notebook, as they were shown. */
  keepAll(shown: readonly ChangeInfo[]): Promise<void> {
    const steps = shown.flatMap(({ entry, cells }) => cells.map(({ cell }) => ({ entry, cell })));
    return this._keep(cellsByEntry(steps));
  }

  private async _keep(entries: ICellsByEntry): Promise<void> {
    const { _path: path } = this;
    if (path !== null) {
      await this._chats.api.keep(path, entries);
      await quietly(this._refresh(path, () => path !== this._path));
    }
  }

  /**
   * Undo changes.
   *
   * @returns The number of cells that were not reverted, since they were edited later.
   * @throws ApiError - Nothing was undone.
   */
  async undo(marks: readonly IMark[]): Promise<number> {
    const { _path: path } = this;
    if (path === null) {
      return 0;
    }
    const found = await this._chats.api.undo(path, entriesOf(marks));
    // If that fails, it is undone all the same: the event `taken_back` repeats the request.
    await quietly(this._refresh(path, () => path !== this._path));
    return leftIn(found);
  }

  dispose(): void {
    this._disposed = true;
    this._detach();
    Signal.clearData(this);
  }

  private _mark(): void {
    const marks = marksOf(this._changes);
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
    const isOver = (): boolean => this._following !== following;
    const following = this._channel.subscribe<Activity>(
      { changes: path },
      {
        live: async isReset => {
          if (isReset) {
            this._running = [];
            await this._refresh(path, isOver);
          }
        },
        take: event => this._take(event, path, isOver)
      }
    );
    this._following = following;
  }

  /** Handle an event. */
  private async _take(event: Activity, path: string, isOver: () => boolean): Promise<void> {
    switch (event.kind) {
      case 'running':
        this._running = [
          ...this._running.filter(({ cell }) => !event.cells.includes(cell)),
          ...event.cells.map(cell => ({ cell, author: event.author }))
        ];
        this._changed.emit();
        break;
      case 'ran':
        this._running = this._running.filter(({ cell }) => !event.cells.includes(cell));
        this._changed.emit();
        break;
      case 'shown':
        this._shown = pointer(event);
        this._changed.emit();
        break;
      case 'changed':
        if (!this._changes.some(change => change.entry === event.entry)) {
          await this._refresh(path, isOver, event.entry);
        }
        break;
      case 'kept':
      case 'taken_back':
        this._chats.decided.emit();
        await this._refresh(path, isOver);
        break;
      case 'missed':
        // A new subscription starts with the running cells.
        this._detach();
        this._follow();
    }
  }

  /**
   * Read the changes.
   *
   * @param since - The entry up to which they are read again, since older ones are known; default: all.
   */
  private async _refresh(path: string, isOver: () => boolean, since = 0): Promise<void> {
    const isNewest = this._reads();
    const known = this._changes.filter(({ entry }) => entry < since);
    const changes = await this._chats.api.changesIn(path, known);
    if (!isOver() && isNewest()) {
      this._changes = changes;
      this._mark();
    }
  }

  private _detach(): void {
    this._following?.dispose();
    this._following = null;
  }

  private readonly _reads = inOrder();
  private _path: string | null;
  private _changes: readonly ChangeInfo[] = [];
  private _marks: ReadonlyMap<string, IMark> = new Map();
  private _running: readonly IRunning[] = [];
  private _shown: IMark | null = null;
  private _following: IDisposable | null = null;
  private _disposed = false;
  private _changed = new Signal<this, void>(this);
}
