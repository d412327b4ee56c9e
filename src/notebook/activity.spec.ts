import { Signal } from '@lumino/signaling';

import { type ApiError, type ICellsByEntry, unreachable } from '../api/client';
import { FakeServer } from '../testing/server';
import { type Journal, NotebookActivity } from './activity';
import type { ActivityEvent, CombinedChange } from '../api/events';
import { NET } from '../testing/events';

/** A server of one notebook, which sends events to the current subscribers. */
class Server implements Journal {
  changes: readonly CombinedChange[] = [];
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

  changesIn(_: string, cells?: readonly string[]): Promise<readonly CombinedChange[]> {
    const refusal = this.refusal();
    const found = this.changes.filter(({ cell }) => cells?.includes(cell) !== false);
    return refusal === undefined ? Promise.resolve(found) : Promise.reject(refusal);
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

  private _take(given: ICellsByEntry): void {
    this.changes = this.changes
      .map(change => ({
        ...change,
        entries: change.entries.filter(entry => given[entry]?.includes(change.cell) !== true)
      }))
      .filter(({ entries }) => entries.length > 0);
  }

  emit(kind: ActivityEvent['kind'], ...cells: string[]): void {
    const event: ActivityEvent = {
      kind,
      author: 'Claude',
      cells,
      turn: null,
      entry: 1,
      status: ''
    };
    this.wire.open.forEach(({ topic }) => this.wire.publish(topic, event));
  }

  change(entry: number, ...cells: string[]): void {
    const known = (cell: string): number[] =>
      this.changes.flatMap(each => (each.cell === cell ? each.entries : []));
    this.changes = [
      ...this.changes.filter(({ cell }) => !cells.includes(cell)),
      ...cells.map(cell => ({ ...NET, cell, time: entry, entries: [...known(cell), entry] }))
    ];
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
    const worked: string[] = [];
    activity.worked.connect((_, cell) => worked.push(cell));
    server.emit('running', 'x');
    await until(activity, () => activity.running.length === 1);
    expect(activity.running).toEqual([{ cell: 'x', author: 'Claude' }]);
    server.emit('ran', 'x');
    await until(activity, () => activity.running.length === 0);
    // The end of a run is no work on a cell.
    expect(worked).toEqual(['x']);
  });

  it('has the cell that an agent showed last, until it is dismissed', async () => {
    await server.wire.begun;
    server.emit('shown', 'x');
    server.emit('shown', 'y');
    await until(activity, () => activity.shown?.cell === 'y');
    expect(activity.shown).toMatchObject({ author: 'Claude', entries: [] });
    activity.dismiss();
    expect([activity.shown, marked(activity)]).toEqual([null, []]);
  });

  it('has no mark for what a person keeps, here or elsewhere', async () => {
    server.change(1, 'x', 'y');
    await until(activity, () => activity.marks.size === 2);
    const mark = activity.marks.get('x');
    await activity.keep(mark ? [mark] : []);
    expect(marked(activity)).toEqual(['y']);
    server.change(2, 'z');
    await until(activity, () => activity.marks.has('z'));
    await server.keep('a.ipynb', { 2: ['z'] });
    server.emit('kept');
    await until(activity, () => !activity.marks.has('z'));
    expect([marked(activity), server.notified]).toEqual([['y'], 1]);
    await activity.keep(activity.marks.values());
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
    server.left = ['It was edited since then.'];
    const mark = activity.marks.get('y');
    expect((await activity.undo(mark ? [mark] : []))[0]?.left).toEqual(server.left);
    expect(marked(activity)).toEqual(['x']);
  });

  it('has undone changes, even if the changes cannot be read afterwards', async () => {
    server.change(1, 'x', 'y');
    await until(activity, () => activity.marks.size === 2);
    server.refusal = unreachable;
    const mark = activity.marks.get('y');
    expect((await activity.undo(mark ? [mark] : []))[0]?.left).toEqual([]);
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
      () => activity.keep([activity.marks.get('z') as CombinedChange]),
      () => server.keep('', { 3: ['w'] }).then(() => server.emit('kept')),
      () => activity.undo([activity.marks.get('y') as CombinedChange]),
      () => server.emit('taken_back', 'y'),
      () => server.wire.channel.opened()
    ];
    for (const step of steps) {
      // The server sends new objects with each response.
      server.changes = JSON.parse(JSON.stringify(server.changes)) as CombinedChange[];
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
