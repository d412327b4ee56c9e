import { ServerConnection } from '@jupyterlab/services';

import type { ChangeInfo } from '../api/events';
import { Reviews } from '../changes/reviews';
import { BrowserStorage } from '../common/storage';
import { createStore } from '../state/app';
import { isKept } from '../state/keptChanges';
import { FakeServer } from '../testing/server';
import { NotebookActivity } from './activity';
import { ChangesApi } from './changesApi';
import { marksOf } from './marks';

/** Changes in one response. */
const PAGE = 3;

/** A server with the changes to one notebook, which it lists page by page. */
class Journal {
  changes: ChangeInfo[] = [];
  requests = 0;
  /** Whether it is of a version that always lists the newest. */
  isOld = false;
  readonly wire = new FakeServer();

  constructor() {
    this.wire.answer = ({ number }) => this.wire.deliver(number, { reset: true });
  }

  readonly api = new ChangesApi({
    baseUrl: 'http://localhost/'
  } as ServerConnection.ISettings);

  change(cell: string): void {
    const entry = (this.changes[0]?.entry ?? 0) + 1;
    const done = { cell, action: 'replace', diff: '', truncated: false } as const;
    const by = { author: 'Claude', tool: 'edit_cell', turn: null, yours: true, summary: '' };
    this.changes = [{ entry, time: entry, ...by, cells: [done] }, ...this.changes];
    this._publish('changed', cell, entry);
  }

  undo(undone: readonly number[]): void {
    this.changes = this.changes.filter(({ entry }) => !undone.includes(entry));
    this._publish('taken_back', '', 0);
  }

  private _publish(kind: string, cell: string, entry: number): void {
    const event = { kind, author: 'Claude', cells: [cell], turn: null, entry, status: '' };
    this.wire.publish({ changes: 'a.ipynb' }, event);
  }

  /** Answer a request, as the journal is now. */
  answer({ searchParams }: URL, body: unknown): object {
    if (typeof body === 'string') {
      this.undo(Object.keys((JSON.parse(body) as { entries: object }).entries).map(Number));
      return { undone: [], missing: [] };
    }
    this.requests++;
    const before = Number(this.isOld ? Infinity : (searchParams.get('before') ?? Infinity));
    const older = this.changes.filter(({ entry }) => entry < before);
    return { changes: older.slice(0, PAGE), more: older.length > PAGE };
  }
}

const entries = (changes: readonly ChangeInfo[]): number[] => changes.map(({ entry }) => entry);

describe('the changes of a notebook', () => {
  let journal: Journal;
  /** Sends an answer when the test wants it. */
  let send: (answer: () => void) => void;

  beforeEach(() => {
    localStorage.clear();
    journal = new Journal();
    send = answer => answer();
    jest.spyOn(ServerConnection, 'makeRequest').mockImplementation((url, { body }) => {
      const answer = journal.answer(new URL(url), body);
      const response = { ok: true, json: () => Promise.resolve(answer) } as unknown as Response;
      return new Promise(resolve => send(() => resolve(response)));
    });
  });
  afterEach(() => jest.restoreAllMocks());

  it('are read to the end, except for those that are kept or known', async () => {
    for (let number = 0; number <= 3 * PAGE; number++) {
      expect(entries(await journal.api.changes('a.ipynb'))).toEqual(entries(journal.changes));
      journal.change('x');
    }
    const [newest, ...known] = journal.changes;
    for (const [kept, known_, requests] of [
      [0, [], 4],
      [(newest?.time ?? 0) - 1, [], 1],
      [0, known, 1]
    ] as const) {
      journal.requests = 0;
      const found = await journal.api.changes('a.ipynb', kept, known_);
      expect(found.filter(({ time }) => time > kept)).toEqual(
        journal.changes.filter(({ time }) => time > kept)
      );
      expect(journal.requests).toBe(requests);
    }
  });

  it('are the newest ones if the server is of an earlier version', async () => {
    journal.isOld = true;
    Array.from({ length: 2 * PAGE }, () => journal.change('x'));
    expect(entries(await journal.api.changes('a.ipynb'))).toEqual([6, 5, 4]);
  });

  it('are kept if they were shown, and only then, whatever happens meanwhile', async () => {
    let state = 7;
    const below = (limit: number): number => (state = (state * 48_271) % 2_147_483_647) % limit;
    const reviews = new Reviews(new BrowserStorage('http://server/'), createStore());
    const activity = new NotebookActivity(journal.api, reviews, journal.wire.channel, 'a.ipynb');
    const answers: (() => void)[] = [];
    send = answer => answers.push(answer);
    const settled = (): Promise<void> => new Promise(resolve => setTimeout(resolve));
    const shown = (): string[] => [...activity.marks.keys()].sort();
    const pending = (): string[] =>
      [...marksOf(journal.changes, reviews.of('a.ipynb')).keys()].sort();
    for (let step = 0; step < 300; step++) {
      const change = journal.changes[below(journal.changes.length || 1)];
      const mark = [...activity.marks.values()][below(activity.marks.size || 1)];
      const open = journal.changes.filter(({ cells: [done], time }) => {
        return done && !isKept(reviews.of('a.ipynb'), { cell: done.cell, time });
      });
      const kind = below(25);
      if (kind < 12) {
        journal.change(`${below(30)}`);
      } else if (kind < 14) {
        activity.look(below(2) === 0);
      } else if (kind < 16 && change) {
        journal.undo([change.entry]);
      } else if (kind < 17 && mark) {
        void activity.undo([mark]);
      } else if (kind < 18 && mark) {
        void activity.keep(mark);
      } else if (kind === 18) {
        const listed = new Set(
          [...activity.marks.values()].flatMap(({ steps }) => steps.map(({ entry }) => entry))
        );
        void activity.keepAll(activity.changes);
        for (const {
          cells: [done],
          entry,
          time
        } of open) {
          const now = isKept(reviews.of('a.ipynb'), { cell: done?.cell ?? '', time });
          expect([step, entry, now]).toEqual([step, entry, listed.has(entry)]);
        }
      } else {
        answers.splice(below(answers.length || 1), 1).forEach(answer => answer());
        await settled();
      }
      if (below(10) === 0) {
        activity.look(true);
        await settled();
        while (answers.length > 0) {
          answers.splice(below(answers.length), 1).forEach(answer => answer());
          await settled();
        }
        expect([step, shown()]).toEqual([step, pending()]);
      }
    }
    activity.dispose();
  });
});
