import type {
  CellChange,
  ISharedCell,
  ISharedNotebook,
  NotebookChange,
  YCodeCell
} from '@jupyter/ydoc';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';

interface IKnown {
  cell: ISharedCell;
  /** The number of its last change, and of the last one that was not of its outputs. */
  at: number;
  sourceAt: number;
  /** Listens to it no more. */
  leave: () => void;
}

/** Whether a change of a cell concerns what is stored of it. */
export function isStored(change: CellChange): boolean {
  return Object.keys(change).some(key => key !== 'executionStateChange');
}

/** Whether a change of a cell concerns more than its outputs. */
export function isOfSource(change: CellChange): boolean {
  return 'sourceChange' in change || 'metadataChange' in change || 'attachmentsChange' in change;
}

/**
 * Numbers the changes of a notebook, so that only what is new has to be told.
 *
 * No two cells have the same number: an answer in pieces can go on after any of them.
 */
export class Clock {
  constructor(private readonly _notebook: ISharedNotebook) {
    _notebook.changed.connect(this._onChanged);
    this._follow();
    this.orderAt = this.restAt = this._next();
  }

  /** The number of the last change. */
  now = 0;

  /** The number of the last change of the order of the cells. */
  orderAt = 0;

  /** The number of the last change of metadata and format. */
  restAt = 0;

  /** Emitted after each change. */
  get ticked(): ISignal<this, void> {
    return this._ticked;
  }

  /** The number of a cell's last change. */
  at(id: string): number {
    return this._cells.get(id)?.at ?? 0;
  }

  /** Whether a cell is there, and has not changed since. */
  isSince(id: string, since: number, exact: boolean): boolean {
    const known = this._cells.get(id);
    return known !== undefined && (exact ? known.at : known.sourceAt) <= since;
  }

  dispose(): void {
    this._notebook.changed.disconnect(this._onChanged);
    for (const known of this._cells.values()) {
      known.leave();
    }
    this._cells.clear();
  }

  private _next(): number {
    return ++this.now;
  }

  private readonly _onChanged = (_: ISharedNotebook, change: NotebookChange): void => {
    const before = this.now;
    if ('cellsChange' in change) {
      this._follow();
      this.orderAt = this._next();
    }
    if ('metadataChange' in change || 'nbformatChanged' in change) {
      this.restAt = this._next();
    }
    if (this.now !== before) {
      this._ticked.emit();
    }
  };

  /** Listens to the cells that are there now. */
  private _follow(): void {
    const cells = new Map<string, IKnown>();
    for (const cell of this._notebook.cells) {
      const id = cell.getId();
      const known = this._cells.get(id);
      if (known?.cell === cell) {
        cells.set(id, known);
        continue;
      }
      const at = this._next();
      cells.set(id, { cell, at, sourceAt: at, leave: this._listen(cell) });
    }
    for (const [id, known] of this._cells) {
      if (cells.get(id)?.cell !== known.cell) {
        known.leave();
      }
    }
    this._cells = cells;
  }

  private _listen(cell: ISharedCell): () => void {
    cell.changed.connect(this._onCell);
    const leave = (): boolean => cell.changed.disconnect(this._onCell);
    if (cell.cell_type !== 'code') {
      return leave;
    }
    // The cell emits nothing for the outputs of what its person runs. Others are numbered twice.
    const { youtputs } = cell as YCodeCell;
    const onOutputs = (): void => this._onCell(cell, { outputsChange: [] });
    youtputs.observeDeep(onOutputs);
    return () => {
      leave();
      youtputs.unobserveDeep(onOutputs);
    };
  }

  private readonly _onCell = (cell: ISharedCell, change: CellChange): void => {
    const known = this._cells.get(cell.getId());
    if (known === undefined || !isStored(change)) {
      return;
    }
    known.at = this._next();
    if (isOfSource(change)) {
      known.sourceAt = known.at;
    }
    this._ticked.emit();
  };

  private _cells = new Map<string, IKnown>();
  private readonly _ticked = new Signal<this, void>(this);
}
