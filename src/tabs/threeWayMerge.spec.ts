import type * as nbformat from '@jupyterlab/nbformat';

import { code, notebook } from '../testing/notebooks';
import { baseAfter, threeWayMerge } from './threeWayMerge';

const OUTPUT: nbformat.IOutput = { output_type: 'stream', name: 'stdout', text: '1' };

const [a, b, c] = [code('a'), code('b'), code('c')];
const ran = { outputs: [OUTPUT], execution_count: 1 };

/** The cells after both sides changed a notebook of a, b and c. */
function together(mine: nbformat.ICell[], theirs: nbformat.ICell[]): nbformat.ICell[] | undefined {
  return threeWayMerge(notebook([a, b, c]), notebook(mine), notebook(theirs))?.cells;
}

describe('threeWayMerge', () => {
  it('merges the changes of both sides', () => {
    expect(together([code('a', 'a!'), b, c], [a, b, code('c', 'c', ran)])).toEqual([
      code('a', 'a!'),
      b,
      code('c', 'c', ran)
    ]);
  });

  it('merges a source of one side and outputs of the other in one cell', () => {
    expect(together([code('a', 'a!'), b, c], [code('a', 'a', ran), b, c])?.[0]).toEqual(
      code('a', 'a!', ran)
    );
  });

  it('takes the outputs of the file if both sides have new ones', () => {
    const later = { outputs: [{ ...OUTPUT, text: '12' }], execution_count: 1 };
    expect(together([code('a', 'a!', ran), b, c], [code('a', 'a', later), b, c])?.[0]).toEqual(
      code('a', 'a!', later)
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

  it('fails if both changed one source, or one side deleted what the other changed', () => {
    expect(together([code('a', 'a!'), b, c], [code('a', 'a?'), b, c])).toBeUndefined();
    expect(together([b, c], [code('a', 'a?'), b, c])).toBeUndefined();
    expect(together([code('a', 'a!'), b, c], [b, c])).toBeUndefined();
  });

  it('fails if both moved cells, or ids are missing', () => {
    expect(together([b, a, c], [c, b, a])).toBeUndefined();
    const bare: nbformat.ICell = { cell_type: 'code', metadata: {}, source: '' };
    expect(together([a, b, c], [bare])).toBeUndefined();
  });

  it('keeps the trust of this side, which does not count as a change', () => {
    const trusted = code('a', 'a', { metadata: { trusted: true } });
    const tagged = code('a', 'a', { metadata: { trusted: false, tags: ['x'] } });
    expect(together([trusted, b, c], [tagged, b, c])?.[0]?.metadata).toEqual({
      trusted: true,
      tags: ['x']
    });
  });

  it('keeps what JupyterLab filled in, and merges other metadata by key', () => {
    const found = threeWayMerge(
      notebook([a], { title: 'old' }),
      notebook([a], { title: 'old', language_info: { name: '' }, mine: 1 }),
      notebook([a], { title: 'new' })
    );
    expect(found?.metadata).toEqual({ title: 'new', language_info: { name: '' }, mine: 1 });
    const both = threeWayMerge(
      notebook([a], { title: 'old' }),
      notebook([a], { title: 'mine' }),
      notebook([a], { title: 'theirs' })
    );
    expect(both).toBeNull();
  });

  it('fails if the file has another format version', () => {
    expect(
      threeWayMerge(notebook([a]), notebook([a]), { ...notebook([a]), nbformat_minor: 4 })
    ).toBeNull();
  });
});

describe('the base after a save with an unknown outcome', () => {
  const before = [a, b, c];
  const sent = [a, code('b', 'b typed'), code('x')];

  it.each([
    ['made', sent, sent],
    ['made, and then others changed a cell', [code('a', 'a!'), ...sent.slice(1)], sent],
    ['not made', before, before],
    ['not made, and others changed a cell', [code('a', 'a!'), b, c], before]
  ])('is as before or as sent where it was %s', (_, file, base) => {
    const cells = [before, sent, file].map(each => notebook(each)) as [never, never, never];
    expect(baseAfter(...cells).cells).toEqual(base);
  });
});
