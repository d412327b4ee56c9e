import type { ICodeCellModel } from '@jupyterlab/cells';
import type { INotebookModel, NotebookPanel } from '@jupyterlab/notebook';
import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { Widget } from '@lumino/widgets';

import type { Uses } from '../uses';

/** Check a cell that is rendered outside of the page: its prompt, its layout and its CSS classes. */
export function checkCells(
  { insertIntoCell, report, setPrompt }: Uses,
  model: INotebookModel,
  contentFactory: NotebookPanel.IContentFactory,
  rendermime: IRenderMimeRegistry
): void {
  model.sharedModel.insertCell(0, { cell_type: 'code', source: '' });
  const cell = contentFactory.createCodeCell({
    model: model.cells.get(0) as ICodeCellModel,
    contentFactory,
    rendermime,
    placeholder: false
  });
  const { node } = cell;
  const attempt = (feature: 'prompts' | 'controls' | 'looks', look: () => boolean): void => {
    let ok = false;
    try {
      ok = look();
    } catch {
      // A method is missing.
    }
    report(feature, ok);
  };
  attempt('prompts', () => {
    setPrompt(cell, '*');
    return node.textContent.includes('[*]');
  });
  attempt('controls', () => {
    const [below, last] = [new Widget(), new Widget()];
    insertIntoCell(cell, below, 'below-input');
    insertIntoCell(cell, last, 'end');
    const parts = [...node.children];
    const editor = parts.findIndex(part => part.contains(cell.editor?.host ?? null));
    return (
      editor >= 0 &&
      parts.indexOf(below.node) === editor + 1 &&
      parts.indexOf(last.node) === parts.length - 2
    );
  });
  attempt('looks', () => {
    cell.outputHidden = true;
    return ['.jp-InputPrompt', ':scope > .jp-Cell-outputWrapper .jp-OutputPlaceholder'].every(
      selector => node.querySelector(selector) !== null
    );
  });
  // The editor loads its language asynchronously, and throws if it is disposed by then.
  setTimeout(() => {
    cell.dispose();
    model.dispose();
  });
}
