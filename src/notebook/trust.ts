import type { ICellModel, ICodeCellModel } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';

import { withdrawTrust } from '../lab/internals';
import { onCellModels } from './cells';

/** Cells that are followed already by another view of their notebook. */
const FOLLOWED = new WeakSet<ICellModel>();

/**
 * Withdraw the trust from cells in which an agent replaces the outputs.
 *
 * The writer of the outputs removes `trusted` from the metadata of the shared cell. JupyterLab reads
 * that only when it opens a notebook: in an open one, scripts in the next outputs would run.
 */
export function followDistrust(panel: NotebookPanel): void {
  const follow = (): void => {
    for (const cell of panel.content.model?.cells ?? []) {
      if (cell.type === 'code' && !FOLLOWED.has(cell)) {
        FOLLOWED.add(cell);
        followCell(cell as ICodeCellModel);
      }
    }
  };
  onCellModels(panel, follow);
}

function followCell(cell: ICodeCellModel): void {
  // A cell that the person runs is trusted during the run.
  let isRunByOthers = false;
  const look = (): void => {
    if (cell.executionState === 'running') {
      isRunByOthers = !cell.trusted;
    } else if (cell.executionCount !== null) {
      isRunByOthers = false;
    }
  };
  // Emitted before the outputs of the same transaction are applied.
  cell.sharedModel.metadataChanged.connect((_, { key }) => {
    if (key === 'trusted' && cell.getMetadata('trusted') !== true) {
      withdrawTrust(cell);
      look();
    }
  });
  cell.sharedModel.changed.connect(look);
  cell.stateChanged.connect((_, { name }) => {
    if (name !== 'trusted' || !cell.trusted || !isRunByOthers) {
      return;
    }
    isRunByOthers = cell.executionState !== 'running' && cell.outputs.length === 0;
    if (isRunByOthers) {
      // JupyterLab trusts a cell once its outputs are cleared, but outputs of the run may be on their way.
      cell.deleteMetadata('trusted');
      withdrawTrust(cell);
    }
  });
  look();
}
