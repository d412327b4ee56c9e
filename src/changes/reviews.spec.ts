import { BrowserStorage } from '../common/storage';
import { type IKept, isKept, keeping, mergeKept, NOTHING_KEPT } from '../state/keptChanges';
import { createStore } from '../state/app';
import { type IDecision, Reviews } from './reviews';

describe('mergeKept', () => {
  const kept = (...times: number[]): IKept => keeping(times.map(time => ({ cell: 'a', time })));

  it('has each single change that was kept here or there, and no other', () => {
    const both = mergeKept({ ...kept(3, 7), all: 2 }, kept(5));
    expect([1, 2, 3, 4, 5, 6, 7, 8].filter(time => isKept(both, { cell: 'a', time }))).toEqual([
      1, 2, 3, 5, 7
    ]);
    expect(isKept(both, { cell: 'b', time: 3 })).toBe(false);
    expect(mergeKept(both, NOTHING_KEPT)).toEqual(both);
  });

  it('is bounded, and has the newest changes', () => {
    const times = Array.from({ length: 6000 }, (_, place) => place + 1);
    const merged = mergeKept(kept(...times), NOTHING_KEPT);
    expect(Object.keys(merged.steps)).toHaveLength(4000);
    expect(times.every(time => isKept(merged, { cell: 'a', time }))).toBe(true);
  });
});

const X = keeping([{ cell: 'x', time: 3 }]);
const Y = keeping([{ cell: 'y', time: 4 }]);

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
    const saved = reviews.keep('a.ipynb', X);
    expect(reviews.of('a.ipynb')).toEqual(X);
    await saved;
    expect(await reviewsOf(store).load('a.ipynb')).toEqual(X);
  });

  it('merges what another page has kept meanwhile', async () => {
    const [one, other] = [reviewsOf(store), reviewsOf(store)];
    await one.keep('a.ipynb', X);
    await other.keep('a.ipynb', Y);
    expect(await one.load('a.ipynb')).toEqual(mergeKept(X, Y));
  });

  it('receives what another window has kept', async () => {
    const [here, there] = [reviewsOf(store), reviewsOf(new BrowserStorage('http://server/'))];
    await Promise.all([here.load('a.ipynb'), here.load('b.ipynb')]);
    await there.keep('a.ipynb', X);
    const received = new Promise<IDecision>(resolve => {
      here.decided.connect((_, decision) => resolve(decision));
    });
    for (const key of Object.keys(localStorage)) {
      // A browser notifies all windows except the one that wrote.
      window.dispatchEvent(new StorageEvent('storage', { key, storageArea: localStorage }));
    }
    expect(await received).toEqual({ path: 'a.ipynb', kind: 'kept' });
    expect(here.of('a.ipynb')).toEqual(X);
  });

  it('follows a notebook to another path', async () => {
    const reviews = reviewsOf(store);
    await reviews.keep('a.ipynb', { ...NOTHING_KEPT, all: 2 });
    await reviews.renamed('a.ipynb', 'b.ipynb');
    expect([reviews.of('a.ipynb').all, reviews.of('b.ipynb').all]).toEqual([0, 2]);
    expect((await reviews.load('a.ipynb')).all).toBe(0);
  });

  it('counts a rename once that its notebook reports first, and each of two real ones', async () => {
    const reviews = reviewsOf(store);
    const all = async (): Promise<number[]> =>
      [await reviews.load('a.ipynb'), await reviews.load('b.ipynb')].map(kept => kept.all);
    await reviews.keep('a.ipynb', { ...NOTHING_KEPT, all: 2 });
    await reviews.renamed('a.ipynb', 'b.ipynb');
    await reviews.moved('a.ipynb', 'b.ipynb');
    expect(await all()).toEqual([0, 2]);
    // A new notebook has the former name, and replaces the other one.
    await reviews.keep('a.ipynb', { ...NOTHING_KEPT, all: 3 });
    await reviews.moved('a.ipynb', 'b.ipynb');
    expect(await all()).toEqual([0, 3]);
  });

  it.each([0, 1])('keeps under the new name what is kept while a rename waits: %i', async begun => {
    const reviews = reviewsOf(store);
    await reviews.load('a.ipynb');
    void reviews.moved('a.ipynb', 'b.ipynb');
    // Then it waits for what carries it out.
    for (let tick = 0; tick < begun; tick++) {
      await Promise.resolve();
    }
    await reviews.keep('a.ipynb', { ...NOTHING_KEPT, all: 4 });
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
        void reviews.keep(path, { ...NOTHING_KEPT, all: step });
      } else if (kind === 2) {
        notebooks.delete(path);
        void reviews.moved(path, null);
      } else if (kind < 5 && target !== path) {
        rename(path, target);
        // By this page, by another one, or both, as this page does if the notebook is open.
        const by = below(3);
        const isFirst = below(2) === 0;
        void (by === 1 && isFirst && reviews.renamed(path, target));
        void (by < 2 && reviews.moved(path, target));
        void (by > 0 && !(by === 1 && isFirst) && reviews.renamed(path, target));
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
