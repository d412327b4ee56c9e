import { keeping, mergeKept, NOTHING_KEPT } from '../state/keptChanges';
import { unreviewedCells } from './agentCells';

const ids = new Set(['a', 'b']);

describe('unreviewedCells', () => {
  it('are the cells that agents wrote and the person has not kept', () => {
    const agentCells = { cells: { a: 5, b: 7 }, unsettled: null };
    expect(unreviewedCells({ cells: {}, unsettled: null }, NOTHING_KEPT, ids)).toEqual(new Set());
    expect(unreviewedCells(agentCells, NOTHING_KEPT, ids)).toEqual(new Set(['a', 'b']));
    expect(unreviewedCells(agentCells, { ...NOTHING_KEPT, cells: { b: 7 } }, ids)).toEqual(
      new Set(['a'])
    );
    expect(unreviewedCells(agentCells, { ...NOTHING_KEPT, all: 6, cells: {} }, ids)).toEqual(
      new Set(['b'])
    );
  });

  it('are cells with a change that was not kept, whatever was kept later', () => {
    const agentCells = { cells: { a: 9 }, changes: { a: [5, 7] }, unsettled: null };
    const left = (...times: number[]): unknown =>
      unreviewedCells(agentCells, keeping(times.map(time => ({ cell: 'a', time }))), ids);
    expect(left(7)).toEqual(new Set(['a']));
    // An undo was the last one.
    expect(left(5, 7)).toEqual(new Set(['a']));
    agentCells.cells.a = 7;
    expect(left(5, 7)).toEqual(new Set());
    expect(left(7)).toEqual(new Set(['a']));
  });

  it('are none where all was kept again and again, for years', () => {
    const cells = Array.from({ length: 20 }, (_, place) => `c${place}`);
    const times = Array.from({ length: 6000 }, (_, place) => place + 1);
    let kept = NOTHING_KEPT;
    for (let now = 100; now <= times.length; now += 100) {
      const shown = times.slice(now - 100, now).map(time => ({ time }));
      kept = mergeKept(kept, { ...keeping(shown), seen: now });
    }
    const last = Object.fromEntries(cells.map(cell => [cell, 6000]));
    const changes = Object.fromEntries(cells.map(cell => [cell, times]));
    const left = unreviewedCells({ cells: last, changes, unsettled: null }, kept, new Set(cells));
    expect(left).toEqual(new Set());
  });

  it('are all cells while the cells of a change are unknown', () => {
    expect(unreviewedCells({ cells: {}, unsettled: 5 }, NOTHING_KEPT, ids)).toBe('all');
    expect(unreviewedCells({ cells: {}, unsettled: 5 }, { ...NOTHING_KEPT, seen: 5 }, ids)).toEqual(
      new Set()
    );
  });

  it('are all cells where a key is a position that is no id', () => {
    expect(unreviewedCells({ cells: { 'cell-1': 5 }, unsettled: null }, NOTHING_KEPT, ids)).toBe(
      'all'
    );
    const named = new Set(['cell-1', 'a']);
    expect(
      unreviewedCells({ cells: { 'cell-1': 5 }, unsettled: null }, NOTHING_KEPT, named)
    ).toEqual(new Set(['cell-1']));
  });
});
