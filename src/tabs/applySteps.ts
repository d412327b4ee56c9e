/** Applies steps to the shared model of an open notebook. */

import type { ISharedCell, ISharedNotebook, YCodeCell } from '@jupyter/ydoc';
import type { PartialJSONObject } from '@lumino/coreutils';

import { editSource } from '../common/sourceEdit';
import { distrust, replaceOutputs } from './outputs';
import type { Step } from './protocol';
import { Refusal } from './protocol';

/**
 * Apply steps in one transaction, which is not in the person's undo history.
 *
 * Within a transaction the model's list of cells is not updated, so a copy is kept here. A source is
 * edited only where it differs, so that cursors stay.
 *
 * @param keyOf - Returns the name of a cell in the steps, which only one cell has. Default: its id.
 */
export function applySteps(
  notebook: ISharedNotebook,
  steps: readonly Step[],
  keyOf: (cell: ISharedCell) => string = cell => cell.getId()
): void {
  notebook.transact(() => {
    const cells: ISharedCell[] = [...notebook.cells];
    for (const step of steps) {
      applyStep(notebook, cells, step, keyOf);
    }
  }, false);
}

function applyStep(
  notebook: ISharedNotebook,
  cells: ISharedCell[],
  step: Step,
  keyOf: (cell: ISharedCell) => string
): void {
  if (step.do === 'insert') {
    cells.splice(step.index, 0, notebook.insertCell(step.index, step.cell));
    return;
  }
  const index = cells.findIndex(each => keyOf(each) === step.id);
  const cell = cells[index];
  if (cell === undefined) {
    throw new Refusal('bad_request', `There is no cell ${step.id}.`);
  }
  switch (step.do) {
    case 'delete':
      notebook.deleteCell(index);
      cells.splice(index, 1);
      break;
    case 'move': {
      // One that had the id of another cell is unique from now on.
      const copy = { ...cell.toJSON(), id: step.id };
      notebook.deleteCell(index);
      cells.splice(index, 1);
      cells.splice(step.to, 0, notebook.insertCell(step.to, copy));
      break;
    }
    case 'replace':
      notebook.deleteCell(index);
      cells.splice(index, 1, notebook.insertCell(index, step.cell));
      break;
    case 'set':
      for (const edit of step.source ?? []) {
        editSource(cell, edit);
      }
      if (step.metadata !== undefined) {
        setMetadata(cell, step.metadata);
      }
      if (cell.cell_type === 'code') {
        const code = cell as YCodeCell;
        if (step.outputs !== undefined) {
          distrust(code);
          replaceOutputs(code, 0, step.outputs);
        }
        if (step.execution_count !== undefined) {
          code.execution_count = step.execution_count;
        }
      }
  }
}

/** Set all metadata except `trusted`, which is not from the file. */
function setMetadata(cell: ISharedCell, metadata: PartialJSONObject): void {
  for (const key of Object.keys(cell.getMetadata())) {
    if (!(key in metadata) && key !== 'trusted') {
      cell.deleteMetadata(key);
    }
  }
  cell.setMetadata(metadata);
}
