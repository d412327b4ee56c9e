import type { Cell, ICellModel, ICodeCellModel } from '@jupyterlab/cells';
import type { IError } from '@jupyterlab/nbformat';

/** Return the outputs of a cell; null if it is not a code cell. */
export function outputsOf(model: ICellModel): ICodeCellModel['outputs'] | null {
  return model.type === 'code' ? (model as ICodeCellModel).outputs : null;
}

/** Return the last error in a cell's outputs; null for none. No other output is copied. */
export function lastErrorOf(model: ICellModel): Partial<IError> | null {
  const outputs = outputsOf(model);
  for (let place = (outputs?.length ?? 0) - 1; place >= 0; place--) {
    const output = outputs?.get(place);
    if (output?.type === 'error') {
      return output.toJSON() as Partial<IError>;
    }
  }
  return null;
}

/** Return the name of the error in a cell's outputs; null for none. */
export function errorOf(cell: Cell): string | null {
  const error = lastErrorOf(cell.model);
  return error === null ? null : error.ename || 'error';
}
