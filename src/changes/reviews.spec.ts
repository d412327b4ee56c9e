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
    await reviews.moved('a.ipynb', 'b.ipynb');
    expect([reviews.of('a.ipynb').all, reviews.of('b.ipynb').all]).toEqual([0, 2]);
    expect((await reviews.load('a.ipynb')).all).toBe(0);
  });

  it('counts a rename once that is reported twice, and follows a folder', async () => {
    const reviews = reviewsOf(store);
    await reviews.keep('a.ipynb', { ...NOTHING_KEPT, all: 2 });
    await reviews.moved('a.ipynb', 'd/b.ipynb');
    await reviews.moved('a.ipynb', 'd/b.ipynb');
    await reviews.moved('d', 'e');
    const page = reviewsOf(store);
    const all = await Promise.all(
      ['a.ipynb', 'd/b.ipynb', 'e/b.ipynb'].map(async path => (await page.load(path)).all)
    );
    expect(all).toEqual([0, 0, 2]);
    await reviews.moved('e', null);
    expect((await reviewsOf(store).load('e/b.ipynb')).all).toBe(0);
  });
});
