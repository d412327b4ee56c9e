import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { Contents } from '@jupyterlab/services';

import { hasMethods } from '../lab/context';
import { report, whenOff, works } from '../lab/features';
import { serverPath } from '../notebook/drives';
import type { Connection } from '../api/connection';
import { OpenNotebook } from './open';
import type { Asked, ITold } from './protocol';
import { Refusal } from './protocol';

/** Milliseconds between two notes that a notebook changed. */
const NOTE_EVERY = 500;

/** The notebooks of this page, and what the server is told of them and asks of them. */
export class Page {
  constructor(
    private readonly _tracker: INotebookTracker,
    private readonly _contents: Contents.IManager,
    private readonly _connection: Connection
  ) {
    _tracker.widgetAdded.connect((_, panel) => void this._add(panel));
    _tracker.forEach(panel => void this._add(panel));
    _tracker.currentChanged.connect(() => this._tellSoon());
    window.addEventListener('focus', () => this._tellSoon());
    _connection.opened.connect(() => this._onOpened());
    _connection.received.connect((_, message) => this._onReceived(message));
    whenOff('tabs', () => {
      // What is open is the file for agents from now on.
      this._notebooks = [];
      this._tellSoon();
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
    if (panel.isDisposed || this._isElsewhere(panel) || this._find(context) !== undefined) {
      return;
    }
    if (!hasMethods(context)) {
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
      this._tellSoon();
    });
    context.pathChanged.connect(() => this._tellSoon());
    context.model.stateChanged.connect((_, { name }) => {
      if (name === 'dirty') {
        this._tellSoon();
      }
    });
    notebook.clock.ticked.connect(() => this._note(notebook));
    this._tell();
  }

  /** Whether a notebook is not the server's alone: shared by collaboration, or of another drive. */
  private _isElsewhere({ context }: NotebookPanel): boolean {
    return context.model.collaborative || serverPath(this._contents, context.path) === null;
  }

  private _find(context: OpenNotebook['context']): OpenNotebook | undefined {
    return this._notebooks.find(each => each.context === context);
  }

  // --- telling

  private _told(notebook: OpenNotebook): ITold {
    const current = this._tracker.currentWidget?.context === notebook.context;
    return {
      id: notebook.id,
      path: this._contents.localPath(notebook.context.path),
      dirty: notebook.dirty,
      focused: current && document.hasFocus()
    };
  }

  /** Tells all that is open, once everything that happens just now has happened. */
  private _tellSoon(): void {
    if (!this._isTelling) {
      this._isTelling = true;
      queueMicrotask(() => {
        this._isTelling = false;
        this._tell();
      });
    }
  }

  private _tell(): void {
    const tabs = this._notebooks.map(each => this._told(each));
    const list = ++this._lists;
    // What waits is not done, whatever came after it.
    const heard = Math.min(this._heard, ...[...this._waiting].map(id => id - 1));
    if (this._connection.send({ tabs, heard, list })) {
      const fresh = this._notebooks.filter(each => !this._known.has(each));
      fresh.forEach(each => this._known.add(each));
      this._fresh.set(list, fresh);
    }
  }

  /** Notes now and then that a notebook changes. */
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

  // --- hearing

  private _onOpened(): void {
    this._heard = 0;
    this._waiting = new Set();
    this._known = new WeakSet();
    this._tell();
  }

  private _onReceived(message: object): void {
    if ('listed' in message) {
      this._onListed(message.listed as number);
    } else if ('method' in message) {
      void this._answer(message as Asked);
    }
  }

  /** From now on nobody else writes these files: they may have been written a moment ago. */
  private _onListed(list: number): void {
    for (const notebook of this._fresh.get(list) ?? []) {
      notebook.catchUp();
    }
    this._fresh.delete(list);
  }

  private async _answer(asked: Asked): Promise<void> {
    this._heard = Math.max(this._heard, asked.id);
    const answer = asked.id;
    try {
      const notebook = this._notebooks.find(each => each.id === asked.tab);
      if (notebook === undefined) {
        throw new Refusal('not_open', 'That notebook is not open here.');
      }
      const waiting = this._waiting.add(answer);
      await notebook.caughtUp;
      if (waiting !== this._waiting) {
        // It was asked on a former line: the server asks again, or does so elsewhere.
        return;
      }
      waiting.delete(answer);
      this._connection.send({ answer, result: await notebook.answer(asked) });
    } catch (error) {
      const known = error instanceof Refusal ? error : new Refusal('bad_request', String(error));
      const { code, message, status } = known;
      this._connection.send({ answer, error: { code, message, status } });
    }
    if (asked.method !== 'read') {
      this._tell();
    }
  }

  private _notebooks: OpenNotebook[] = [];
  /** The questions on this line that wait for what others wrote to a file. */
  private _waiting = new Set<number>();
  private _known = new WeakSet<OpenNotebook>();
  private readonly _fresh = new Map<number, OpenNotebook[]>();
  private readonly _noted = new Set<OpenNotebook>();
  private _isTelling = false;
  private _lists = 0;
  private _heard = 0;
}
