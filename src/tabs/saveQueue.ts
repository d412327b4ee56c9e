import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { ICodeCellModel } from '@jupyterlab/cells';
import type * as nbformat from '@jupyterlab/nbformat';
import type { INotebookModel } from '@jupyterlab/notebook';
import type { Contents } from '@jupyterlab/services';
import { PromiseDelegate } from '@lumino/coreutils';

import { type IContextMethods, noteWritten, replaceMethods } from '../lab/context';
import type { ILeft } from './protocol';
import { Refusal } from './protocol';
import { baseAfter } from './threeWayMerge';

type Context = DocumentRegistry.Context;
type Content = nbformat.INotebookContent;

/** The content of a notebook at a version, with the keys of its cells. */
export interface IState {
  content: Content;
  version: number;
  keys: string[];
}

/** The open document of a notebook. */
export interface IOpenContent {
  /** Return the version of the last change. */
  version(): number;
  /** Return the present state, given its content. */
  state(content: Content): IState;
  /**
   * Merge the file with the unsaved changes.
   *
   * @param base - The content of the file before; null if unknown.
   * @param load - Replaces everything by the file, as JupyterLab does.
   * @throws Refusal - There is a conflict.
   */
  merge(file: Content, base: Content | null, load: (file: Content) => void): void;
  /**
   * Return what the document has and a former state lacks, and the present state, which shares the cells
   * that are the same; null if a save must write it whole.
   */
  unsaved(state: IState): { left: Omit<ILeft, 'base'>; state: IState } | null;
}

/** Milliseconds in which the server writes the file: then saves go on. */
const WRITE = 10_000;

/**
 * Milliseconds after which JupyterLab saves what the server has written: it signs the notebook, so that
 * what a person trusts stays trusted.
 */
const SIGN = 10_000;

/**
 * Serializes the saves of one notebook.
 *
 * Two saves at once end in a false "File Changed". So `context.save` and `context.revert` are
 * replaced: saves of the person and autosaves wait in this queue, too.
 */
export class SaveQueue {
  /**
   * @param _open - The open document.
   * @param file - The content of the file, if the document is as it; else null.
   */
  constructor(
    private readonly _context: Context,
    private readonly _contents: Contents.IManager,
    private readonly _open: IOpenContent,
    file: Content | null
  ) {
    this._file = file && _open.state(file);
    this._own = replaceMethods(_context, own => ({
      // While its dialog is open, JupyterLab calls these itself.
      save: () => (this._isAsking ? own.save() : this._queue(() => this._saveForPerson())),
      revert: () => (this._isAsking ? own.revert() : this._queue(own.revert)),
      load: content => this._load(content as Content, own.load),
      showError: async (...args) => (this._isForAgent ? undefined : own.showError(...args)),
      askConflict: (...args) => this._askConflict(() => own.askConflict(...args))
    }));
  }

  /**
   * Save for an agent: throw where a dialog would open.
   *
   * @returns What the server has to write, for which later saves wait; null if it is saved.
   */
  async save(): Promise<ILeft | null> {
    const answer = new PromiseDelegate<ILeft | null>();
    this._queueForAgent(async () => {
      const left = this._leave();
      if (left === null) {
        await this._saveForAgent();
      }
      answer.resolve(left);
      await this._held?.promise;
    }).catch(answer.reject.bind(answer));
    return answer.promise;
  }

  /** Return what the server has to write, as `save` does; null if that has to wait for other saves. */
  offer(): ILeft | null {
    const left = this._working === 0 && !this._isAsking ? this._leave() : null;
    const held = this._held;
    if (left !== null && held !== null) {
      void this._queue(() => held.promise);
    }
    return left;
  }

  private _leave(): ILeft | null {
    const { model, contentsModel } = this._context;
    const base = this._hash ?? contentsModel?.hash ?? null;
    if (!model.dirty || base === null || this._file === null || this._unconfirmed !== null) {
      return null;
    }
    const unsaved = this._open.unsaved(this._file);
    if (unsaved === null) {
      return null;
    }
    this._unconfirmed = unsaved.state;
    const held = (this._held = new PromiseDelegate<void>());
    const timer = window.setTimeout(() => this.written(null), WRITE);
    void held.promise.then(() => window.clearTimeout(timer));
    return { base, ...unsaved.left };
  }

  /** The server has written the file, or it has not. */
  written(hash: string | null): void {
    const [held, written] = [this._held, this._unconfirmed];
    if (held === null || written === null) {
      return;
    }
    this._held = null;
    if (hash !== null) {
      this._confirm(written);
      this._hash = hash;
      this._context.model.dirty = !this._isNow(written);
      this._signSoon();
    }
    held.resolve();
  }

  /** The file has this state. */
  private _confirm(state: IState | null): void {
    this._file = state;
    this._unconfirmed = null;
    this._hash = null;
  }

  private _isNow({ version }: IState): boolean {
    return this._open.version() === version;
  }

  private _signSoon(): void {
    this._signing ??= window.setTimeout(() => {
      this._signing = null;
      const isTrusted = [...(this._context.model as INotebookModel).cells].some(
        cell => cell.trusted && cell.type === 'code' && (cell as ICodeCellModel).outputs.length > 0
      );
      if (this._hash !== null && isTrusted && !this._context.isDisposed) {
        this._queueForAgent(() => this._saveQuietly()).catch(() => undefined);
      }
    }, SIGN);
  }

