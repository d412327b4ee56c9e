import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { Contents } from '@jupyterlab/services';
import { PromiseDelegate } from '@lumino/coreutils';

import { Refusal } from './protocol';

/** The content provider under which jupyter-collaboration saves the documents of its rooms. */
const PROVIDER = 'rtc';

/** Milliseconds for a room to answer: without a connection to it there is no answer. */
const ANSWER = 10_000;

/**
 * Saves a notebook that its collaboration room holds: the server writes the file.
 *
 * The answer of a room does not say whether it has written the file, so the server looks there.
 */
export class RoomSave {
  constructor(
    private readonly _context: DocumentRegistry.Context,
    private readonly _contents: Contents.IManager
  ) {}

  /** Have the room write the file. Callers share a save that has not begun. */
  async save(): Promise<null> {
    this._next ??= this._last.then(() => this._save());
    await this._next;
    return null;
  }

  /** The room alone writes its file. */
  offer(): null {
    return null;
  }

  /** The room alone writes its file. */
  written(): void {
    // Nothing to do.
  }

  /** The room reads its file itself. */
  async refresh(): Promise<void> {
    // Nothing to do.
  }

  private async _save(): Promise<void> {
    const timeout = new PromiseDelegate<never>();
    const timer = window.setTimeout(() => timeout.reject('The room does not answer.'), ANSWER);
    const save = this._contents.save(this._context.path, {
      type: 'notebook',
      format: 'json',
      contentProviderId: PROVIDER
    });
    const done = Promise.race([save, timeout.promise]).finally(() => window.clearTimeout(timer));
    this._next = null;
    this._last = done.then(
      () => undefined,
      () => undefined
    );
    try {
      await done;
    } catch (error) {
      throw new Refusal('save_failed', String(error));
    }
  }

  private _last: Promise<void> = Promise.resolve();
  private _next: Promise<void> | null = null;
}
