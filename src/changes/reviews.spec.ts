import { BrowserStorage } from '../common/storage';
import { isKept, mergeKept, NOTHING_KEPT } from '../state/keptChanges';
import { createStore } from '../state/app';
import { type IDecision, Reviews } from './reviews';

describe('mergeKept', () => {
  it('has what was kept here or there, each cell up to the later time', () => {
    const one = { all: 5, cells: { a: 8, b: 9 } };
    const other = { all: 7, cells: { a: 9, c: 6 } };
    const both = { all: 7, cells: { a: 9, b: 9 } };
    expect([mergeKept(one, other), mergeKept(other, one)]).toEqual([both, both]);
    expect(mergeKept(both, NOTHING_KEPT)).toEqual(both);
    expect(isKept(both, { cell: 'c', time: 7 })).toBe(true);
    expect(isKept(both, { cell: 'c', time: 8 })).toBe(false);
  });
});

function reviewsOf(storage: BrowserStorage): Reviews {
  return new Reviews(storage, createStore());
}

describe('Reviews', () => {
  let store: BrowserStorage;

  beforeEach(() => {
    localStorage.clear();
    store = new BrowserStorage('http://server/');
  });

  it('keeps changes at once, and after a reload', async () => {
    const reviews = reviewsOf(store);
    const saved = reviews.keep('a.ipynb', { all: 0, cells: { x: 3 } });
    expect(reviews.of('a.ipynb').cells).toEqual({ x: 3 });
    await saved;
    expect(await reviewsOf(store).load('a.ipynb')).toEqual({ all: 0, cells: { x: 3 } });
  });

  it('merges what another page has kept meanwhile', async () => {
    const [one, other] = [reviewsOf(store), reviewsOf(store)];
    await one.keep('a.ipynb', { all: 0, cells: { x: 3 } });
    await other.keep('a.ipynb', { all: 0, cells: { y: 4 } });
    expect((await one.load('a.ipynb')).cells).toEqual({ x: 3, y: 4 });
  });

  it('receives what another window has kept', async () => {
    const [here, there] = [reviewsOf(store), reviewsOf(new BrowserStorage('http://server/'))];
    await Promise.all([here.load('a.ipynb'), here.load('b.ipynb')]);
    await there.keep('a.ipynb', { all: 0, cells: { x: 3 } });
    const received = new Promise<IDecision>(resolve => {
      here.decided.connect((_, decision) => resolve(decision));
    });
    for (const key of Object.keys(localStorage)) {
      // A browser notifies all windows except the one that wrote.
      window.dispatchEvent(new StorageEvent('storage', { key, storageArea: localStorage }));
    }
    expect(await received).toEqual({ path: 'a.ipynb', kind: 'kept' });
    expect(here.of('a.ipynb').cells).toEqual({ x: 3 });
  });

  it('follows a notebook to another path', async () => {
    const reviews = reviewsOf(store);
    await reviews.keep('a.ipynb', { all: 2, cells: {} });
    await reviews.renamed('a.ipynb', 'b.ipynb');
    expect([reviews.of('a.ipynb').all, reviews.of('b.ipynb').all]).toEqual([0, 2]);
    expect((await reviews.load('a.ipynb')).all).toBe(0);
  });

  it('keeps under the new name what is kept while a rename waits', async () => {
    const reviews = reviewsOf(store);
    await reviews.load('a.ipynb');
    void reviews.moved('a.ipynb', 'b.ipynb');
    await reviews.keep('a.ipynb', { all: 4, cells: {} });
    const page = reviewsOf(store);
    expect([(await page.load('a.ipynb')).all, (await page.load('b.ipynb')).all]).toEqual([0, 4]);
  });

  it('keeps what belongs to a notebook, not to its name', async () => {
    let state = 11;
    const below = (limit: number): number => (state = (state * 48_271) % 2_147_483_647) % limit;
    const reviews = reviewsOf(store);
    const free = (paths: string[]): string[] => paths.filter(path => !notebooks.has(path));
    /** What was kept of each notebook. */
    const notebooks = new Map<string, number>();
    const rename = (old: string, path: string): void => {
      notebooks.set(path, notebooks.get(old) ?? 0);
      notebooks.delete(old);
    };
    for (let step = 1; step <= 250; step++) {
      const path = ['a', 'b', 'd/a', 'd/b', 'e/a', 'e/b'][below(6)] ?? '';
      const [target = path] = free(['b', 'd/a', 'a', 'e/b', 'd/b', 'e/a'].slice(below(4)));
      const kind = below(6);
      if (!notebooks.has(path)) {
        notebooks.set(path, 0);
      } else if (kind < 2) {
        notebooks.set(path, step);
        void reviews.keep(path, { all: step, cells: {} });
      } else if (kind === 2) {
        notebooks.delete(path);
        void reviews.moved(path, null);
      } else if (kind < 5 && target !== path) {
        rename(path, target);
        // By this page, by another one, or both, as this page does if the notebook is open.
        const by = below(3);
        void (by < 2 && reviews.moved(path, target));
        void (by > 0 && reviews.renamed(path, target));
      } else if (free(['e/a', 'e/b']).length === 2) {
        void reviews.moved('d', 'e');
        ['a', 'b']
          .filter(name => notebooks.has(`d/${name}`))
          .forEach(name => {
            rename(`d/${name}`, `e/${name}`);
            void (below(2) === 0 && reviews.renamed(`d/${name}`, `e/${name}`));
          });
      }
      // A person does one thing at a time.
      await new Promise(resolve => setTimeout(resolve));
      if (below(3) === 0) {
        for (const page of [reviews, reviewsOf(store)]) {
          for (const [name, all] of notebooks) {
            expect([step, name, (await page.load(name)).all]).toEqual([step, name, all]);
          }
        }
      }
    }
  });
});
