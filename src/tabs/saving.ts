import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type * as nbformat from '@jupyterlab/nbformat';
import type { Contents } from '@jupyterlab/services';
import { PromiseDelegate } from '@lumino/coreutils';

import { type IContextMethods, noteWritten, replaceMethods } from '../lab/context';
import { isSameContent } from './cells';
import { Refusal } from './protocol';

type Context = DocumentRegistry.Context;
type Content = nbformat.INotebookContent;

/** What a page holds of a notebook. */
export interface IHeld {
  /** The number of the last change, which grows with each. */
  changes(): number;
  /**
   * Takes what is in the file, together with what is unsaved.
   *
   * @param base - what was in the file before; null where that is not known.
   * @param load - replaces everything by the file, as JupyterLab does.
   * @throws Refusal
   */
  take(file: Content, base: Content | null, load: (file: Content) => void): void;
}

/**
 * Saves of one notebook, one after the other.
 *
 * Two saves at once end in a false "File Changed". So a person's saves and JupyterLab's own wait
 * here, too: `context.save` is this from now on, and so is `context.revert`.
 */
export class Saving {
  /**
   * @param _held - what the page holds of the notebook.
   * @param _file - what is in the file; null where that is not known.
   */
  constructor(
    private readonly _context: Context,
    private readonly _contents: Contents.IManager,
    private readonly _held: IHeld,
    private _file: Content | null
  ) {
    this._own = replaceMethods(_context, own => ({
      // While JupyterLab asks its person, it says itself what becomes of this.
      save: () => (this._isAsking ? own.save() : this._queue(() => this._saveForPerson())),
      revert: () => (this._isAsking ? own.revert() : this._queue(own.revert)),
      load: content => this._load(content as Content, own.load),
      showError: async (...args) => (this._isQuiet ? undefined : own.showError(...args)),
      askConflict: (...args) => this._askConflict(() => own.askConflict(...args))
    }));
  }

  /** Saves for an agent: where a dialog would come, it is told instead. */
  async save(): Promise<void> {
    // Whoever comes while one waits for its turn shares it.
    const next = (this._next ??= this._queueForAgent(async () => {
      this._next = null;
      if (!this._context.model.dirty) {
        return;
      }
      try {
        await this._takeFile();
        await this._quietly(() => this._saveAll());
      } catch (error) {
        if (error instanceof Refusal) {
          throw error;
        }
        const { message, response } = error as { message?: string; response?: Response };
        throw new Refusal('save_failed', message ?? String(error), response?.status ?? 0);
      }
    }));
    await next.finally(() => {
      // It may have left before its turn.
      if (this._next === next) {
        this._next = null;
      }
    });
  }

  /**
   * Takes what others wrote to the file.
   *
   * @throws Refusal where that cannot be together with what is unsaved here.
   */
  async refresh(): Promise<void> {
    await this._queueForAgent(() => this._takeFile());
  }

  // --- the file

  private async _takeFile(): Promise<void> {
    if (await this._isOutdated()) {
      this._isTaking = true;
      await this._quietly(this._own.revert).finally(() => (this._isTaking = false));
    }
  }

  /** Whether the file is another one than what was opened or saved here. */
  private async _isOutdated(): Promise<boolean> {
    const known = this._context.contentsModel;
    const now = await this._contents.get(this._context.path, { content: false, hash: true });
    if (known?.hash && now.hash) {
      return known.hash !== now.hash;
    }
    return known !== null && known.last_modified !== now.last_modified;
  }

  /**
   * Knows what was read whenever JupyterLab reads the file anew.
   *
   * Its own way to show that would make every cell anew, and drop what is unsaved: that is for its
   * person to choose.
   */
  private _load(file: Content, load: (file: Content) => void): void {
    if (this._isTaking) {
      // A save whose answer was lost may have been one.
      const tried = this._tried?.content;
      this._held.take(file, tried && isSameContent(tried, file) ? tried : this._file, load);
    } else {
      load(file);
    }
    this._file = file;
    this._tried = null;
  }

  // --- saves

  private async _saveForPerson(): Promise<void> {
    // Where it cannot be together, JupyterLab asks what to keep.
    await this._takeFile().catch(() => undefined);
    await this._saveAll();
  }

  private async _saveAll(): Promise<void> {
    const before = this._file;
    await this._write();
    if (this._file !== before) {
      // JupyterLab asked, and its person chose the file.
      return;
    }
    const written = this._tried;
    this._file = written?.content ?? null;
    this._tried = null;
    if (this._held.changes() !== written?.changes) {
      // What was typed while it was saved is not in the file, whatever JupyterLab takes it for.
      this._context.model.dirty = true;
    }
  }

  /** JupyterLab's own save; what it writes is noted. */
  private async _write(): Promise<void> {
    let isNoted = false;
    const release = noteWritten(this._context.model, content => {
      if (!isNoted) {
        isNoted = true;
        this._tried = { content: content as Content, changes: this._held.changes() };
      }
    });
    await this._own.save().finally(release);
  }

  // --- dialogs

  /** Without JupyterLab's own dialogs: the agent is told, and the person asked nothing. */
  private async _quietly(work: () => Promise<void>): Promise<void> {
    this._isQuiet = true;
    await work().finally(() => (this._isQuiet = false));
  }

  /** Knows when JupyterLab asks what to keep: for as long as its person likes. */
  private async _askConflict(ask: () => Promise<unknown>): Promise<unknown> {
    if (this._isQuiet) {
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
    const done = this._last.then(work);
    this._last = done.catch(() => undefined);
    return done;
  }

  /** An agent waits for its turn, but not for what a person is asked. */
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
  private _next: Promise<void> | null = null;
  /** The agents that wait: each is rejected where it is to wait no longer. */
  private readonly _agents = new Set<PromiseDelegate<never>>();
  private _isAsking = false;
  private _isTaking = false;
  private _isQuiet = false;
  /** What a save was to write of which is not known whether it did. */
  private _tried: { content: Content; changes: number } | null = null;
}

function changed(): Refusal {
  return new Refusal('file_changed', 'The file has changed on disk.');
}
