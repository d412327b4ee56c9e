import type { Cell } from '@jupyterlab/cells';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { IDisposable } from '@lumino/disposable';
import { Widget } from '@lumino/widgets';

import type { CombinedChange } from '../api/events';
import { notifyOnError } from '../api/notifyOnError';
import type { NotebookActivity } from './activity';
import { putInto } from './cells';
import { Review } from './Review';
import { markLabel, markText } from './labels';

/**
 * A bar at the left edge of a cell that an agent changed or points to. A click opens the review of the
 * changes, or removes a mark without any.
 */
export class CellMark implements IDisposable {
  constructor(
    private readonly _cell: Cell,
    private readonly _activity: NotebookActivity,
    private readonly _trans: TranslationBundle,
    mark: CombinedChange
  ) {
    this._mark = mark;
    const button = document.createElement('button');
    button.type = 'button';
    this._label = document.createElement('span');
    this._label.className = 'tk-Mark-label';
    this._label.setAttribute('aria-hidden', 'true');
    button.append(this._label);
    button.addEventListener('click', () => this._toggle());
    // The age in the label is updated on hover and focus.
    _cell.node.addEventListener('pointerenter', this._updateLabel);
    button.addEventListener('focus', this._updateLabel);
    this._bar = new Widget({ node: button });
    this._bar.addClass('tk-Mark');
    button.setAttribute('aria-expanded', 'false');
    this._updateLabel();
    putInto(_cell, this._bar, 'end');
    _cell.addClass('tk-mod-changed');
  }

  get isDisposed(): boolean {
    return this._bar.isDisposed;
  }

  /** The changes of the cell. */
  set mark(mark: CombinedChange) {
    // Formatting is slow with many marks and frequent changes, so it is throttled.
    const due = mark.time !== this._mark.time || Date.now() - this._updatedAt > 60_000;
    this._mark = mark;
    if (due) {
      this._updateLabel();
    }
    // Update an open review in place, so that it keeps the focus.
    if (mark.entries.length === 0) {
      this._close();
    } else if (this._review !== null) {
      this._review.mark = mark;
    }
  }

  dispose(): void {
    if (this.isDisposed) {
      return;
    }
    this._cell.node.removeEventListener('pointerenter', this._updateLabel);
    this._close();
    this._bar.dispose();
    if (!this._cell.isDisposed) {
      this._cell.removeClass('tk-mod-changed');
    }
  }

  private get _isOpen(): boolean {
    return this._bar.node.getAttribute('aria-expanded') === 'true';
  }

  private _toggle(): void {
    if (this._mark.entries.length === 0) {
      this._activity.dismiss();
    } else if (!this._isOpen) {
      this._open();
    } else {
      this._close();
    }
  }

  private _open(): void {
    this._bar.node.setAttribute('aria-expanded', 'true');
    this._review = new Review(this._mark, {
      cell: this._cell,
      trans: this._trans,
      onKeep: mark => void notifyOnError(this._activity.keep([mark])),
      onUndo: mark => this._activity.undo([mark]),
      onClose: () => this._close()
    });
    putInto(this._cell, this._review, 'below-input');
  }

  private _close(): void {
    // Before the review is disposed: React removes what has the focus first.
    if (this._review?.node.contains(document.activeElement) === true) {
      this._bar.node.focus({ preventScroll: true });
    }
    this._review?.dispose();
    this._review = null;
    this._bar.node.setAttribute('aria-expanded', 'false');
  }

  private readonly _updateLabel = (): void => {
    this._updatedAt = Date.now();
    this._label.textContent = markText(this._mark, this._trans);
    this._bar.node.setAttribute('aria-label', markLabel(this._mark, this._trans));
  };

  private _mark: CombinedChange;
  private _updatedAt = 0;
  private _review: Review | null = null;
  private readonly _bar: Widget;
  private readonly _label: HTMLElement;
}
