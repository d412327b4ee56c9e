import type { CellModel, ICellModel, ICodeCellModel } from '@jupyterlab/cells';

/** Where a cell and its outputs keep whether they are trusted. */
const TRUSTED = '_trusted';

/** Whether anything in a code cell, or put into it from now on, is trusted. */
export function isTrusted({ trusted, outputs }: ICodeCellModel): boolean {
  return trusted || outputs.trusted;
}

/**
 * Withdraw the trust from what comes into a cell, and leave its outputs as they are.
 *
 * The model's own setter writes the present outputs again, into a document that others write, too.
 * So the private members behind it are set.
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

/** Tell the views of a cell that it is not trusted any more. */
export function emitUntrusted(cell: ICellModel): void {
  const { stateChanged } = cell as unknown as Pick<CellModel, 'stateChanged'>;
  stateChanged.emit({ name: 'trusted', oldValue: true, newValue: false });
}
