import { YNotebook } from '@jupyter/ydoc';
import type * as nbformat from '@jupyterlab/nbformat';

import { applySteps } from './applySteps';
import { unmovedIds, diffSteps } from './notebookDiff';
import { code } from '../testing/notebooks';
import { expectWhole, TEXTS } from '../testing/texts';

const output: nbformat.IOutput = { output_type: 'stream', name: 'stdout', text: '1' };

describe('diffSteps', () => {
  const [a, b, c] = [code('a', '1'), code('b', '2'), code('c', '3')];

  it('is empty if everything is equal', () => {
    expect(diffSteps([a, b], [a, { ...b, metadata: { trusted: true } }])).toEqual([]);
  });

  it('changes only the parts of a source that differ', () => {
    expect(diffSteps([code('a', 'x = old + 1')], [code('a', 'x = new + 1')])).toEqual([
      { do: 'set', id: 'a', source: [{ start: 4, end: 7, text: 'new' }] }
    ]);
  });

  it('gives an open notebook the sources of its file, without half a surrogate pair', () => {
    jest.spyOn(console, 'warn').mockReturnValue();
    for (const old of TEXTS) {
      const open = new YNotebook();
      const cell = open.addCell({ id: 'a', cell_type: 'code' });
      for (const now of TEXTS) {
        cell.setSource(old);
        applySteps(open, diffSteps([code('a', old)], [code('a', now)]) ?? []);
        expect(cell.source).toBe(now);
        expectWhole(cell.source);
      }
    }
  });

  it('handles a letter that occurs twice', () => {
    expect(diffSteps([code('a', 'aa')], [code('a', 'a')])).toEqual([
      { do: 'set', id: 'a', source: [{ start: 1, end: 2, text: '' }] }
    ]);
  });

  it('sets outputs and count if they differ', () => {
    const ran = code('a', '1', { outputs: [output], execution_count: 2 });
    expect(diffSteps([a, b], [ran, b])).toEqual([
      { do: 'set', id: 'a', outputs: [output], execution_count: 2 }
    ]);
  });

  it('inserts and deletes', () => {
    expect(diffSteps([a, b], [c, b])).toEqual([
      { do: 'delete', id: 'a' },
      { do: 'insert', index: 0, cell: c }
    ]);
  });

  it('moves as few as it can', () => {
    expect(diffSteps([a, b, c], [b, c, a])).toEqual([
      { do: 'delete', id: 'a' },
      { do: 'insert', index: 2, cell: a }
    ]);
  });

  it('replaces a cell of another type', () => {
    const prose: nbformat.ICell = { id: 'a', cell_type: 'markdown', metadata: {}, source: '1' };
    expect(diffSteps([a], [prose])).toEqual([{ do: 'replace', id: 'a', cell: prose }]);
  });

  it('sets metadata if they differ, in either notation of hidden outputs', () => {
    const tagged = { ...a, metadata: { tags: ['x'], trusted: true } };
    const metadata = { tags: ['x'] };
    expect(diffSteps([a], [tagged])).toEqual([{ do: 'set', id: 'a', metadata }]);
    const one = { ...a, metadata: { collapsed: true } };
    const both = { ...a, metadata: { collapsed: true, jupyter: { outputs_hidden: true } } };
    expect(diffSteps([both], [one])).toEqual([]);
    const bare = { id: 'a', cell_type: 'code', source: '1' } as unknown as nbformat.ICell;
    expect(diffSteps([a], [bare])).toEqual([]);
  });

  it('does not guess if ids are missing or occur twice', () => {
    const bare: nbformat.ICell = { cell_type: 'code', metadata: {}, source: '' };
    expect(diffSteps([a], [bare])).toBeNull();
    expect(diffSteps([a], [a, a])).toBeNull();
    expect(diffSteps([a], [])).toBeNull();
  });
});

describe('unmovedIds', () => {
  it.each([
    ['a b c', 'a b c', 'a b c'],
    ['a b c d', 'd a b c', 'a b c'],
    ['a b c', 'c b a', 'a'],
    ['a b c d e', 'a e b x c d', 'a b c d'],
    ['a b', 'x y', '']
  ])('of %s and %s is %s', (before, after, stay) => {
    expect([...unmovedIds(before.split(' '), after.split(' '))].sort().join(' ')).toBe(stay);
  });

  it('are as many as possible, whatever the order', () => {
    for (let run = 0; run < 100; run++) {
      const before = Array.from({ length: 12 }, (_, id) => `${id}`);
      const after = before.toSorted(() => Math.random() - 0.5).slice(0, 9);
      // The longest chain that ends with each, by trying all.
      const lengths: number[] = [];
      after.forEach((id, end) => {
        const shorter = lengths.filter((_, place) => Number(after[place]) < Number(id));
        lengths[end] = Math.max(0, ...shorter) + 1;
      });
      const stay = unmovedIds(before, after);
      expect(stay.size).toBe(Math.max(...lengths));
      const kept = after.filter(id => stay.has(id)).map(Number);
      expect(kept).toEqual(kept.toSorted((a, b) => a - b));
    }
  });

  it('are found at once among many cells', () => {
    const ids = Array.from({ length: 80_000 }, (_, id) => `${id}`);
    expect(unmovedIds(ids, ids).size).toBe(ids.length);
  });
});
