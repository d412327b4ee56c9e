import { NOTHING_KEPT } from '../state/keptChanges';
import { unreviewedCells } from './agentCells';

const ids = new Set(['a', 'b']);

describe('unreviewedCells', () => {
  it('are the cells that agents wrote and the person has not kept', () => {
    const agentCells = { cells: { a: 5, b: 7 }, unsettled: null };
    expect(unreviewedCells({ cells: {}, unsettled: null }, NOTHING_KEPT, ids)).toEqual(new Set());
    expect(unreviewedCells(agentCells, NOTHING_KEPT, ids)).toEqual(new Set(['a', 'b']));
    expect(unreviewedCells(agentCells, { all: 0, cells: { b: 7 } }, ids)).toEqual(new Set(['a']));
    expect(unreviewedCells(agentCells, { all: 6, cells: {} }, ids)).toEqual(new Set(['b']));
  });

  it('are all cells while the cells of a change are unknown', () => {
    expect(unreviewedCells({ cells: {}, unsettled: 5 }, NOTHING_KEPT, ids)).toBe('all');
    expect(unreviewedCells({ cells: {}, unsettled: 5 }, { all: 5, cells: {} }, ids)).toEqual(
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
