import type * as nbformat from '@jupyterlab/nbformat';

import { code, notebook } from './samples';
import { merged } from './threeway';

const OUTPUT: nbformat.IOutput = { output_type: 'stream', name: 'stdout', text: '1' };

const [a, b, c] = [code('a'), code('b'), code('c')];
const ran = { outputs: [OUTPUT], execution_count: 1 };

/** The cells after both sides changed a notebook of a, b and c. */
function together(mine: nbformat.ICell[], theirs: nbformat.ICell[]): nbformat.ICell[] | undefined {
  return merged(notebook([a, b, c]), notebook(mine), notebook(theirs))?.cells;
}

describe('merged', () => {
  it('takes what either side changed', () => {
    expect(together([code('a', 'a!'), b, c], [a, b, code('c', 'c', ran)])).toEqual([
      code('a', 'a!'),
      b,
      code('c', 'c', ran)
    ]);
  });

  it('takes a source of one side and outputs of the other for one cell', () => {
    expect(together([code('a', 'a!'), b, c], [code('a', 'a', ran), b, c])?.[0]).toEqual(
      code('a', 'a!', ran)
    );
  });

  it.each([
    ['x a b c', 'a b y c', 'x a b y c'],
    ['a b c x', 'a b c y', 'a b c y x'],
    ['c a b', 'a y b c', 'c a y b'],
    ['a x b c', 'b c a', 'b c a x'],
    ['a c', 'a b c y', 'a c y'],
    ['a b c', 'c', 'c']
  ])('puts %s and %s together as %s', (mine, theirs, expected) => {
    const cells = (ids: string): nbformat.ICell[] => ids.split(' ').map(id => code(id));
    const found = together(cells(mine), cells(theirs));
    expect(found?.map(cell => cell['id'])).toEqual(expected.split(' '));
  });

  it('is nothing where both changed one source, or one side deleted what the other changed', () => {
    expect(together([code('a', 'a!'), b, c], [code('a', 'a?'), b, c])).toBeUndefined();
    expect(together([b, c], [code('a', 'a?'), b, c])).toBeUndefined();
    expect(together([code('a', 'a!'), b, c], [b, c])).toBeUndefined();
  });

  it('is nothing where both moved cells, or they have no ids', () => {
    expect(together([b, a, c], [c, b, a])).toBeUndefined();
    const bare: nbformat.ICell = { cell_type: 'code', metadata: {}, source: '' };
    expect(together([a, b, c], [bare])).toBeUndefined();
  });

  it('leaves trust as it is here, and takes it for no change', () => {
    const trusted = code('a', 'a', { metadata: { trusted: true } });
    const tagged = code('a', 'a', { metadata: { trusted: false, tags: ['x'] } });
    expect(together([trusted, b, c], [tagged, b, c])?.[0]?.metadata).toEqual({
      trusted: true,
      tags: ['x']
    });
  });

  it('keeps what JupyterLab filled in, and merges other metadata by key', () => {
    const found = merged(
      notebook([a], { title: 'old' }),
      notebook([a], { title: 'old', language_info: { name: '' }, mine: 1 }),
      notebook([a], { title: 'new' })
    );
    expect(found?.metadata).toEqual({ title: 'new', language_info: { name: '' }, mine: 1 });
    const both = merged(
      notebook([a], { title: 'old' }),
      notebook([a], { title: 'mine' }),
      notebook([a], { title: 'theirs' })
    );
    expect(both).toBeNull();
  });

  it('is nothing where the file has another format', () => {
    expect(
      merged(notebook([a]), notebook([a]), { ...notebook([a]), nbformat_minor: 4 })
    ).toBeNull();
  });
});
