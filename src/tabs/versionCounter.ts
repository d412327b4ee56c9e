import type {
  CellChange,
  ISharedCell,
  ISharedNotebook,
  NotebookChange,
  YCodeCell
} from '@jupyter/ydoc';
import { UUID } from '@lumino/coreutils';

interface IKnown {
  cell: ISharedCell;
  /** The version of its last change. */
  at: number;
  /** The version of the last change of its outputs. */
  outputsAt: number;
  /** Disconnects from its signals. */
  detach: () => void;
}

/** Return whether a change of a cell concerns what is stored in the file. */
function isStored(change: CellChange): boolean {
  return Object.keys(change).some(key => key !== 'executionStateChange');
}

/**
 * Numbers the changes of a notebook, so that only newer cells have to be sent.
 *
 * No two cells have the same version: an answer in parts can continue after any cell. Nor have two the
 * same key, which the server gets for their ids: a cell that is pasted after its cut was undone has the
 * id of another one.
 */
export class VersionCounter {
  constructor(private readonly _notebook: ISharedNotebook) {
    _notebook.changed.connect(this._onChanged);
    this._follow();
    this.orderVersion = this.metadataVersion = this._next();
  }

  /** The version of the last change. */
  now = 0;

  /** The version of the last change of the order of cells. */
  orderVersion = 0;

  /** The version of the last change of metadata or format. */
  metadataVersion = 0;

  /** Return the key of a cell: its id, unless another cell has that. It stays the same. */
  keyOf(cell: ISharedCell): string {
    return this._keys.get(cell) ?? cell.getId();
  }

  /** Return the version of a cell's last change. */
  at(key: string): number {
    return this._cells.get(key)?.at ?? 0;
  }

  /** Return the version of the last change of a cell's outputs. */
  outputsAt(key: string): number {
    return this._cells.get(key)?.outputsAt ?? 0;
  }

  /** Return whether a cell exists and has not changed since a version. */
  isUnchangedSince(key: string, since: number): boolean {
    const known = this._cells.get(key);
    return known !== undefined && known.at <= since;
  }

  dispose(): void {
    this._notebook.changed.disconnect(this._onChanged);
    for (const known of this._cells.values()) {
      known.detach();
    }
    this._cells.clear();
  }

  private _next(): number {
    return ++this.now;
  }

  private readonly _onChanged = (_: ISharedNotebook, change: NotebookChange): void => {
    if ('cellsChange' in change) {
      this._follow();
      this.orderVersion = this._next();
    }
    if ('metadataChange' in change || 'nbformatChanged' in change) {
      this.metadataVersion = this._next();
    }
  };

  /** Connect to the present cells, and disconnect from those that are gone. */
  private _follow(): void {
    const present = new Set(this._notebook.cells);
    // A move is the deletion of a cell and the insertion of a copy.
    const moved = new Map<string, number>();
    for (const [key, { cell, outputsAt, detach }] of this._cells) {
      if (!present.has(cell)) {
        detach();
        if (cell.cell_type === 'code') {
          moved.set(key, outputsAt);
        }
        this._cells.delete(key);
        this._keys.delete(cell);
      }
    }
    for (const cell of present) {
      if (!this._keys.has(cell)) {
        const key = this._cells.has(cell.getId()) ? UUID.uuid4() : cell.getId();
        const at = this._next();
        const outputsAt = (cell.cell_type === 'code' && moved.get(key)) || at;
        this._cells.set(key, { cell, at, outputsAt, detach: this._listen(cell) });
        this._keys.set(cell, key);
      }
    }
  }

  private _listen(cell: ISharedCell): () => void {
    cell.changed.connect(this._onCell);
    const detach = (): boolean => cell.changed.disconnect(this._onCell);
    if (cell.cell_type !== 'code') {
      return detach;
    }
    // The cell emits nothing for outputs of the person's own runs. Other outputs are counted twice.
    const { youtputs } = cell as YCodeCell;
    const onOutputs = (): void => {
      const known = this._cells.get(this.keyOf(cell));
      if (known !== undefined) {
        known.at = known.outputsAt = this._next();
      }
    };
    youtputs.observeDeep(onOutputs);
    return () => {
      detach();
      youtputs.unobserveDeep(onOutputs);
    };
  }

  private readonly _onCell = (cell: ISharedCell, change: CellChange): void => {
    const known = this._cells.get(this.keyOf(cell));
    if (known === undefined || !isStored(change)) {
      return;
    }
    known.at = this._next();
  };

  private readonly _cells = new Map<string, IKnown>();
  private readonly _keys = new Map<ISharedCell, string>();
}
