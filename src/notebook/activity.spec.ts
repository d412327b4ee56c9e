import { Signal } from '@lumino/signaling';

import { type ApiError, type ICellsByEntry, unreachable } from '../api/client';
import { FakeServer } from '../testing/server';
import { type Journal, NotebookActivity } from './activity';
import type { IMark } from './marks';
import type { Activity, ChangeInfo } from '../api/events';

/** A server of one notebook, which sends events to the current subscribers. */
class Server implements Journal {
  changes: ChangeInfo[] = [];
  left: string[] = [];
  notified = 0;
  readonly wire = new FakeServer();
  readonly chats = { api: this, decided: new Signal<never, void>(this as never) };

  get followers(): number {
    return this.wire.open.size;
  }

  get path(): unknown {
    return this.wire.subscribed.at(-1)?.topic;
  }

  constructor() {
    // No events are stored: each subscription starts with the state.
    this.wire.answer = ({ number }) => this.wire.deliver(number, { reset: true });
    this.chats.decided.connect(() => this.notified++);
  }

  refusal: () => ApiError | undefined = () => undefined;

  changesIn(): Promise<ChangeInfo[]> {
    const refusal = this.refusal();
    return refusal === undefined ? Promise.resolve(this.changes) : Promise.reject(refusal);
  }

  keep(_: string, entries: ICellsByEntry): Promise<void> {
    this._take(entries);
    return Promise.resolve();
  }

  undo(notebook: string, entries: ICellsByEntry): ReturnType<Journal['undo']> {
    this._take(entries);
    const cells = Object.values(entries).flat();
    return Promise.resolve([{ notebook, cells, left: this.left, stayed: [] }]);
  }

  private _take(entries: ICellsByEntry): void {
    this.changes = this.changes
      .map(change => ({
        ...change,
        cells: change.cells.filter(({ cell }) => entries[change.entry]?.includes(cell) !== true)
      }))
      .filter(change => change.cells.length > 0);
  }

  emit(kind: Activity['kind'], ...cells: string[]): void {
    const [newest] = this.changes;
    const entry = newest?.entry ?? 0;
    const event: Activity = { kind, author: 'Claude', cells, turn: null, entry, status: '' };
    this.wire.open.forEach(({ topic }) => this.wire.publish(topic, event));
  }

  change(entry: number, ...cells: string[]): void {
    const done = { action: 'replace', diff: '', truncated: false, before: null } as const;
    const by = { author: 'Claude', tool: 'edit_cell', turn: null, yours: true, summary: '' };
    const changed = cells.map(cell => ({ cell, ...done }));
    this.changes = [{ entry, time: entry, ...by, cells: changed }, ...this.changes];
    this.emit('changed', ...cells);
  }
}

/** Wait until a condition holds, which is checked after each change of the activity. */
function until(activity: NotebookActivity, so: () => boolean): Promise<void> {
  return new Promise(resolve => {
    const look = (): void => {
      if (so()) {
        activity.changed.disconnect(look);
        resolve();
      }
    };
    activity.changed.connect(look);
    look();
  });
}

