import { nullTranslator } from '@jupyterlab/translation';

import type { NotebookContext } from './notebook';
import { cellResults, selections } from './pointing';

const trans = nullTranslator.load('tk-ai-extension');

interface IMade {
  type: string;
  ename?: string;
}

/** A cell with these outputs. */
function cell(key: string, source: string, ...outputs: IMade[]): object {
  const get = (place: number): object => {
    const output = outputs[place] as IMade;
    return { ...output, toJSON: () => output };
  };
  const made = { length: outputs.length, get };
  return { key, model: { type: 'code', sharedModel: { source }, outputs: made } };
}

/** An editor with a selection from one line and column to another. */
function editor(source: string, ...[from, to]: [[number, number], [number, number]]): object {
  const at = ([line, column]: [number, number]) => ({ line, column });
  const offset = ({ line, column }: { line: number; column: number }): number =>
    source.split('\n').slice(0, line).join('\n').length + (line > 0 ? 1 : 0) + column;
  return {
    getSelection: () => ({ start: at(from), end: at(to) }),
    getOffsetAt: offset,
    model: { sharedModel: { getSource: () => source } }
  };
}

function notebook(some: object): NotebookContext {
  const contents = { driveName: () => '', localPath: (path: string) => path };
  const seen = { notebook: 'a.ipynb', cell: { id: 'b', index: 1, line: '' }, selected: [] };
  return { seen, contents, keyed: [], front: null, activeEditor: null, ...some } as never;
}

it('offers the outputs and the last error of each cell', () => {
  const keyed = [
    cell('a', 'quiet = 1'),
    cell('b', 'print(1)\nrow["x"]', { type: 'stream' }, { type: 'error', ename: 'KeyError' }),
    { key: 'c', model: { type: 'markdown', sharedModel: { source: 'Text' } } },
    cell('d', 'print(2)', { type: 'stream' })
  ];
  const found = cellResults(notebook({ keyed }), trans);
  expect(found.map(({ label, note, text }) => [label, note, text])).toEqual([
    ['Error of cell 2: KeyError', 'print(1)', '@error-2 '],
    ['Output of cell 2', 'print(1)', '@output-2 '],
    ['Output of cell 4', 'print(2)', '@output-4 ']
  ]);
  expect(found[0]?.attached).toMatchObject({
    notebook: 'a.ipynb',
    attachment: { kind: 'error', cell: 'b' }
  });
});

describe('a selection', () => {
  const SOURCE = 'one\ntwo\nthree\n';

  it.each([
    ['one line', [0, 0], [0, 3], 'one', 1, 1],
    ['lines', [0, 1], [2, 2], 'ne\ntwo\nth', 1, 3],
    ['backwards', [2, 2], [1, 0], 'two\nth', 2, 3],
    ['whole lines, which end at the start of the next', [1, 0], [2, 0], 'two\n', 2, 2]
  ] as const)('of %s is offered', (_, from, to, text, first_line, last_line) => {
    const activeEditor = editor(SOURCE, [...from], [...to]);
    const [found] = selections(notebook({ activeEditor }), trans);
    expect(found?.attached).toMatchObject({
      notebook: 'a.ipynb',
      attachment: { kind: 'selection', cell: 'b', text, first_line, last_line }
    });
  });

  it('of nothing, or too much, is not offered', () => {
    const much = 'x'.repeat(100_001);
    for (const activeEditor of [
      editor(SOURCE, [1, 1], [1, 1]),
      editor(much, [0, 0], [0, much.length])
    ]) {
      expect(selections(notebook({ activeEditor }), trans)).toEqual([]);
    }
  });

  it('in the file in front is offered with its path', () => {
    const content = { editor: editor(SOURCE, [0, 0], [1, 3]) };
    const front = { context: { path: 'tool.py' }, content };
    const [found] = selections(notebook({ seen: null, front }), trans);
    expect(found?.label).toBe('Selection, lines 1 to 2 of tool.py');
    expect(found?.attached).toEqual({
      label: found?.label,
      attachment: {
        kind: 'selection',
        path: 'tool.py',
        text: 'one\ntwo',
        first_line: 1,
        last_line: 2
      }
    });
  });
});
