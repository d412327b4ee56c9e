import { YNotebook } from '@jupyter/ydoc';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { Contents } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';

import type { Connection } from '../api/connection';
import { forgetResults, report, works } from '../lab/features';
import { OpenNotebook } from './openNotebook';
import { OpenNotebooks } from './openNotebooks';

const of = {};

/** A page and what a test does with it. */
interface IPage {
  /** Return the last list that it published. */
  tabs: () => object[];
  /** Send the server’s confirmation of the list. */
  listed: () => void;
  /** Rename the notebook; the page publishes its new path in a microtask. */
  rename: (path: string) => void;
  /** Receive a request over the connection, or a message. */
  receive: (message: object) => void;
  /** Connect again. */
  reconnect: () => void;
  /** The answers that it sent. */
  answers: object[];
}

/** Make a page with an open notebook. */
async function page(missing?: string, get = jest.fn()): Promise<IPage> {
  const nothing = (): Promise<void> => Promise.resolve();
  const model = {
    collaborative: false,
    dirty: false,
    fromJSON: nothing,
    toJSON: nothing,
    sharedModel: new YNotebook(),
    stateChanged: new Signal(of)
  };
  const methods = ['save', 'revert', '_handleError', '_raiseConflict'];
  const context = {
    ...Object.fromEntries(methods.filter(name => name !== missing).map(name => [name, nothing])),
    path: 'a.ipynb',
    isReady: true,
    ready: Promise.resolve(),
    model,
    disposed: new Signal(of),
    pathChanged: new Signal<object, string>(of)
  };
  const rename = (path: string): void => {
    context.path = path;
    context.pathChanged.emit(path);
  };
  const panel = { context, isDisposed: false } as unknown as NotebookPanel;
  const tracker = {
    widgetAdded: new Signal(of),
    currentChanged: new Signal(of),
    activeCellChanged: new Signal(of),
    selectionChanged: new Signal(of),
    currentWidget: null,
    forEach: (done: (panel: NotebookPanel) => void) => done(panel),
    filter: () => []
  };
  let tabs: { id: string }[] = [];
  const received = new Signal<object, object>(of);
  const opened = new Signal<object, void>(of);
  const answers: object[] = [];
  const connection = {
    isOpen: true,
    opened,
    received,
    send: (message: { tabs?: { id: string }[]; answer?: number }) => {
      if (message.answer !== undefined) {
        answers.push(message);
      }
      tabs = message.tabs ?? tabs;
      return true;
    }
  };
  const contents = { driveName: () => '', localPath: (path: string) => path, get };
  new OpenNotebooks(
    tracker as unknown as INotebookTracker,
    contents as unknown as Contents.IManager,
    connection as unknown as Connection
  );
  await new Promise(resolve => setTimeout(resolve));
  return {
    tabs: () => tabs,
    listed: () => received.emit({ listed: tabs.map(each => each.id) }),
    rename,
    receive: message => received.emit(message),
    reconnect: () => opened.emit(),
    answers
  };
}

describe('a notebook that is open', () => {
  beforeEach(forgetResults);

  it('is offered to agents', async () => {
    const { tabs } = await page();
    expect(tabs()).toMatchObject([{ path: 'a.ipynb' }]);
  });

  it.each(['_handleError', '_raiseConflict', 'revert'])(
    'is not, where JupyterLab has no %s',
    async missing => {
      const { tabs } = await page(missing);
      expect(tabs()).toEqual([]);
      expect(works('tabs')).toBe(false);
    }
  );

  it('is not, once the self-test has found another way to save', async () => {
    const { tabs } = await page();
    const dispose = jest.spyOn(OpenNotebook.prototype, 'dispose');
    report('tabs', false);
    await Promise.resolve();
    expect(tabs()).toEqual([]);
    expect(dispose).toHaveBeenCalledTimes(1);
    expect((await page()).tabs()).toEqual([]);
  });

  it('reads its file again once the server has listed its new path', async () => {
    const get = jest.fn(() => Promise.resolve({ last_modified: '' }));
    const { listed, rename, tabs } = await page(undefined, get);
    const nextTask = (): Promise<void> => new Promise(resolve => setTimeout(resolve));
    listed();
    await nextTask();
    expect(get).toHaveBeenCalledTimes(1);
    rename('b.ipynb');
    await nextTask();
    expect(tabs()).toMatchObject([{ path: 'b.ipynb' }]);
    expect(get).toHaveBeenCalledTimes(1);
    listed();
    await nextTask();
    expect(get).toHaveBeenCalledTimes(2);
    expect(get).toHaveBeenLastCalledWith('b.ipynb', expect.anything());
  });

  it('answers only over the connection of the request', async () => {
    const nextTask = (): Promise<void> => new Promise(resolve => setTimeout(resolve));
    for (const fails of [false, true]) {
      let end = (): void => undefined;
      const get = jest.fn(
        () =>
          new Promise((resolve, reject) => {
            end = fails ? reject : () => resolve({ last_modified: '' });
          })
      );
      const { tabs, receive, reconnect, answers } = await page(undefined, get as never);
      const [{ id: tab }] = tabs() as [{ id: string }];
      receive({ id: 3, tab, method: 'refresh' });
      await nextTask();
      reconnect();
      receive({ id: 3, tab, method: 'read', since: 0 });
      await nextTask();
      end();
      await nextTask();
      // That of the second request, which was answered at once.
      expect(answers).toMatchObject([{ answer: 3, result: { order: [] } }]);
    }
  });

  it('reads its file once the server has listed it, again where that fails', async () => {
    const get = jest.fn(() => Promise.reject(new TypeError('Failed to fetch')));
    const { listed } = await page(undefined, get);
    const random = jest.spyOn(Math, 'random').mockReturnValue(0);
    jest.useFakeTimers();
    try {
      listed();
      await jest.advanceTimersByTimeAsync(0);
      expect(get).toHaveBeenCalledTimes(1);
      await jest.advanceTimersByTimeAsync(200);
      expect(get).toHaveBeenCalledTimes(2);
      await jest.advanceTimersByTimeAsync(60_000);
      expect(get).toHaveBeenCalledTimes(6);
    } finally {
      jest.useRealTimers();
      random.mockRestore();
    }
  });
});
