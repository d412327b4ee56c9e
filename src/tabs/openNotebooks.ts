import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { Contents } from '@jupyterlab/services';

import { hasMethods } from '../lab/context';
import { report, whenOff, works } from '../lab/features';
import { serverPath } from '../common/drives';
import type { Connection } from '../api/connection';
import { OpenNotebook } from './openNotebook';
import type { IncomingRequest, ITabInfo } from './protocol';
import { Refusal } from './protocol';

/** Milliseconds between two notifications that a notebook changed. */
const NOTE_EVERY = 500;

/** The notebooks that are open in this page: publishes them to the server, and answers its requests. */
export class OpenNotebooks {
  constructor(
    private readonly _tracker: INotebookTracker,
    private readonly _contents: Contents.IManager,
    private readonly _connection: Connection
  ) {
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
    context.pathChanged.connect(() => {
      // Until now, agents may have edited the file under its new path.
      this._known.delete(notebook);
      this._publishSoon();
    });
    context.model.stateChanged.connect((_, { name }) => {
      if (name === 'dirty') {
        this._publishSoon();
      }
    });
    notebook.versions.ticked.connect(() => this._note(notebook));
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
    const tabs = this._notebooks.map(each => this._tabInfo(each));
    const list = ++this._lists;
    // A request that still waits is not received in this sense, whatever came after it.
    const received = Math.min(this._lastRequest, ...[...this._waiting].map(id => id - 1));
    if (this._connection.send({ tabs, received, list })) {
      const fresh = this._notebooks.filter(each => !this._known.has(each));
      fresh.forEach(each => this._known.add(each));
      this._fresh.set(list, fresh);
    }
  }

  /** Notify the server that a notebook changed, throttled. */
  private _note(notebook: OpenNotebook): void {
    if (this._noted.has(notebook)) {
      return;
    }
    this._noted.add(notebook);
    window.setTimeout(() => {
      this._noted.delete(notebook);
      this._connection.send({ changed: notebook.id, dirty: notebook.dirty });
    }, NOTE_EVERY);
  }

  // --- messages of the server

  private _onOpened(): void {
    this._lastRequest = 0;
    this._waiting = new Set();
    this._known = new WeakSet();
    this._publish();
  }

  private _onReceived(message: object): void {
    if ('listed' in message) {
      this._onListed(message.listed as number);
    } else if ('method' in message) {
      void this._answer(message as IncomingRequest);
    }
  }

  /** The server now leaves these files to this page. They may have been written a moment ago. */
  private _onListed(list: number): void {
    for (const notebook of this._fresh.get(list) ?? []) {
      notebook.catchUp();
    }
    this._fresh.delete(list);
  }

  private async _answer(request: IncomingRequest): Promise<void> {
    this._lastRequest = Math.max(this._lastRequest, request.id);
    const answer = request.id;
    const waiting = this._waiting;
    let reply: object;
    try {
      const notebook = this._notebooks.find(each => each.id === request.tab);
      if (notebook === undefined) {
        throw new Refusal('not_open', 'That notebook is not open here.');
      }
      waiting.add(answer);
      await notebook.caughtUp;
      if (waiting !== this._waiting) {
        // It came over a former connection: the server sends it again, or uses another tab.
        return;
      }
      waiting.delete(answer);
      reply = { result: await notebook.answer(request) };
    } catch (error) {
      const known = error instanceof Refusal ? error : new Refusal('bad_request', String(error));
      const { code, message, status } = known;
      reply = { error: { code, message, status } };
    }
    if (waiting === this._waiting && request.method !== 'written') {
      // Over another connection, it would be taken for the answer to another request.
      this._connection.send({ answer, ...reply });
    }
    if (request.method !== 'read') {
      this._publish();
    }
  }

  private _notebooks: OpenNotebook[] = [];
  /** Ids of requests on this connection that wait until a file was read. */
  private _waiting = new Set<number>();
  private _known = new WeakSet<OpenNotebook>();
  private readonly _fresh = new Map<number, OpenNotebook[]>();
  private readonly _noted = new Set<OpenNotebook>();
  private _isPublishing = false;
  private _lists = 0;
  private _lastRequest = 0;
}
