import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type * as nbformat from '@jupyterlab/nbformat';
import type { Contents } from '@jupyterlab/services';

import { type ILeft, Refusal } from './protocol';
import { code, notebook } from '../testing/notebooks';
import { SaveQueue } from './saveQueue';

type Content = nbformat.INotebookContent;

/** A notebook that is open. */
class Model {
  dirty = true;
  content = notebook([code('a'), code('b')]);
  cells: object[] = [];

  toJSON(): Content {
    return this.content;
  }

  fromJSON(content: Content): void {
    this.content = content;
  }
}

/** A file, a notebook that is open of it, and JupyterLab's way to save that. */
class Bench {
  file = notebook([code('a'), code('b')]);
  taken: { file: Content; base: Content | null }[] = [];
  changes = 0;
  /** What the server can write; null if a save writes everything. */
  unsaved: Omit<ILeft, 'base'> | null = null;
  readonly model = new Model();
  /** What becomes of the next save. */
  next: 'saved' | 'lost' | 'asked' = 'saved';
  /** Ends JupyterLab's dialog. */
  answer: (choice: 'revert' | 'cancel') => void = () => undefined;
  private _ask: () => void = () => undefined;
  /** Settled when JupyterLab asks. */
  readonly asked = new Promise<void>(resolve => (this._ask = resolve));
  readonly context: DocumentRegistry.Context;
  readonly saving: SaveQueue;

  constructor() {
    const { model } = this;
    const context = {
      path: 'n.ipynb',
      model,
      contentsModel: { hash: this._hash },
      revert: () => {
        model.fromJSON(this.file);
        context.contentsModel = { hash: this._hash };
        return Promise.resolve();
      },
      save: async () => {
        const written = model.toJSON();
        if (this.next === 'asked') {
          await context._raiseConflict();
          return;
        }
        this.file = written;
        if (this.next === 'lost') {
          throw new Error('Nobody answers.');
        }
        context.contentsModel = { hash: this._hash };
        model.dirty = false;
      },
      _handleError: () => Promise.resolve(),
      _raiseConflict: async () => {
        const choice = await new Promise<string>(resolve => {
          this.answer = resolve;
          this._ask();
        });
        if (choice === 'cancel') {
          throw new Error('Cancel');
        }
        await context.revert();
      }
    };
    this.context = context as unknown as DocumentRegistry.Context;
    const contents = { get: () => Promise.resolve({ hash: this._hash }) };
    this.saving = new SaveQueue(
      this.context,
      contents as unknown as Contents.IManager,
      {
        version: () => this.changes,
        state: content => ({ content, version: this.changes, keys: [] }),
        merge: (file, base) => this.taken.push({ file, base }),
        unsaved: () => {
          const { changes: version, unsaved: left } = this;
          return left && { left, state: { content: model.content, version, keys: [] } };
        }
      },
      this.file
    );
  }

  private get _hash(): string {
    return JSON.stringify(this.file);
  }
}

const CHANGED = new Refusal('file_changed', 'The file has changed on disk.');

describe('SaveQueue', () => {
  it('merges what others wrote before it saves, with the former file as base', async () => {
    const bench = new Bench();
    const before = bench.file;
    bench.file = notebook([code('a'), code('b'), code('c')]);
    const written = bench.file;
    await bench.saving.save();
    expect(bench.taken).toEqual([{ file: written, base: before }]);
    expect(bench.file).toBe(bench.model.content);
  });

  it('recognizes its own save after its response was lost', async () => {
    const bench = new Bench();
    bench.model.content = notebook([code('a'), code('b'), code('mine')]);
    const unconfirmed = bench.model.content;
    bench.next = 'lost';
    await expect(bench.saving.save()).rejects.toThrow('Nobody answers.');
    bench.next = 'saved';
    bench.model.content = notebook([code('a'), code('b')]);
    await bench.saving.save();
    expect(bench.taken).toEqual([{ file: unconfirmed, base: unconfirmed }]);
    expect(bench.file.cells).toHaveLength(2);
  });

  it('refuses agents while a dialog is open', async () => {
    const bench = new Bench();
    bench.next = 'asked';
    const saved = bench.context.save();
    const refused = expect(bench.saving.refresh()).rejects.toEqual(CHANGED);
    await bench.asked;
    await refused;
    await expect(bench.saving.save()).rejects.toEqual(CHANGED);
    bench.answer('revert');
    await saved;
    bench.next = 'saved';
    await bench.saving.save();
    expect(bench.taken).toEqual([]);
  });

  it('lets the server write where it can, and saves wait for that', async () => {
    const bench = new Bench();
    const before = bench.file;
    bench.model.content = notebook([code('a'), code('agent')]);
    bench.context.model.dirty = true;
    bench.unsaved = { order: [[0, 2]], cells: { 1: {} } };
    expect(await bench.saving.save()).toEqual({ base: JSON.stringify(before), ...bench.unsaved });
    const saved = bench.context.save();
    await Promise.resolve();
    expect(bench.file).toBe(before);
    bench.file = bench.model.content;
    bench.saving.written('hash');
    expect(bench.context.model.dirty).toBe(false);
    await saved;
    // JupyterLab would take the file for one that another program changed.
    expect(bench.taken).toEqual([{ file: bench.file, base: bench.file }]);
  });

  it('signs the file after the server wrote it, if a person trusts its outputs', async () => {
    jest.useFakeTimers();
    const bench = new Bench();
    bench.model.content = notebook([code('a'), code('agent')]);
    bench.model.cells = [{ type: 'code', trusted: true, outputs: { length: 1 } }];
    bench.unsaved = { order: [], cells: {} };
    await bench.saving.save();
    bench.file = notebook([code('a'), code('agent')]);
    bench.saving.written('hash');
    expect(bench.file).not.toBe(bench.model.content);
    await jest.advanceTimersByTimeAsync(10_000);
    expect(bench.file).toBe(bench.model.content);
    jest.useRealTimers();
  });

  it('saves itself if the server has not written', async () => {
    const bench = new Bench();
    bench.context.model.dirty = true;
    bench.unsaved = { order: [], cells: {} };
    await bench.saving.save();
    bench.saving.written(null);
    expect(bench.context.model.dirty).toBe(true);
    expect(await bench.saving.save()).toBe(null);
    expect(bench.context.model.dirty).toBe(false);
  });

  it('opens no dialog for a save of an agent', async () => {
    const bench = new Bench();
    bench.next = 'asked';
    await expect(bench.saving.save()).rejects.toEqual(CHANGED);
    bench.next = 'saved';
    await bench.context.save();
    expect(bench.context.model.dirty).toBe(false);
  });
});
