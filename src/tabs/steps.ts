/** Changes of a notebook, carried out on the shared model that its editors show. */

import type { ISharedCell, ISharedNotebook, YCodeCell } from '@jupyter/ydoc';
import type { PartialJSONObject } from '@lumino/coreutils';

import { distrust } from './outputs';
import type { Step } from './protocol';
import { Refusal } from './protocol';

/**
 * Carries out steps in one transaction.
 *
 * It is none that a person's undo takes back. Within it the model's list of cells is still the old
 * one, so that the cells are followed here. Of a source just what differs is changed: cursors stay.
 */
export function carryOut(notebook: ISharedNotebook, steps: readonly Step[]): void {
  notebook.transact(() => {
    const cells: ISharedCell[] = [...notebook.cells];
    for (const step of steps) {
      carryOutOne(notebook, cells, step);
    }
  }, false);
}

function carryOutOne(notebook: ISharedNotebook, cells: ISharedCell[], step: Step): void {
  if (step.do === 'insert') {
    cells.splice(step.index, 0, notebook.insertCell(step.index, step.cell));
    return;
  }
  const index = cells.findIndex(cell => cell.getId() === step.id);
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
      const copy = cell.toJSON();
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
        cell.updateSource(edit.start, edit.end, edit.text);
      }
      if (step.metadata !== undefined) {
        setMetadata(cell, step.metadata);
      }
      if (cell.cell_type === 'code') {
        const code = cell as YCodeCell;
        if (step.outputs !== undefined) {
          distrust(code);
          code.setOutputs(step.outputs);
        }
        if (step.execution_count !== undefined) {
          code.execution_count = step.execution_count;
        }
      }
  }
}

/** Sets all metadata but for trust, which is not the file's. */
function setMetadata(cell: ISharedCell, metadata: PartialJSONObject): void {
  for (const key of Object.keys(cell.getMetadata())) {
    if (!(key in metadata) && key !== 'trusted') {
      cell.deleteMetadata(key);
    }
  }
  cell.setMetadata(metadata);
}
