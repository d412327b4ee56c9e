import type { Cell, ICodeCellModel } from '@jupyterlab/cells';
import { Context } from '@jupyterlab/docregistry';
import { NotebookModelFactory } from '@jupyterlab/notebook';
import { MimeData } from '@lumino/coreutils';
import { Signal } from '@lumino/signaling';
import { Panel, Widget } from '@lumino/widgets';

import { forgetResults, report, switchedOff, whenOff, works } from './features';
import { draggedIn, insertIntoCell, withdrawTrust } from './internals';
import { runSelfTest } from './selfTest';

beforeEach(forgetResults);

describe('a feature', () => {
  it('stays switched off once it has failed, and calls back once', () => {
    const called: string[] = [];
    whenOff('tabs', () => called.push('before'));
    report('tabs', false);
    report('tabs', true);
    whenOff('tabs', () => called.push('after'));
    expect([works('tabs'), switchedOff(), called]).toEqual([false, ['tabs'], ['before', 'after']]);
  });
});

describe('the self-test', () => {
  const of = {};
  const signals = { fileChanged: new Signal(of), runningChanged: new Signal(of) };
  const path = (each: string): string => each;
  const serviceManager = {
    contents: { ...signals, normalize: path, localPath: path, driveName: () => '' },
    kernels: signals,
    kernelspecs: { specsChanged: new Signal(of) },
    sessions: signals
  };
  const factory = new NotebookModelFactory();
  const { prototype } = Context as unknown as { prototype: Record<string, unknown> };
  const own = prototype['_raiseConflict'];

  async function run(getModelFactory: () => unknown = () => factory): Promise<void> {
    const docRegistry = { getModelFactory };
    const app = { docRegistry, name: 'Jupyter', version: '9.0.0', serviceManager };
    await runSelfTest(app as never);
  }

  beforeEach(() => {
    jest.spyOn(console, 'warn').mockImplementation(() => undefined);
    jest.spyOn(console, 'debug').mockImplementation(() => undefined);
    Object.assign(performance, { measure: () => ({ duration: 1 }) });
  });
  afterEach(() => {
    prototype['_raiseConflict'] = own;
    jest.restoreAllMocks();
  });

  it('passes with this JupyterLab', async () => {
    await run();
    expect((['trust', 'tabs'] as const).map(works)).toEqual([true, true]);
  });

  it('switches off a renamed feature', async () => {
    prototype['_raiseConflict'] = undefined;
    await run();
    expect(switchedOff()).toEqual(['tabs']);
  });

  it('switches off a feature that throws', async () => {
    await run(() => ({
      createNew: () => {
        throw new TypeError('createNew is not what it was');
      }
    }));
    expect(switchedOff()).toEqual(['trust', 'tabs']);
  });
});

describe('a trusted cell with outputs of an agent', () => {
  it.each([true, false])('is untrusted, whether or not the self-test has passed: %s', passed => {
    report('trust', passed);
    const model = new NotebookModelFactory().createNew();
    model.sharedModel.insertCell(0, { cell_type: 'code', source: '' });
    const cell = model.cells.get(0) as ICodeCellModel;
    cell.trusted = true;
    withdrawTrust(cell);
    expect([cell.trusted, cell.outputs.trusted]).toEqual([false, false]);
  });
});

describe('controls in a cell', () => {
  it.each([
    ['jp-Cell-inputWrapper', 'below-input', 2],
    ['jp-Cell-inputWrapper', 'end', 2],
    ['jp-Cell-input', 'end', 3]
  ] as const)('in %s have their place: %s', (input, place, index) => {
    const cell = new Panel();
    for (const name of ['jp-CellHeader', input, 'jp-CellFooter']) {
      const part = new Widget();
      part.addClass(name);
      cell.addWidget(part);
    }
    const control = new Widget();
    insertIntoCell(cell as unknown as Cell, control, place);
    expect(cell.widgets.indexOf(control)).toBe(index);
  });
});

test('a drag is recognized by its MIME type', () => {
  const data = new MimeData();
  expect(draggedIn(data)).toBeNull();
  data.setData('application/vnd.jupyter.cells', [{ id: 'a' }, {}]);
  expect(draggedIn(data)).toEqual({ kind: 'cells', ids: ['a'] });
  data.setData('application/x-jupyter-icontents', ['a.txt']);
  expect(draggedIn(data)).toEqual({ kind: 'files', paths: ['a.txt'] });
});