describe('NotebookActivity', () => {
  const marked = (activity: NotebookActivity): string[] => [...activity.marks.keys()];
  let server: Server;
  let activity: NotebookActivity;

  beforeEach(() => {
    server = new Server();
    activity = new NotebookActivity(server.chats, server.wire.channel, 'a.ipynb');
  });

  afterEach(() => activity.dispose());

  it('lists a cell while it runs', async () => {
    await server.wire.begun;
    server.emit('running', 'x');
    await until(activity, () => activity.running.length === 1);
    expect(activity.running).toEqual([{ cell: 'x', author: 'Claude' }]);
    server.emit('ran', 'x');
    await until(activity, () => activity.running.length === 0);
  });

  it('has the cell that an agent shows last, until that is dismissed', async () => {
    await server.wire.begun;
    server.emit('shown', 'x');
    server.emit('shown', 'y');
    await until(activity, () => activity.shown?.cell === 'y');
    expect(activity.shown).toMatchObject({ author: 'Claude', steps: [] });
    activity.dismiss();
    expect([activity.shown, marked(activity)]).toEqual([null, []]);
  });

  it('has no mark for what a person keeps, here or elsewhere', async () => {
    server.change(1, 'x', 'y');
    await until(activity, () => activity.marks.size === 2);
    const mark = activity.marks.get('x');
    await activity.keep(mark as IMark);
    expect(marked(activity)).toEqual(['y']);
    server.change(2, 'z');
    await until(activity, () => activity.marks.has('z'));
    await server.keep('a.ipynb', { 2: ['z'] });
    server.emit('kept');
    await until(activity, () => !activity.marks.has('z'));
    expect([marked(activity), server.notified]).toEqual([['y'], 1]);
    await activity.keepAll(activity.changes);
    expect(marked(activity)).toEqual([]);
  });

  it('subscribes to the new path, after a rename', async () => {
    server.change(1, 'x');
    await until(activity, () => activity.marks.size === 1);
    activity.rename('b.ipynb');
    server.change(2, 'y');
    await until(activity, () => activity.marks.has('y'));
    expect(server.path).toEqual({ changes: 'b.ipynb' });
  });

  it('has no marks in a notebook of another drive', async () => {
    server.change(1, 'x');
    await until(activity, () => activity.marks.size === 1);
    activity.rename(null);
    expect([server.followers, activity.marks.size]).toEqual([0, 0]);
    activity.rename('a.ipynb');
    await until(activity, () => activity.marks.size === 1);
    expect(server.followers).toBe(1);
  });

  it('removes marks of undone changes, and counts cells that were not reverted', async () => {
    server.change(1, 'x', 'y');
    await until(activity, () => activity.marks.size === 2);
    server.left = ['Somebody has worked on it since.'];
    const mark = activity.marks.get('y');
    expect(await activity.undo(mark ? [mark] : [])).toBe(1);
    expect(marked(activity)).toEqual(['x']);
  });

  it('has undone changes, even if the changes cannot be read afterwards', async () => {
    server.change(1, 'x', 'y');
    await until(activity, () => activity.marks.size === 2);
    server.refusal = unreachable;
    const mark = activity.marks.get('y');
    expect(await activity.undo(mark ? [mark] : [])).toBe(0);
    server.refusal = () => undefined;
    server.emit('taken_back', 'y');
    await until(activity, () => activity.marks.size === 1);
  });

  it('keeps the object of each mark that is unchanged, whatever happens elsewhere', async () => {
    server.change(1, 'x', 'y');
    await until(activity, () => activity.marks.size === 2);
    const mark = activity.marks.get('x');
    const steps: (() => unknown)[] = [
      () => server.change(2, 'y'),
      () => server.change(3, 'z', 'w'),
      () => server.emit('running', 'y'),
      () => activity.keep(activity.marks.get('z') as IMark),
      () => server.keep('', { 3: ['w'] }).then(() => server.emit('kept')),
      () => activity.undo([activity.marks.get('y') as IMark]),
      () => server.emit('taken_back', 'y'),
      () => server.wire.channel.opened()
    ];
    for (const step of steps) {
      // The server sends new objects with each response.
      server.changes = JSON.parse(JSON.stringify(server.changes)) as ChangeInfo[];
      const changed = new Promise(resolve => activity.changed.connect(resolve));
      await step();
      await changed;
      expect(activity.marks.get('x')).toBe(mark);
    }
    expect(marked(activity)).toEqual(['x']);
    server.change(4, 'x');
    await until(activity, () => activity.marks.get('x')?.time === 4);
  });

  it('reads the changes again after a failed request', async () => {
    const refusals = [unreachable()];
    server.refusal = () => refusals.shift();
    server.change(1, 'x');
    await until(activity, () => activity.marks.has('x'));
    expect(server.followers).toBe(1);
  });
});
