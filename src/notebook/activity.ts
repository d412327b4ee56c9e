import type { IDisposable } from '@lumino/disposable';
import { type ISignal, Signal } from '@lumino/signaling';

import { ApiError, type IUndone } from '../api/client';
import type { IKeeper } from './keeper';
import {
  type IKept,
  type IMark,
  keeping,
  keepingAll,
  marksOf,
  NOTHING_KEPT,
  undoing
} from './marks';
import type { ChangesApi, IActivityEvent, IChange } from './routes';

/** How long it waits before it asks for a lost line again, in milliseconds; the last one stays. */
const PAUSES = [500, 1000, 2000, 5000, 15000];

/** A cell that runs, and for whom. */
export interface IRunning {
  cell: string;
  author: string;
}

/** What of the routes is needed here. */
export type Routes = Pick<ChangesApi, 'changes' | 'follow' | 'undo'>;

/**
 * What agents did in one notebook and do there now, for as long as somebody looks.
 *
 * While nobody looks there is no line to the server: browsers allow few of them, and what
 * happened meanwhile is asked for when somebody looks again.
 */
export class NotebookActivity implements IDisposable {
  constructor(
    private readonly _routes: Routes,
    private readonly _keeper: IKeeper,
    path: string
  ) {
    this._path = path;
  }

  /** Emitted when the marks or what runs are others. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** What agents changed and the person has not kept, by the cells' keys. */
  get marks(): ReadonlyMap<string, IMark> {
    return this._marks;
  }

  /** What agents run at this moment, in the order in which it began. */
  get running(): readonly IRunning[] {
    return this._running;
  }

  get isDisposed(): boolean {
    return this._disposed;
  }

  /** Says whether somebody looks at the notebook. */
  look(seen: boolean): void {
    if (seen && this._line === null && !this._disposed) {
      this._line = new AbortController();
      void this._follow(this._line.signal);
    } else if (!seen) {
      this._hangUp();
    }
  }

  /** The notebook has another path now. */
  async rename(path: string): Promise<void> {
    const seen = this._line !== null;
    this._hangUp();
    await this._keeper.renamed(this._path, path);
    this._path = path;
    this.look(seen);
  }

  /** Keeps what was changed: the marks go, and do not come back. */
  async keep(marks?: readonly IMark[]): Promise<void> {
    await this._keep(
      marks === undefined ? keepingAll(this._kept, this._changes) : keeping(this._kept, marks)
    );
  }

  /**
   * Takes back what was changed.
   *
   * @returns Sentences about what stays, since somebody has worked on it since.
   * @throws ApiError - nothing was taken back.
   */
  async undo(marks: readonly IMark[]): Promise<string[]> {
    const { entries, cells } = undoing(marks);
    const found = await this._routes.undo(this._path, entries, cells);
    const back = new Set(found.flatMap((each: IUndone) => each.cells));
    // A change of several cells stands until all of them came back.
    await this._keep(
      keeping(
        this._kept,
        marks.filter(mark => back.has(mark.cell))
      )
    );
    return found.flatMap((each: IUndone) => each.left);
  }

  dispose(): void {
    this._disposed = true;
    this._hangUp();
    Signal.clearData(this);
  }

  private async _keep(kept: IKept): Promise<void> {
    this._kept = kept;
    this._mark();
    await this._keeper.save(this._path, kept);
  }

  private _mark(): void {
    this._marks = marksOf(this._changes, this._kept);
    this._changed.emit();
  }

  private async _follow(signal: AbortSignal): Promise<void> {
    let tries = 0;
    while (!signal.aborted) {
      try {
        for await (const event of this._routes.follow(this._path, signal)) {
          tries = 0;
          if (event?.kind === 'missed') {
            // The next line begins with what runs.
            break;
          }
          await this._take(event, signal);
        }
      } catch (error) {
        if (!(error instanceof ApiError)) {
          throw error;
        }
        if (!error.problem.retryable) {
          return;
        }
      }
      await pause(PAUSES[Math.min(tries++, PAUSES.length - 1)] ?? 0, signal);
    }
  }

  /** Takes in what happened; null is the beginning of a line. */
  private async _take(event: IActivityEvent | null, signal: AbortSignal): Promise<void> {
    switch (event?.kind) {
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
      case 'changed':
        if (!this._changes.some(change => change.entry === event.entry)) {
          await this._refresh(signal);
        }
        break;
      default:
        if (event === null) {
          this._running = [];
        }
        await this._refresh(signal);
    }
  }

  private async _refresh(signal: AbortSignal): Promise<void> {
    const changes = await this._routes.changes(this._path);
    // Asked for last, since the person may keep something while the server answers.
    const kept = await this._keeper.load(this._path);
    if (!signal.aborted) {
      this._kept = kept;
      this._changes = changes;
      this._mark();
    }
  }

  private _hangUp(): void {
    this._line?.abort();
    this._line = null;
  }

  private _path: string;
  private _changes: readonly IChange[] = [];
  private _kept = NOTHING_KEPT;
  private _marks: ReadonlyMap<string, IMark> = new Map();
  private _running: readonly IRunning[] = [];
  private _line: AbortController | null = null;
  private _disposed = false;
  private _changed = new Signal<this, void>(this);
}

/** Waits for so long; less where the browser is online again, or nobody wants it any more. */
async function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) {
    return;
  }
  const over = new AbortController();
  await new Promise<void>(resolve => {
    const timer = window.setTimeout(resolve, milliseconds);
    const wake = (): void => {
      window.clearTimeout(timer);
      resolve();
    };
    window.addEventListener('online', wake, { signal: over.signal });
    signal.addEventListener('abort', wake, { signal: over.signal });
  });
  over.abort();
}
