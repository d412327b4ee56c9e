import type { ICodeCellModel } from '@jupyterlab/cells';
import type { INotebookModel } from '@jupyterlab/notebook';

import type { Uses } from '../uses';

const OUTPUT = { output_type: 'stream', name: 'stdout', text: 'x' };

/** Check whether new outputs of a cell are untrusted once its trust was withdrawn. */
export function checkTrust(uses: Uses, makeModel: () => INotebookModel): void {
  uses.report(
    'trust',
    isUntrustedAfter(makeModel(), cell => {
      cell.trusted = false;
      cell.outputs.trusted = false;
    })
  );
  uses.report('quiet-trust', isQuiet(uses, makeModel()));
}

/** Return whether withdrawing trust leaves the outputs as they are, and notifies views. */
function isQuiet(uses: Uses, model: INotebookModel): boolean {
  const seen = { isEmitted: false, isSame: false };
  const isUntrusted = isUntrustedAfter(model, cell => {
    const output = cell.outputs.get(0);
    cell.stateChanged.connect((_, { name }) => {
      seen.isEmitted = name === 'trusted';
    });
    if (uses.withdrawTrust(cell)) {
      uses.emitUntrusted(cell);
    }
    seen.isSame = cell.outputs.get(0) === output;
  });
  return isUntrusted && seen.isEmitted && seen.isSame;
}

/** Return whether new outputs of a trusted cell are untrusted after `withdraw`. */
function isUntrustedAfter(
  model: INotebookModel,
  withdraw: (cell: ICodeCellModel) => void
): boolean {
  try {
    model.sharedModel.insertCell(0, { cell_type: 'code', source: '', outputs: [OUTPUT] });
    const cell = model.cells.get(0) as ICodeCellModel;
    cell.trusted = true;
    const isTrusted = cell.outputs.get(0).trusted;
    withdraw(cell);
    const shared = cell.sharedModel;
    shared.updateOutputs(1, 1, [{ ...OUTPUT, name: 'stderr' }]);
    const added = cell.outputs.get(1);
    shared.setOutputs([OUTPUT]);
    return isTrusted && ![cell, added, cell.outputs.get(0)].some(each => each.trusted);
  } finally {
    model.dispose();
  }
}
