import type { CellModel, ICellModel, ICodeCellModel } from '@jupyterlab/cells';

/** The private member of a cell and its outputs with their trust. */
const TRUSTED = '_trusted';

/** Return whether outputs of a code cell, present or new ones, are trusted. */
export function isTrusted({ trusted, outputs }: ICodeCellModel): boolean {
  return trusted || outputs.trusted;
}

/**
 * Withdraw the trust from new outputs of a cell, and do not change the present ones.
 *
 * The model's own setter writes the present outputs again, to a document that others may be writing.
 * So its private members are set.
 *
 * @returns Whether the cell is untrusted now.
 */
export function withdrawTrust(cell: ICodeCellModel): boolean {
  if (!(TRUSTED in cell) || !(TRUSTED in cell.outputs)) {
    return false;
  }
  Object.assign(cell.outputs, { [TRUSTED]: false });
  Object.assign(cell, { [TRUSTED]: false });
  return !isTrusted(cell);
}

/** Notify the views of a cell that it is not trusted any more. */
export function emitUntrusted(cell: ICellModel): void {
  const { stateChanged } = cell as unknown as Pick<CellModel, 'stateChanged'>;
  stateChanged.emit({ name: 'trusted', oldValue: true, newValue: false });
}