  private async _saveForAgent(): Promise<void> {
    if (!this._context.model.dirty) {
      return;
    }
    try {
      await this._saveQuietly();
    } catch (error) {
      if (error instanceof Refusal) {
        throw error;
      }
      const { message, response } = error as { message?: string; response?: Response };
      throw new Refusal('save_failed', message ?? String(error), response?.status ?? 0);
    }
  }

  /** Save, and fail where JupyterLab would ask. */
  private async _saveQuietly(): Promise<void> {
    await this._takeFile();
    await this._withoutDialogs(() => this._saveAll());
  }

  /**
   * Merge what others wrote to the file.
   *
   * @throws Refusal - It conflicts with unsaved changes.
   */
  async refresh(): Promise<void> {
    await this._queueForAgent(() => this._takeFile());
  }

  // --- the file

  private async _takeFile(): Promise<void> {
    // JupyterLab compares the file with what it has read or saved itself.
    if (this._hash !== null || (await this._isOutdated())) {
      await this._withoutDialogs(this._own.revert);
    }
  }

  /** Whether the file changed since it was read or saved here. */
  private async _isOutdated(): Promise<boolean> {
    const known = this._context.contentsModel;
    const now = await this._contents.get(this._context.path, { content: false, hash: true });
    if (known?.hash && now.hash) {
      return known.hash !== now.hash;
    }
    return known !== null && known.last_modified !== now.last_modified;
  }

  /**
   * Handle content that JupyterLab has read from the file.
   *
   * JupyterLab itself would create every cell again and drop unsaved changes, which is for the
   * person to choose.
   */
  private _load(file: Content, load: (file: Content) => void): void {
    if (this._isForAgent) {
      // The file may be from a save that lost its response.
      const [before, sent] = [this._file?.content ?? null, this._unconfirmed?.content];
      const base = sent ? baseAfter(before ?? { ...sent, cells: [] }, sent, file) : before;
      this._open.merge(file, base, load);
    } else {
      load(file);
    }
    const isMerged = this._isForAgent && this._context.model.dirty;
    const keys = file.cells.map(cell => cell['id'] as string);
    this._confirm(isMerged ? { content: file, version: -1, keys } : this._open.state(file));
  }

  // --- saves

  private async _saveForPerson(): Promise<void> {
    // On a conflict, JupyterLab asks what to keep.
    await this._takeFile().catch(() => undefined);
    await this._saveAll();
  }

  private async _saveAll(): Promise<void> {
    const before = this._file;
    await this._write();
    if (this._file !== before) {
      // JupyterLab asked, and the person chose the file.
      return;
    }
    const written = this._unconfirmed;
    this._confirm(written);
    if (written === null || !this._isNow(written)) {
      // Changes made during the save are not in the file, although JupyterLab clears the flag.
      this._context.model.dirty = true;
    }
  }

  /** Call JupyterLab's own save, and record what it writes. */
  private async _write(): Promise<void> {
    let isNoted = false;
    const release = noteWritten(this._context.model, content => {
      if (!isNoted) {
        isNoted = true;
        this._unconfirmed = this._open.state(content as Content);
      }
    });
    await this._own.save().finally(release);
  }

  // --- dialogs

  /** Suppress JupyterLab's dialogs: the agent gets an error, and the person is not asked. */
  private async _withoutDialogs(work: () => Promise<void>): Promise<void> {
    this._isForAgent = true;
    await work().finally(() => (this._isForAgent = false));
  }

  /** Open JupyterLab's dialog on a conflict. Agents are refused while it is open. */
  private async _askConflict(ask: () => Promise<unknown>): Promise<unknown> {
    if (this._isForAgent) {
      throw changed();
    }
    this._isAsking = true;
    this._agents.forEach(agent => agent.reject(changed()));
    try {
      return await ask();
    } finally {
      this._isAsking = false;
    }
  }

  // --- one after the other

  private _queue(work: () => Promise<void>): Promise<void> {
    this._working++;
    const done = this._last.then(work).finally(() => this._working--);
    this._last = done.catch(() => undefined);
    return done;
  }

  /** Queue work of an agent, which does not wait while a dialog is open. */
  private async _queueForAgent(work: () => Promise<void>): Promise<void> {
    if (this._isAsking) {
      throw changed();
    }
    const agent = new PromiseDelegate<never>();
    this._agents.add(agent);
    const done = this._queue(async () => {
      if (this._agents.has(agent)) {
        await work();
      }
    });
    await Promise.race([done, agent.promise]).finally(() => this._agents.delete(agent));
  }

  private readonly _own: IContextMethods;
  private _last: Promise<void> = Promise.resolve();
  /** The agents that wait; rejected when a dialog opens. */
  private readonly _agents = new Set<PromiseDelegate<never>>();
  /** The jobs in the queue. */
  private _working = 0;
  /** The hash of the file if the server has written it since JupyterLab read or saved it. */
  private _hash: string | null = null;
  /** What is in the file; null if unknown. */
  private _file: IState | null;
  /** What the server or a save writes, until that is known to be in the file. */
  private _unconfirmed: IState | null = null;
  /** Settled when the server has written. */
  private _held: PromiseDelegate<void> | null = null;
  private _signing: number | null = null;
  private _isAsking = false;
  /** Whether dialogs are hidden, and what is read from the file is merged. */
  private _isForAgent = false;
}

function changed(): Refusal {
  return new Refusal('file_changed', 'The file has changed on disk.');
}
