import type { Cell, ICodeCellModel } from '@jupyterlab/cells';
import { NotebookModelFactory } from '@jupyterlab/notebook';
import { MimeData } from '@lumino/coreutils';
import { Panel, Widget } from '@lumino/widgets';

import { type Feature, forgetResults, onSwitchedOff, switchOff } from './features';
import { draggedIn, insertIntoCell, withdrawTrust } from './internals';

beforeEach(forgetResults);

/** Return the features that are switched off. */
function switchedOff(): Feature[] {
  const found: Feature[] = [];
  onSwitchedOff(feature => found.push(feature));
  return found;
}

describe('a feature', () => {
  it('is switched off once, and said to those who ask before and after', () => {
    const called: string[] = [];
    onSwitchedOff(feature => called.push(`before: ${feature}`));
    switchOff('tabs');
    switchOff('tabs');
    onSwitchedOff(feature => called.push(`after: ${feature}`));
    expect(called).toEqual(['before: tabs', 'after: tabs']);
  });
});

describe('a trusted cell whose outputs become an agent’s', () => {
  it('is untrusted', () => {
    const model = new NotebookModelFactory().createNew();
    model.sharedModel.insertCell(0, { cell_type: 'code', source: '' });
    const cell = model.cells.get(0) as ICodeCellModel;
    cell.trusted = true;
    withdrawTrust(cell);
    expect([cell.trusted, cell.outputs.trusted, switchedOff()]).toEqual([false, false, []]);
  });
});

describe('controls in a cell', () => {
  it.each([
    ['jp-Cell-inputWrapper', 'below-input', 2, []],
    ['jp-Cell-inputWrapper', 'end', 2, []],
    ['jp-Cell-input', 'end', 3, ['controls']]
  ] as const)('in %s have their place: %s', (input, place, index, off) => {
    const cell = new Panel();
    for (const name of ['jp-CellHeader', input, 'jp-CellFooter']) {
      const part = new Widget();
      part.addClass(name);
      cell.addWidget(part);
    }
    const control = new Widget();
    insertIntoCell(cell as unknown as Cell, control, place);
    expect([cell.widgets.indexOf(control), switchedOff()]).toEqual([index, off]);
  });
});

describe('what is dragged', () => {
  const notebook = new Widget();
  notebook.addClass('jp-Notebook');

  it('is known by its type', () => {
    const data = new MimeData();
    data.setData('application/vnd.jupyter.cells', [{ id: 'a' }, {}]);
    expect(draggedIn(data, notebook)).toEqual({ kind: 'cells', ids: ['a'] });
    data.setData('application/x-jupyter-icontents', ['a.txt']);
    expect(draggedIn(data, notebook)).toEqual({ kind: 'files', paths: ['a.txt'] });
    expect(switchedOff()).toEqual([]);
  });

  it('switches dragging off where a notebook gives it another type', () => {
    const data = new MimeData();
    data.setData('application/vnd.jupyter.cells+json', []);
    expect([draggedIn(data, new Widget()), switchedOff()]).toEqual([null, []]);
    expect([draggedIn(data, notebook), switchedOff()]).toEqual([null, ['dragging']]);
  });
});
