import { BrowserStorage } from '../common/storage';
import { type IChanged, isKept, keeping, mergeKept, NOTHING_KEPT } from '../state/keptChanges';
import { createStore } from '../state/app';
import { type IDecision, Reviews } from './reviews';

describe('mergeKept', () => {
  it('has what was kept here or there, each cell up to the later time', () => {
    const one = { ...NOTHING_KEPT, all: 5, cells: { a: 8, b: 9 } };
    const other = { ...NOTHING_KEPT, all: 7, cells: { a: 9, c: 6 } };
    const both = { ...NOTHING_KEPT, all: 7, cells: { a: 9, b: 9, c: 6 } };
    expect([mergeKept(one, other), mergeKept(other, one)]).toEqual([both, both]);
    expect(mergeKept(both, NOTHING_KEPT)).toEqual(both);
    expect(isKept(both, { cell: 'c', time: 7 })).toBe(true);
    expect(isKept(both, { cell: 'c', time: 8 })).toBe(false);
  });

  it('has each single change that was kept here or there, and no other', () => {
    let state = 3;
    const below = (limit: number): number => (state = (state * 48_271) % 2_147_483_647) % limit;
    for (let round = 0; round < 100; round++) {
      const some = (): IChanged[] =>
        Array.from({ length: below(8) }, () => ({ cell: 'ab'[below(2)] ?? '', time: below(12) }));
      const [here, there] = [some(), some()];
      const both = mergeKept(keeping(here), keeping(there));
      expect(mergeKept(keeping(there), keeping(here))).toEqual(both);
      expect(mergeKept(both, both)).toEqual(both);
      for (const cell of ['a', 'b']) {
        for (let time = 1; time < 12; time++) {
          const isThere = [...here, ...there].some(
            each => each.cell === cell && each.time === time
          );
          expect(isKept(both, { cell, time })).toBe(isThere);
        }
      }
    }
  });

  const times = Array.from({ length: 6000 }, (_, place) => place + 1);

  it.each([times, times.toReversed()])('is bounded, and has the newest changes', (...kinds) => {
    let kept = NOTHING_KEPT;
    for (let first = 0; first < kinds.length; first += 100) {
      const some = kinds.slice(first, first + 100).map(time => ({ cell: 'a', time }));
      kept = mergeKept(kept, keeping(some));
    }
    expect(Object.keys(kept.steps).length).toBeLessThan(4100);
    const open = times.filter(time => !isKept(kept, { cell: 'a', time }));
    expect([open.length < 2000, Math.max(...open) < 2000]).toEqual([true, true]);
  });

  it('has all that was kept at once, however much, for good, and nothing else', () => {
    let kept = NOTHING_KEPT;
    // Of the newest, each tenth one is in progress.
    const isShown = (time: number): boolean => time <= 15_000 || time % 10 > 0;
    for (let last = 5000; last <= 20_000; last += 5000) {
      const some = Array.from({ length: 5000 }, (_, place) => ({ time: last - place }));
      const shown = some.filter(({ time }) => isShown(time));
      kept = mergeKept(kept, { ...keeping(shown), seen: shown[0]?.time ?? 0 });
      expect(mergeKept(kept, kept)).toEqual(kept);
    }
    expect(Object.keys(kept.steps).length).toBeLessThan(4100);
    for (let time = 1; time <= 20_001; time++) {
      const isListed = time <= 20_000 && isShown(time);
      // One in progress may be forgotten once thousands of later ones were kept.
      if (isListed || time > 16_000) {
        expect([time, isKept(kept, { cell: 'a', time })]).toEqual([time, isListed]);
      }
    }
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

  it('reads what an earlier version has stored', async () => {
    await store.save('kept:a.ipynb', { all: 2, cells: { x: 3 } });
    const reviews = reviewsOf(store);
    await reviews.keep('a.ipynb', keeping([{ cell: 'x', time: 5 }]));
    const kept = await reviewsOf(store).load('a.ipynb');
    const times = [1, 2, 3, 4, 5].filter(time => isKept(kept, { cell: 'x', time }));
    expect(times).toEqual([1, 2, 3, 5]);
  });

  it('keeps changes at once, and after a reload', async () => {
    const reviews = reviewsOf(store);
    const saved = reviews.keep('a.ipynb', { ...NOTHING_KEPT, cells: { x: 3 } });
    expect(reviews.of('a.ipynb').cells).toEqual({ x: 3 });
    await saved;
    expect(await reviewsOf(store).load('a.ipynb')).toEqual({ ...NOTHING_KEPT, cells: { x: 3 } });
  });

  it('merges what another page has kept meanwhile', async () => {
    const [one, other] = [reviewsOf(store), reviewsOf(store)];
    await one.keep('a.ipynb', { ...NOTHING_KEPT, cells: { x: 3 } });
    await other.keep('a.ipynb', { ...NOTHING_KEPT, cells: { y: 4 } });
    expect((await one.load('a.ipynb')).cells).toEqual({ x: 3, y: 4 });
  });

  it('receives what another window has kept', async () => {
    const [here, there] = [reviewsOf(store), reviewsOf(new BrowserStorage('http://server/'))];
    await Promise.all([here.load('a.ipynb'), here.load('b.ipynb')]);
    await there.keep('a.ipynb', { ...NOTHING_KEPT, cells: { x: 3 } });
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
    await reviews.keep('a.ipynb', { ...NOTHING_KEPT, all: 2, cells: {} });
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
    await reviews.keep('a.ipynb', { ...NOTHING_KEPT, all: 4, cells: {} });
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
        void reviews.keep(path, { ...NOTHING_KEPT, all: step, cells: {} });
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
