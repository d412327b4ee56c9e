import { ServerConnection } from '@jupyterlab/services';

import type { ChangeInfo } from '../api/events';
import { FakeServer } from '../testing/server';
import { ChangesApi } from './changesApi';

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
});
