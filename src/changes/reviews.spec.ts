import { StateDB } from '@jupyterlab/statedb';

import { isKept, joined, NOTHING_KEPT } from './kept';
import { Reviews } from './reviews';

describe('joined', () => {
  it('has what was kept here or there, each cell up to the later time', () => {
    const one = { all: 5, cells: { a: 8, b: 9 } };
    const other = { all: 7, cells: { a: 9, c: 6 } };
    const both = { all: 7, cells: { a: 9, b: 9 } };
    expect([joined(one, other), joined(other, one)]).toEqual([both, both]);
    expect(joined(both, NOTHING_KEPT)).toEqual(both);
    expect(isKept(both, { cell: 'c', time: 7 })).toBe(true);
    expect(isKept(both, { cell: 'c', time: 8 })).toBe(false);
  });
});

describe('Reviews', () => {
  it('keeps at once, and beyond a reload', async () => {
    const state = new StateDB();
    const reviews = new Reviews(state);
    const saved = reviews.keep('a.ipynb', { all: 0, cells: { x: 3 } });
    expect(reviews.of('a.ipynb').cells).toEqual({ x: 3 });
    await saved;
    expect(await new Reviews(state).load('a.ipynb')).toEqual({ all: 0, cells: { x: 3 } });
  });

  it('loses nothing that another page has kept meanwhile', async () => {
    const state = new StateDB();
    const [one, other] = [new Reviews(state), new Reviews(state)];
    await one.keep('a.ipynb', { all: 0, cells: { x: 3 } });
    await other.keep('a.ipynb', { all: 0, cells: { y: 4 } });
    expect((await one.load('a.ipynb')).cells).toEqual({ x: 3, y: 4 });
  });

  it('follows a notebook to another path', async () => {
    const reviews = new Reviews(new StateDB());
    await reviews.keep('a.ipynb', { all: 2, cells: {} });
    await reviews.renamed('a.ipynb', 'b.ipynb');
    expect([reviews.of('a.ipynb').all, reviews.of('b.ipynb').all]).toEqual([0, 2]);
    expect((await reviews.load('a.ipynb')).all).toBe(0);
  });
});
