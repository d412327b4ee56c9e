import type { Cell } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { Contents } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';

import { ApiError } from '../api/client';
import type { IReviews } from '../changes/reviews';
import { report } from '../lab/features';
import { serverPath } from '../notebook/drives';
import { LoadBar } from './bar';
import { addressesHeld, letGo } from './holding';
import { type Doubt, doubtful, type WritersApi } from './writers';

/** After so many milliseconds it asks again for what could not be told; then no more by itself. */
const PAUSES = [300, 1000, 3000, 10_000, 30_000];

/** What is held until when: what agents wrote, all until a person lets it go, nothing. */
export type Rule = 'agents' | 'all' | 'nothing';

/** What the pictures of a notebook depend on. */
export interface ISurroundings {
  readonly rule: Rule;
  readonly writers: Pick<WritersApi, 'written'>;
  readonly reviews: Pick<IReviews, 'load'>;
  readonly contents: Pick<Contents.IManager, 'driveName' | 'localPath'>;
  readonly trans: TranslationBundle;
  /** Draws a diagram in place of its code. */
  readonly draw: (code: Element) => void;
}

/**
 * What is held in one view of a notebook, and when it is let go.
 *
 * Each time something held comes into the page, the server is asked who wrote what is in the cells.
 * It knows of a change before that is in the notebook: an answer that was asked for later than the
 * thing was seen tells of whoever wrote it. Until then, and where there is none, it stays held.
 */
export class HeldPictures {
  constructor(
    private readonly _panel: NotebookPanel,
    private readonly _around: ISurroundings
  ) {}

  /** Something held is in the page. */
  shown(marker: HTMLElement): void {
    this._markers.add(marker);
    this.look();
  }

  /** It is not any more. */
  gone(marker: HTMLElement): void {
    if (this._markers.delete(marker)) {
      this._later();
    }
  }

  /** Looks anew, since something may have changed on which it depends. */
  look(): void {
    this._tries = 0;
    this._later();
  }

  dispose(): void {
    window.clearTimeout(this._timer);
    this._markers.clear();
    this._draw();
  }

  /** Looks once everything that happens just now has happened, one look after the other. */
  private _later(): void {
    this._due = true;
    if (!this._looking) {
      this._looking = true;
      queueMicrotask(() => void this._lookOn());
    }
  }

  private async _lookOn(): Promise<void> {
    try {
      while (this._due) {
        this._due = false;
        await this._look();
      }
    } finally {
      this._looking = false;
    }
  }

  private async _look(): Promise<void> {
    this._draw();
    if (this._around.rule === 'nothing') {
      [...this._markers].forEach(marker => this._release(marker));
      return;
    }
    this._passAllowed();
    if (this._around.rule === 'agents' && this._markers.size > 0) {
      const asked = [...this._markers];
      const doubt = await this._doubt();
      for (const marker of asked) {
        if (this._markers.has(marker) && this._isFree(marker, doubt)) {
          this._release(marker);
        }
      }
    }
    this._draw(true);
  }

  /** Asks the server; what it does not tell is in doubt, and asked for again. */
  private async _doubt(): Promise<Doubt> {
    const { context } = this._panel;
    const path = serverPath(this._around.contents, context.path);
    if (path === null) {
      if (context.model.collaborative) {
        // It may be the server's under a name that is not known.
        report('rooms', false);
        return 'all';
      }
      // No agent of this server writes in other drives.
      return new Set();
    }
    let doubt: Doubt = 'all';
    let known = false;
    try {
      const written = await this._around.writers.written(path);
      // Asked for last, since the person may keep something while the server answers.
      const kept = await this._around.reviews.load(path);
      const ids = new Set(this._panel.content.widgets.map(cell => cell.model.id));
      doubt = doubtful(written, kept, ids);
      known = written.unsettled === null;
    } catch (error) {
      if (!(error instanceof ApiError)) {
        throw error;
      }
    }
    const wait = PAUSES[this._tries];
    if (!known && wait !== undefined) {
      this._tries++;
      window.clearTimeout(this._timer);
      this._timer = window.setTimeout(() => this._later(), wait);
    }
    return doubt;
  }

  private _isFree(marker: HTMLElement, doubt: Doubt): boolean {
    if (doubt === 'all' || this._around.rule !== 'agents') {
      return false;
    }
    const cell = this._cellOf(marker);
    // An output that is shown elsewhere, in a view of its own, may be any cell's.
    return cell === undefined ? doubt.size === 0 : !doubt.has(cell.model.id);
  }

  /** What a person has let go once stays so, however often it is rendered. */
  private _passAllowed(): void {
    for (const marker of [...this._markers]) {
      const allowed = this._allowed.get(this._cellOf(marker)?.model.id ?? '');
      if (allowed !== undefined && addressesHeld(rootOf(marker)).every(each => allowed.has(each))) {
        this._release(marker);
      }
    }
  }

  private _allow(cell: Cell): void {
    const allowed = this._allowed.get(cell.model.id) ?? new Set<string>();
    this._allowed.set(cell.model.id, allowed);
    for (const marker of [...this._markers].filter(each => this._cellOf(each) === cell)) {
      addressesHeld(rootOf(marker)).forEach(address => allowed.add(address));
    }
    this._passAllowed();
    this._draw();
  }

  private _release(marker: HTMLElement): void {
    this._markers.delete(marker);
    letGo(rootOf(marker), this._around.draw, this._panel.content.rendermime.resolver);
  }

  private _cellOf(marker: HTMLElement): Cell | undefined {
    return this._panel.content.widgets.find(cell => cell.node.contains(marker));
  }

  /**
   * Has a button at each cell in which something is held.
   *
   * @param more - Whether there may be new ones: not before it is known that something stays held.
   */
  private _draw(more = false): void {
    const held = new Map<Cell, string[]>();
    for (const marker of this._markers) {
      const cell = this._cellOf(marker);
      if (cell !== undefined) {
        held.set(cell, [...(held.get(cell) ?? []), ...addressesHeld(rootOf(marker))]);
      }
    }
    for (const [cell, bar] of this._bars) {
      if (!held.has(cell)) {
        bar.dispose();
        this._bars.delete(cell);
      }
    }
    for (const [cell, addresses] of more ? held : []) {
      const bar =
        this._bars.get(cell) ?? new LoadBar(cell, () => this._allow(cell), this._around.trans);
      bar.addresses = addresses;
      this._bars.set(cell, bar);
    }
  }

  private readonly _markers = new Set<HTMLElement>();
  private readonly _bars = new Map<Cell, LoadBar>();
  private readonly _allowed = new Map<string, Set<string>>();
  private _due = false;
  private _looking = false;
  private _tries = 0;
  private _timer = 0;
}

function rootOf(marker: HTMLElement): Element {
  return marker.parentElement ?? marker;
}
