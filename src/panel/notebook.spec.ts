import { Notification } from '@jupyterlab/apputils';
import { NotebookActions } from '@jupyterlab/notebook';
import { nullTranslator } from '@jupyterlab/translation';
import { Signal } from '@lumino/signaling';

import { type AppStore, createStore } from '../state/app';
import { BLANK, messageAbout, messageOf } from '../state/compose';
import { NotebookContext } from './notebook';
import { cellResults } from './pointing';

const trans = nullTranslator.load('tk-ai-extension');

/** A code cell with outputs of these types. */
function cell(id: string, source: string, ...outputs: string[]): object {
  const made = {
    length: outputs.length,
    get: (place: number) => ({ type: outputs[place], toJSON: () => ({}) })
  };
  return { id, type: 'code', sharedModel: { source }, outputs: made };
}

/** The context of an open notebook with these cells; and what says that the notebook changed. */
function contextOf(...models: object[]): {
  context: NotebookContext;
  store: AppStore;
  activate: (place: number) => void;
  edited: () => void;
  panel: { content: { model: object } };
} {
  const owner = {};
  const signal = (): Signal<object, unknown> => new Signal(owner);
  const cells = Object.assign(models, { changed: signal() });
  const model = { cells, contentChanged: signal() };
  const modelChanged = signal();
  const content = { activeCellIndex: 0, activeCell: null, widgets: [], model, modelChanged };
  const about = { path: 'plan.ipynb', pathChanged: signal(), ready: Promise.resolve() };
  const panel = { isDisposed: false, context: about, content };
  const activeCellChanged = signal();
  const currentChanged = signal();
  const notebooks = {
    currentWidget: panel,
    currentChanged,
    activeCellChanged,
    selectionChanged: signal(),
    find: (wanted: (each: object) => boolean) => [panel].find(wanted)
  };
  const store = createStore();
  const contents = { driveName: () => '', localPath: (path: string) => path };
  const context = new NotebookContext(
    { serviceManager: { contents } } as never,
    notebooks as never,
    null,
    trans,
    store
  );
  const activate = (place: number): void => {
    content.activeCellIndex = place;
    activeCellChanged.emit(null);
  };
  currentChanged.emit(panel);
  return { context, store, activate, edited: () => model.contentChanged.emit(undefined), panel };
}

describe('the subjects of suggested prompts', () => {
  it('are the table of the notebook, and no cell if none has failed', () => {
    const { context } = contextOf(
      cell('a', 'import pandas as pd'),
      cell('b', "sales = pd.read_csv('sales.csv')", 'error', 'stream')
    );
    expect(context.promptSubjects).toEqual({ failed: null, table: 'sales' });
  });

  it('are a cell with an error as its last output, preferably the active one', () => {
    const { context, activate } = contextOf(
      cell('a', 'x = 1'),
      cell('b', '\n1 / 0', 'stream', 'error'),
      cell('c', 'y', 'error')
    );
    expect(context.promptSubjects.failed).toEqual({ id: 'b', index: 1, line: '1 / 0' });
    activate(2);
    expect(context.promptSubjects.failed?.id).toBe('c');
    activate(0);
    expect(context.promptSubjects.failed?.id).toBe('b');
  });

  it('are those of the notebook as it is, whatever an agent or a person did to its cells', () => {
    const cells = ['a', 'b', 'c'].map(id => cell(id, 'x'));
    const { context, edited } = contextOf(...cells);
    const fails = cells.map(() => false);
    for (let step = 0; step < 200; step++) {
      const place = Math.floor(Math.random() * cells.length);
      fails[place] = Math.random() < 0.5;
      const outputs = fails[place] ? ['stream', 'error'] : ['stream'];
      const table = Math.random() < 0.5 ? 'sales' : 'costs';
      Object.assign(cells[place] as object, cell('abc'.charAt(place), 'x', ...outputs));
      Object.assign(cells[0] as object, { sharedModel: { source: `${table} = pd.read_csv('t')` } });
      edited();
      expect(context.promptSubjects.failed?.index ?? -1).toBe(fails.indexOf(true));
      expect(context.promptSubjects.table).toBe(table);
    }
  });

  it('are read again after a run, and the panel is rendered again', async () => {
    const cells = [cell('a', '1 / 0')];
    const { context, store } = contextOf(...cells);
    expect(context.promptSubjects.failed).toBeNull();
    const { seen } = store.state;
    Object.assign(cells[0] as object, cell('a', '1 / 0', 'error'));
    (NotebookActions.executed as unknown as { emit: (args: object) => void }).emit({});
    await new Promise(requestAnimationFrame);
    expect(context.promptSubjects.failed?.id).toBe('a');
    expect(store.state.seen).toEqual({ notebook: 'plan.ipynb', cell: null, selected: [] });
    expect(store.state.seen).not.toBe(seen);
  });
});

