import { ServerConnection } from '@jupyterlab/services';
import { nullTranslator } from '@jupyterlab/translation';

import { ChatApi } from '../api/client';
import type { NotebookContext } from './notebook';
import { complete, type ICompletions, prefixAt } from './completion';

const trans = nullTranslator.load('tk-ai-extension');

describe('what is being completed', () => {
  it.each([
    ['/ex', 3, { sign: '/', word: 'ex', start: 0 }],
    ['look at @data/s', 15, { sign: '@', word: 'data/s', start: 8 }],
    ['@', 1, { sign: '@', word: '', start: 0 }],
    ['me@home', 7, null],
    ['a / b', 3, null],
    ['@done ', 6, null]
  ])('%j at %i', (text, cursor, partial) => {
    expect(prefixAt(text, cursor)).toEqual(partial);
  });
});

describe('completions from the server', () => {
  afterEach(() => jest.restoreAllMocks());

  const notebook = {
    seen: { notebook: 'a.ipynb', cell: null, selected: [] },
    cells: [],
    keyed: [],
    front: null,
    activeEditor: null,
    contents: {
      serverSettings: { baseUrl: 'http://server/' },
      get: (path: string) =>
        Promise.resolve({
          type: path === 'notes.txt/' ? 'file' : 'directory',
          content: [
            { path: `${path}sales.csv`, name: 'sales.csv', type: 'file' },
            { path: `${path}old`, name: 'old', type: 'directory' }
          ]
        })
    }
  } as unknown as NotebookContext;

  /** The completions of a word, once the server has answered. */
  async function found(word: string): Promise<ICompletions> {
    let last: ICompletions = { options: [], notice: '' };
    const api = new ChatApi({ baseUrl: 'http://server/' } as never);
    complete({ sign: '@', word, start: 0 }, notebook, api, trans, [], completions => {
      last = completions;
    });
    await new Promise(resolve => setTimeout(resolve));
    return last;
  }

  const answers = (status: number, body: object): jest.SpyInstance =>
    jest
      .spyOn(ServerConnection, 'makeRequest')
      .mockImplementation(() =>
        Promise.resolve({ ok: status === 200, status, json: () => Promise.resolve(body) } as never)
      );

  it('are variables with type and shape', async () => {
    answers(200, {
      variables: [
        { name: 'sales', type: 'pandas.DataFrame', shape: '3x2', size: 10, value: null },
        { name: 'n', type: 'int', value: '3' }
      ]
    });
    const { options } = await found('');
    expect(options.map(({ label, note }) => [label, note])).toEqual([
      ['sales', 'pandas.DataFrame 3x2'],
      ['n', 'int 3'],
      ['sales.csv', 'File'],
      ['old/', 'Folder']
    ]);
    expect(options[0]?.attached).toEqual({
      label: 'sales',
      notebook: 'a.ipynb',
      attachment: { kind: 'variable', name: 'sales' }
    });
    expect((await found('sa')).options.map(({ label }) => label)).toEqual(['sales', 'sales.csv']);
  });

  it('are searched for by the kernel', async () => {
    const asked = answers(200, { variables: [{ name: 'n', type: 'int' }], more: 3 });
    await found('');
    await found('sa');
    const bodies = (asked.mock.calls as [string, RequestInit][]).map(([, { body }]) => body);
    expect(bodies.map(body => JSON.parse(body as string) as object)).toEqual([
      { notebook: 'a.ipynb' },
      { notebook: 'a.ipynb', pattern: '*sa*' }
    ]);
  });

  it('are a notice while the kernel is busy, and nothing without a kernel', async () => {
    answers(409, { error: { code: 'kernel_busy', message: 'The kernel is running code.' } });
    expect((await found('')).notice).toBe('The kernel is busy. Its variables are not listed.');
    answers(404, { error: { code: 'kernel_not_found', message: 'No kernel.' } });
    expect((await found('')).notice).toBe('');
  });

  it('are asked for again at the next letter if the kernel was busy', async () => {
    answers(409, { error: { code: 'kernel_busy', message: 'The kernel is running code.' } });
    await found('');
    answers(200, { variables: [{ name: 'n', type: 'int' }] });
    expect((await found('n')).options.map(({ label }) => label)).toEqual(['n']);
  });

  it('are asked for again after a while, whatever was typed', async () => {
    const asked = answers(200, { variables: [] });
    await found('');
    jest.spyOn(Date, 'now').mockReturnValue(Date.now() + 11_000);
    await found('sa');
    expect(asked).toHaveBeenCalledTimes(2);
  });

  it('are a folder itself, once its files are listed', async () => {
    answers(200, { variables: [] });
    const { options } = await found('data/');
    expect(options[0]).toMatchObject({
      label: 'data/',
      text: '@data/ ',
      attached: { attachment: { kind: 'folder', path: 'data' } }
    });
    // A path below a file is no folder.
    expect((await found('notes.txt/')).options).toEqual([]);
  });
});
