import type { IDisposable } from '@lumino/disposable';
import { type ISignal, Signal } from '@lumino/signaling';

import type { IUndone } from '../api/client';
import { keepLine } from '../api/line';
import type { ILines } from '../api/lines';
import { keeping, keepingAll } from '../changes/kept';
import type { IDecision, IReviews } from '../changes/reviews';
import { type IMark, marksOf, undoing } from './marks';
import type { ChangesApi, IActivityEvent, IChange } from './routes';

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
    private readonly _reviews: IReviews,
    private readonly _lines: ILines,
    path: string
  ) {
    this._path = path;
    _reviews.decided.connect(this._onDecided);
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
    await this._reviews.renamed(this._path, path);
    this._path = path;
    this.look(seen);
  }

  /** Keeps what was changed: the marks go, and do not come back. */
  async keep(marks?: readonly IMark[]): Promise<void> {
    const more = marks === undefined ? keepingAll(this._changes) : keeping(marks);
    await this._reviews.keep(this._path, more);
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
    this._changes = await this._routes.changes(this._path);
    this._mark();
    this._reviews.tookBack(this._path);
    return found.flatMap((each: IUndone) => each.left);
  }

  dispose(): void {
    this._disposed = true;
    this._hangUp();
    this._reviews.decided.disconnect(this._onDecided);
    Signal.clearData(this);
  }

  private readonly _onDecided = (_: IReviews, { path, kind }: IDecision): void => {
    if (path === this._path && kind === 'kept') {
      this._mark();
    }
  };

  private _mark(): void {
    this._marks = marksOf(this._changes, this._reviews.of(this._path));
    this._changed.emit();
  }

  private async _follow(signal: AbortSignal): Promise<void> {
    const path = this._path;
    await keepLine<IActivityEvent | null>(
      this._lines,
      {
        need: () => 'next',
        open: line => this._routes.follow(path, line),
        take: async event => {
          // Where something was missed, the next line begins with what runs.
          const goesOn = event?.kind !== 'missed';
          if (goesOn) {
            await this._take(event, signal);
          }
          return goesOn;
        }
      },
      signal
    );
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
        if (event?.kind === 'taken_back') {
          this._reviews.tookBack(this._path);
        }
    }
  }

  private async _refresh(signal: AbortSignal): Promise<void> {
    const changes = await this._routes.changes(this._path);
    // Asked for last, since the person may keep something while the server answers.
    await this._reviews.load(this._path);
    if (!signal.aborted) {
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
  private _marks: ReadonlyMap<string, IMark> = new Map();
  private _running: readonly IRunning[] = [];
  private _line: AbortController | null = null;
  private _disposed = false;
  private _changed = new Signal<this, void>(this);
}
