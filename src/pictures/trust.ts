import type { ICellModel, ICodeCellModel } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';

import { report, works } from '../lab/features';
import { emitUntrusted, isTrusted, withdrawTrust } from '../lab/trust';
import { onCellModels } from '../notebook/cells';

/** The cells that are followed already, for another view of their notebook. */
const FOLLOWED = new WeakSet<ICellModel>();

/**
 * Takes a person's trust from the cells whose outputs become an agent's.
 *
 * Who writes an agent's outputs takes the trust out of the cell in the document. JupyterLab reads
 * that only when it opens a notebook: in an open one, the scripts of what comes next would run.
 */
export function followDistrust(panel: NotebookPanel): void {
  const follow = (): void => {
    for (const cell of panel.content.model?.cells ?? []) {
      if (cell.type === 'code' && !FOLLOWED.has(cell)) {
        FOLLOWED.add(cell);
        // Told before the outputs of the same change are taken in.
        cell.sharedModel.metadataChanged.connect((_, { key }) => {
          if (key === 'trusted' && cell.getMetadata('trusted') !== true) {
            distrust(cell);
          }
        });
      }
    }
  };
  onCellModels(panel, follow);
}

/**
 * What comes into the cell from now on is not trusted, until a person runs or trusts it again.
 *
 * Where it is not known that this can be done quietly, the model's own setter is used. Where the cell
 * is trusted even then, its outputs are cleared, and no notebook renders HTML from then on.
 */
export function distrust(cell: ICellModel): void {
  if (!cell.trusted) {
    return;
  }
  const model = cell as ICodeCellModel;
  if (works('quiet-trust') === true && withdrawTrust(model)) {
    emitUntrusted(cell);
    return;
  }
  cell.trusted = false;
  model.outputs.trusted = false;
  if (isTrusted(model)) {
    model.outputs.clear();
    report('trust', false);
  }
}