it('names the cells of a notebook without stored ids as the server does', () => {
  const models = ['r1', 'r2', 'r3'].map(id => ({
    ...cell(id, '1 / 0', 'error'),
    executionCount: null
  }));
  const { context, panel, activate } = contextOf(...models);
  const widgets = models.map(model => ({ model }));
  Object.assign(panel.content.model, { nbformat: 4, nbformatMinor: 4 });
  Object.assign(panel.content, { widgets, activeCell: widgets[1], isSelectedOrActive: () => true });
  activate(1);
  const { seen } = context;
  const options = { mode: 'ask', model: '', activeCell: true } as const;
  expect(messageOf(BLANK, seen, options)).toMatchObject({
    active_cell: 'cell-1',
    selected_cells: ['cell-0', 'cell-1', 'cell-2']
  });
  const about = context.named({ notebook: 'plan.ipynb', cells: ['r3', 'cell-0'] });
  expect(messageAbout('Fix it.', about, options)).toMatchObject({ active_cell: 'cell-2' });
  const found = [
    ...context.attachableOf({ notebook: 'plan.ipynb', cells: ['r2', 'cell-2'] }),
    ...cellResults(context, trans).map(each => each.attached)
  ];
  expect(found.map(each => (each?.attachment as { cell?: string } | undefined)?.cell)).toEqual(
    ['1', '2', '0', '0', '1', '1', '2', '2'].map(place => `cell-${place}`)
  );
  expect(context.promptSubjects.failed?.id).toBe('cell-1');
  expect(context.unrun(['cell-1', 'r1'])).toEqual(['cell-1']);
  expect(context.cells.map(({ id }) => id)).toEqual(['cell-0', 'cell-1', 'cell-2']);
});

it('replaces no cell that is read-only', async () => {
  const shown = jest.spyOn(Notification, 'warning').mockReturnValue('');
  const setSource = jest.fn();
  const { context, panel } = contextOf();
  const sharedModel = { setSource, source: '' };
  const replaced = async (readOnly: boolean): Promise<number> => {
    Object.assign(panel.content, { activeCell: { readOnly, model: { sharedModel } } });
    context.replaceCell('x = 1');
    await Promise.resolve();
    return setSource.mock.calls.length;
  };
  expect(await replaced(true)).toBe(0);
  expect(shown).toHaveBeenCalledWith('This cell is read-only.', expect.anything());
  expect(await replaced(false)).toBe(1);
  shown.mockRestore();
});

describe('code without a notebook', () => {
  it('shows a notification', () => {
    const shown = jest.spyOn(Notification, 'warning').mockReturnValue('');
    const context = new NotebookContext({} as never, null, null, trans, createStore());
    context.insertCell('x = 1');
    context.replaceCell('x = 1');
    const message = 'Open a notebook first.';
    expect(shown.mock.calls.map(([message]) => message)).toEqual([message, message]);
  });
});
