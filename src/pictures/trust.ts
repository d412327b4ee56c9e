import type { CellModel, ICellModel, ICodeCellModel } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';

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
 * The model's own way would write what is there anew, into a document that others write, too.
 */
export function distrust(cell: ICellModel): void {
  if (!cell.trusted) {
    return;
  }
  const model = cell as ICodeCellModel;
  Object.assign(model.outputs, { _trusted: false });
  Object.assign(model, { _trusted: false });
  const { stateChanged } = cell as unknown as Pick<CellModel, 'stateChanged'>;
  stateChanged.emit({ name: 'trusted', oldValue: true, newValue: false });
}
