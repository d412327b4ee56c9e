import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { Contents } from '@jupyterlab/services';

import { hasMethods } from '../lab/context';
import { report, whenOff, works } from '../lab/features';
import { serverPath } from '../common/drives';
import type { Connection } from '../api/connection';
import { FocusReport } from './focusReport';
import { OpenNotebook } from './openNotebook';
import type { IncomingRequest, ITabInfo } from './protocol';
import { Refusal } from './protocol';

/** The notebooks that are open in this page: publishes them to the server, and answers its requests. */
export class OpenNotebooks {
  constructor(
    private readonly _tracker: INotebookTracker,
    private readonly _contents: Contents.IManager,
    private readonly _connection: Connection
  ) {
    this._focus = new FocusReport(
      _tracker,
      panel => this._find(panel.context)?.id,
      message => _connection.send(message)
    );
    _tracker.widgetAdded.connect((_, panel) => void this._add(panel));
    _tracker.forEach(panel => void this._add(panel));
    _tracker.currentChanged.connect(() => this._publishSoon());
    window.addEventListener('focus', () => this._publishSoon());
    _connection.opened.connect(() => this._onOpened());
    _connection.received.connect((_, message) => this._onReceived(message));
    whenOff('tabs', () => {
      // From now on agents edit the files.
      this._notebooks.forEach(each => each.dispose());
      this._notebooks = [];
      this._publishSoon();
    });
    if (_connection.isOpen) {
      this._onOpened();
    }
  }

  // --- notebooks

  private async _add(panel: NotebookPanel): Promise<void> {
    const { context } = panel;
    const isRead = context.isReady;
    await context.ready;
    const isElsewhere = serverPath(this._contents, context.path) === null;
    if (panel.isDisposed || isElsewhere || this._find(context) !== undefined) {
      return;
    }
    if (!context.model.collaborative && !hasMethods(context)) {
      report('tabs', false);
    }
    if (works('tabs') === false) {
      return;
    }
    const views = (): NotebookPanel[] => this._tracker.filter(each => each.context === context);
    const isAsInFile = !isRead || !context.model.dirty;
    const notebook = new OpenNotebook(context, this._contents, views, isAsInFile);
    this._notebooks.push(notebook);
    context.disposed.connect(() => {
      notebook.dispose();
      this._notebooks = this._notebooks.filter(each => each !== notebook);
      this._publishSoon();
    });
    context.pathChanged.connect(() => this._publishSoon());
    context.model.stateChanged.connect((_, { name }) => {
      // The answer to a request says it as well.
      if (name === 'dirty' && !this._answering.has(notebook)) {
        this._report(notebook);
      }
    });
    this._publish();
  }

  private _find(context: OpenNotebook['context']): OpenNotebook | undefined {
    return this._notebooks.find(each => each.context === context);
  }

  // --- messages to the server

  private _tabInfo(notebook: OpenNotebook): ITabInfo {
    const current = this._tracker.currentWidget?.context === notebook.context;
    return {
      id: notebook.id,
      path: this._contents.localPath(notebook.context.path),
      dirty: notebook.dirty,
      shared: notebook.shared,
      focused: current && document.hasFocus()
    };
  }

  /** Publish the list in a microtask, which coalesces the changes of this moment. */
  private _publishSoon(): void {
    if (!this._isPublishing) {
      this._isPublishing = true;
      queueMicrotask(() => {
        this._isPublishing = false;
        this._publish();
      });
    }
  }

  private _publish(): void {
    this._connection.send({ tabs: this._notebooks.map(each => this._tabInfo(each)) });
    this._focus.soon();
  }

  /** Report whether a notebook has unsaved changes. */
  private _report(notebook: OpenNotebook): void {
    this._connection.send({ changed: notebook.id, dirty: notebook.dirty });
  }

  // --- messages of the server

  private _onOpened(): void {
    this._session++;
    this._focus.again();
    this._publish();
  }

  private _onReceived(message: object): void {
    if ('listed' in message) {
      this._onListed(message.listed as string[]);
    } else if ('method' in message) {
      void this._answer(message as IncomingRequest);
    }
  }

  /** The server leaves these files to this page from now on. They may have been written a moment ago. */
  private _onListed(ids: string[]): void {
    this._notebooks.filter(each => ids.includes(each.id)).forEach(each => each.catchUp());
  }

  private async _answer(request: IncomingRequest): Promise<void> {
    const answer = request.id;
    const session = this._session;
    const notebook = this._notebooks.find(each => each.id === request.tab);
    if (notebook === undefined) {
      const message = 'That notebook is not open here.';
      this._connection.send({ answer, error: { code: 'not_open', message, status: 0 } });
      return;
    }
    let reply: object = {};
    this._answering.add(notebook);
    try {
      await notebook.caughtUp;
      // What came over a former connection, the server sends again, or it uses another tab.
      if (session === this._session) {
        reply = { result: await notebook.answer(request) };
      }
    } catch (error) {
      const known = error instanceof Refusal ? error : new Refusal('bad_request', String(error));
      const { code, message, status } = known;
      reply = { error: { code, message, status } };
    }
    this._answering.delete(notebook);
    if (session === this._session && request.method !== 'written') {
      // Over another connection, it would be taken for the answer to another request.
      this._connection.send({ answer, dirty: notebook.dirty, ...reply });
    } else {
      this._report(notebook);
    }
  }

  private readonly _focus: FocusReport;
  private _notebooks: OpenNotebook[] = [];
  /** The notebooks with a request that is not answered yet. */
  private readonly _answering = new Set<OpenNotebook>();
  private _isPublishing = false;
  /** The number of the connection. */
  private _session = 0;
}
