import { Notification } from '@jupyterlab/apputils';
import type { Cell } from '@jupyterlab/cells';
import {
  CodeMirrorEditorFactory,
  CodeMirrorMimeTypeService,
  EditorLanguageRegistry
} from '@jupyterlab/codemirror';
import {
  type INotebookModel,
  Notebook,
  NotebookModelFactory,
  NotebookPanel
} from '@jupyterlab/notebook';
import { RenderMimeRegistry, standardRendererFactories } from '@jupyterlab/rendermime';
import { nullTranslator } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';
import { act, fireEvent } from '@testing-library/react';

import { applySteps } from '../tabs/applySteps';
import type { Step } from '../tabs/protocol';
import { code, notebook as content } from '../testing/notebooks';
import { serverSettings } from '../testing/server';
import { openPrompt } from './CellPrompt';
import type { ICodeContext } from './codeApi';
import { putInto } from './cells';

const asked: ICodeContext[] = [];

const settings = serverSettings(({ body }) => {
  asked.push(JSON.parse(body) as ICodeContext);
  return new Promise(() => undefined);
});

const trans = nullTranslator.load('tk-ai-extension');

/** Wait for Lumino's messages, which are processed in an animation frame, and for React. */
const settled = (): Promise<void> =>
  act(
    () =>
      new Promise<void>(resolve =>
        requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(resolve)))
      )
  );

const context = { localPath: '', model: { sharedModel: { getMetadata: () => undefined } } };

describe('the prompt of a cell', () => {
  let notebook: Notebook;

  beforeEach(() => {
    const editors = new CodeMirrorEditorFactory();
    notebook = new Notebook({
      rendermime: new RenderMimeRegistry({ initialFactories: standardRendererFactories }),
      mimeTypeService: new CodeMirrorMimeTypeService(new EditorLanguageRegistry()),
      contentFactory: new NotebookPanel.ContentFactory({
        editorFactory: options => editors.newInlineEditor(options)
      }),
      notebookConfig: { ...Notebook.defaultNotebookConfig, windowingMode: 'none' }
    });
    const model = new NotebookModelFactory().createNew();
    model.fromJSON(content([code('a'), code('b'), code('c')]));
    notebook.model = model;
    Widget.attach(notebook, document.body);
    context.localPath = 'a.ipynb';
  });

  afterEach(() => {
    notebook.dispose();
    document.body.replaceChildren();
    jest.restoreAllMocks();
  });

  const cellOf = (id: string): Cell | undefined =>
    notebook.widgets.find(({ model }) => model.id === id);
  const box = (id = 'b'): HTMLTextAreaElement | null =>
    cellOf(id)?.node.querySelector('.tk-Review textarea') ?? null;

  /** Open the prompt of a cell, and write into it. */
  async function write(text: string, id = 'b'): Promise<void> {
    const typed = new Widget({ node: document.createElement('textarea') });
    openPrompt({
      ...{ panel: { content: notebook, context } as never, cell: cellOf(id) as Cell, typed },
      ...{ mode: 'command', settings },
      ...{ put: putInto, trans }
    });
    await settled();
    fireEvent.change(box(id) as HTMLTextAreaElement, { target: { value: text } });
    await settled();
  }

  /** Change the notebook as an agent does. */
  function apply(...steps: Step[]): Promise<void> {
    applySteps((notebook.model as INotebookModel).sharedModel, steps);
    return settled();
  }

  const MARKDOWN = { id: 'b', cell_type: 'markdown', metadata: {}, source: 'b' } as const;
  const REPLACING: [string, Step[]][] = [
    ['is moved', [{ do: 'move', id: 'b', to: 0 }]],
    ['changes its type', [{ do: 'replace', id: 'b', cell: MARKDOWN as never }]],
    [
      'is deleted and inserted again',
      [
        { do: 'delete', id: 'b' },
        { do: 'insert', index: 2, cell: code('b') as never }
      ]
    ]
  ];

  it.each(REPLACING)('keeps its text and focus when the cell %s', async (_, steps) => {
    await write('Sort it');
    for (let round = 0; round < 2; round++) {
      const before = box();
      await apply(...steps);
      expect(box()).not.toBe(before);
      expect(box()?.value).toBe('Sort it');
      expect(document.activeElement).toBe(box());
    }
  });

  it('asks by the path that its notebook has then', async () => {
    await write('Sort it');
    context.localPath = 'b.ipynb';
    fireEvent.keyDown(box() as HTMLTextAreaElement, { key: 'Enter' });
    await settled();
    expect(asked.at(-1)?.notebook).toBe('b.ipynb');
  });

  it('takes no focus when the person is elsewhere', async () => {
    await write('Sort it');
    const elsewhere = document.body.appendChild(document.createElement('input'));
    elsewhere.focus();
    await settled();
    await apply({ do: 'move', id: 'b', to: 0 });
    expect(box()?.value).toBe('Sort it');
    expect(document.activeElement).toBe(elsewhere);
  });

  it('keeps its text while the cell is detached, as outside of the viewport', async () => {
    await write('Sort it');
    Widget.detach(notebook);
    Widget.attach(notebook, document.body);
    await settled();
    expect(box()?.value).toBe('Sort it');
  });

  it('stays closed if it was closed before', async () => {
    const warning = jest.spyOn(Notification, 'warning').mockReturnValue('');
    await write('Sort it');
    fireEvent.keyDown(box() as HTMLTextAreaElement, { key: 'Escape' });
    await apply({ do: 'move', id: 'b', to: 0 });
    expect([box(), warning.mock.calls.length]).toEqual([null, 0]);
  });
});
