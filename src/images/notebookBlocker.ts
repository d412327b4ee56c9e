import type { Cell } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { Contents } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';

import { ApiError } from '../api/client';
import type { IReviews } from '../changes/reviews';
import { report } from '../lab/features';
import { serverPath } from '../notebook/drives';
import { LoadButton } from './loadButton';
import { blockedAddresses, unblock } from './blockingSanitizer';
import { type UnreviewedCells, unreviewedCells, type AgentCellsApi } from './agentCells';

/** Milliseconds before each retry of a request that failed or whose answer was incomplete. */
const RETRY_DELAYS = [300, 1000, 3000, 10_000, 30_000];

/** What is blocked: what agents wrote, everything, or nothing (the setting `pictures`). */
export type BlockingRule = 'agents' | 'all' | 'nothing';

/** What blockers need: the rule, the server's records, and the page's services. */
export interface IBlockerContext {
  readonly rule: BlockingRule;
  readonly agentCells: Pick<AgentCellsApi, 'fetch'>;
  readonly reviews: Pick<IReviews, 'load'>;
  readonly contents: Pick<Contents.IManager, 'driveName' | 'localPath'>;
  readonly trans: TranslationBundle;
  /** Renders a diagram in place of its code. */
  readonly draw: (code: Element) => void;
}

/**
 * Blocks external resources in one view of a notebook until they are allowed.
 *
 * Each time something blocked is attached to the page, the server is asked which cells agents wrote.
 * The server records a change before it is in the notebook, so a request sent after the attachment
 * sees its author. Without an answer it stays blocked.
 */
export class NotebookBlocker {
  constructor(
    private readonly _panel: NotebookPanel,
    private readonly _context: IBlockerContext
  ) {}

  /** Handle a marker that was attached to the page. */
  onAttached(marker: HTMLElement): void {
    this._markers.add(marker);
    this.update();
  }

  /** Handle a marker that was detached. */
  onDetached(marker: HTMLElement): void {
    if (this._markers.delete(marker)) {
      this._schedule();
    }
  }

  /** Decide again what is blocked, since its conditions may have changed. */
  update(): void {
    this._tries = 0;
    this._schedule();
  }

  dispose(): void {
    window.clearTimeout(this._timer);
    this._markers.clear();
    this._updateButtons();
  }

  /** Update in a microtask, which coalesces the changes of this moment; updates do not overlap. */
  private _schedule(): void {
    this._isDue = true;
    if (!this._isUpdating) {
      this._isUpdating = true;
      queueMicrotask(() => void this._updateWhileDue());
    }
  }

  private async _updateWhileDue(): Promise<void> {
    try {
      while (this._isDue) {
        this._isDue = false;
        await this._update();
      }
    } finally {
      this._isUpdating = false;
    }
  }

  private async _update(): Promise<void> {
    this._updateButtons();
    if (this._context.rule === 'nothing') {
      [...this._markers].forEach(marker => this._release(marker));
      return;
    }
    this._releaseAllowed();
    if (this._context.rule === 'agents' && this._markers.size > 0) {
      const asked = [...this._markers];
      const unreviewed = await this._unreviewed();
      for (const marker of asked) {
        if (this._markers.has(marker) && this._isAllowed(marker, unreviewed)) {
          this._release(marker);
        }
      }
    }
    this._updateButtons(true);
  }

  /** Ask the server which cells are unreviewed: all while it does not know. Retry in that case. */
  private async _unreviewed(): Promise<UnreviewedCells> {
    const { context } = this._panel;
    const path = serverPath(this._context.contents, context.path);
    if (path === null) {
      if (context.model.collaborative) {
        // The drive may be the server's under an unknown name.
        report('rooms', false);
        return 'all';
      }
      // Agents of this server do not write to other drives.
      return new Set();
    }
    let unreviewed: UnreviewedCells = 'all';
    let known = false;
    try {
      const agentCells = await this._context.agentCells.fetch(path);
      // Read last: the person may keep something while the server answers.
      const kept = await this._context.reviews.load(path);
      const ids = new Set(this._panel.content.widgets.map(cell => cell.model.id));
      unreviewed = unreviewedCells(agentCells, kept, ids);
      known = agentCells.unsettled === null;
    } catch (error) {
      if (!(error instanceof ApiError)) {
        throw error;
      }
    }
    const wait = RETRY_DELAYS[this._tries];
    if (!known && wait !== undefined) {
      this._tries++;
      window.clearTimeout(this._timer);
      this._timer = window.setTimeout(() => this._schedule(), wait);
    }
    return unreviewed;
  }

  private _isAllowed(marker: HTMLElement, unreviewed: UnreviewedCells): boolean {
    if (unreviewed === 'all' || this._context.rule !== 'agents') {
      return false;
    }
    const cell = this._cellOf(marker);
    // An output in a view of its own may be of any cell.
    return cell === undefined ? unreviewed.size === 0 : !unreviewed.has(cell.model.id);
  }

  /** Release what the person has allowed before, however often it is rendered. */
  private _releaseAllowed(): void {
    for (const marker of [...this._markers]) {
      const allowed = this._allowed.get(this._cellOf(marker)?.model.id ?? '');
      if (
        allowed !== undefined &&
        blockedAddresses(rootOf(marker)).every(each => allowed.has(each))
      ) {
        this._release(marker);
      }
    }
  }

  private _allowCell(cell: Cell): void {
    const allowed = this._allowed.get(cell.model.id) ?? new Set<string>();
    this._allowed.set(cell.model.id, allowed);
    for (const marker of [...this._markers].filter(each => this._cellOf(each) === cell)) {
      blockedAddresses(rootOf(marker)).forEach(address => allowed.add(address));
    }
    this._releaseAllowed();
    this._updateButtons();
  }

  private _release(marker: HTMLElement): void {
    this._markers.delete(marker);
    unblock(rootOf(marker), this._context.draw, this._panel.content.rendermime.resolver);
  }

  private _cellOf(marker: HTMLElement): Cell | undefined {
    return this._panel.content.widgets.find(cell => cell.node.contains(marker));
  }

  /**
   * Show a button at each cell in which something is blocked.
   *
   * @param more - Whether buttons may be added: not before it is known that something stays blocked.
   */
  private _updateButtons(more = false): void {
    const blocked = new Map<Cell, string[]>();
    for (const marker of this._markers) {
      const cell = this._cellOf(marker);
      if (cell !== undefined) {
        blocked.set(cell, [...(blocked.get(cell) ?? []), ...blockedAddresses(rootOf(marker))]);
      }
    }
    for (const [cell, bar] of this._buttons) {
      if (!blocked.has(cell)) {
        bar.dispose();
        this._buttons.delete(cell);
      }
    }
    for (const [cell, addresses] of more ? blocked : []) {
      const bar =
        this._buttons.get(cell) ??
        new LoadButton(cell, () => this._allowCell(cell), this._context.trans);
      bar.addresses = addresses;
      this._buttons.set(cell, bar);
    }
  }

  private readonly _markers = new Set<HTMLElement>();
  private readonly _buttons = new Map<Cell, LoadButton>();
  private readonly _allowed = new Map<string, Set<string>>();
  private _isDue = false;
  private _isUpdating = false;
  private _tries = 0;
  private _timer = 0;
}

function rootOf(marker: HTMLElement): Element {
  return marker.parentElement ?? marker;
}
