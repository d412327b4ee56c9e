import { ServerConnection } from '@jupyterlab/services';

import type { ChangeInfo } from './events';
import { ChatApi } from './client';

/** Changes in one response. */
const PAGE = 3;

afterEach(() => jest.restoreAllMocks());

it('lists changes to the end, except for those that are known', async () => {
  let journal: { entry: number }[] = [];
  let requests = 0;
  jest.spyOn(ServerConnection, 'makeRequest').mockImplementation(url => {
    requests++;
    const before = Number(new URL(url).searchParams.get('before') ?? Infinity);
    const older = journal.filter(({ entry }) => entry < before);
    const answer = { changes: older.slice(0, PAGE), more: older.length > PAGE };
    return Promise.resolve({ ok: true, json: () => Promise.resolve(answer) } as never);
  });
  const api = new ChatApi({ baseUrl: 'http://localhost/' } as never);
  for (let entry = 1; entry <= 3 * PAGE + 1; entry++) {
    expect(await api.changesIn('a.ipynb')).toEqual(journal);
    journal = [{ entry }, ...journal];
  }
  const [, ...known] = journal;
  requests = 0;
  expect(await api.changesIn('a.ipynb', known as ChangeInfo[])).toEqual(journal);
  expect(requests).toBe(1);
});
