import { Store } from './store';

describe('the store', () => {
  afterEach(() => jest.useRealTimers());

  it('notifies at once of a person’s actions, and not if nothing changed', () => {
    const store = new Store({ a: 1 });
    let times = 0;
    const unsubscribe = store.subscribe(() => times++);
    store.update(state => ({ ...state, a: 2 }));
    store.update(state => state);
    expect([store.state.a, times]).toEqual([2, 1]);
    unsubscribe();
    store.update(state => ({ ...state, a: 3 }));
    expect(times).toBe(1);
  });

  it('applies streamed events at once, and notifies once per frame', () => {
    jest.useFakeTimers();
    const store = new Store({ a: 0 });
    let times = 0;
    store.subscribe(() => times++);
    const stream = (): void => store.update(({ a }) => ({ a: a + 1 }), { coalesced: true });
    for (let step = 0; step < 100; step++) {
      stream();
    }
    expect([store.state.a, times]).toEqual([100, 0]);
    jest.advanceTimersByTime(16);
    expect(times).toBe(1);
    stream();
    store.update(({ a }) => ({ a: a + 1 }));
    expect([store.state.a, times]).toEqual([102, 2]);
    jest.runAllTimers();
    expect(times).toBe(2);
  });

  it('may be changed by a subscriber', () => {
    const store = new Store({ a: 0 });
    const seen: number[] = [];
    store.subscribe(() => {
      seen.push(store.state.a);
      store.update(state => (state.a < 3 ? { a: state.a + 1 } : state));
    });
    store.update(() => ({ a: 1 }));
    expect(seen).toEqual([1, 2, 3]);
  });
});
