import { NOTHING_KEPT } from '../state/kept';
import { doubtful } from './writers';

const ids = new Set(['a', 'b']);

describe('the cells that are in doubt', () => {
  it('are those that agents wrote and the person has not kept since', () => {
    const written = { cells: { a: 5, b: 7 }, unsettled: null };
    expect(doubtful({ cells: {}, unsettled: null }, NOTHING_KEPT, ids)).toEqual(new Set());
    expect(doubtful(written, NOTHING_KEPT, ids)).toEqual(new Set(['a', 'b']));
    expect(doubtful(written, { all: 0, cells: { b: 7 } }, ids)).toEqual(new Set(['a']));
    expect(doubtful(written, { all: 6, cells: {} }, ids)).toEqual(new Set(['b']));
  });

  it('are all, while it is not known what a change did', () => {
    expect(doubtful({ cells: {}, unsettled: 5 }, NOTHING_KEPT, ids)).toBe('all');
    expect(doubtful({ cells: {}, unsettled: 5 }, { all: 5, cells: {} }, ids)).toEqual(new Set());
  });

  it('are all, where a cell is known by its place, which may be another one by now', () => {
    expect(doubtful({ cells: { 'cell-1': 5 }, unsettled: null }, NOTHING_KEPT, ids)).toBe('all');
    const named = new Set(['cell-1', 'a']);
    expect(doubtful({ cells: { 'cell-1': 5 }, unsettled: null }, NOTHING_KEPT, named)).toEqual(
      new Set(['cell-1'])
    );
  });
});
