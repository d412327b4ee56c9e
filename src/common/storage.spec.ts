import { BrowserStorage } from './storage';

/** Dispatch the event that a browser sends when another page has written. */
function dispatch(key: string): void {
  window.dispatchEvent(new StorageEvent('storage', { key, storageArea: localStorage }));
}

describe('Store', () => {
  const KEY = 'tk-ai-extension http://one/ a';

  beforeEach(() => localStorage.clear());
  afterEach(() => jest.restoreAllMocks());

  it('stores entries by server', async () => {
    await new BrowserStorage('http://one/').save('a', { x: 1 });
    expect(await new BrowserStorage('http://one/').fetch('a')).toEqual({ x: 1 });
    expect(await new BrowserStorage('http://other/').fetch('a')).toBeUndefined();
    await new BrowserStorage('http://one/').remove('a');
    expect(await new BrowserStorage('http://one/').fetch('a')).toBeUndefined();
    expect(localStorage).toHaveLength(0);
  });

  it('lists the entries with a prefix', async () => {
    const store = new BrowserStorage('http://one/');
    for (const name of ['a:1', 'a:', 'b:1']) {
      await store.save(name, name);
    }
    await new BrowserStorage('http://other/').save('a:2', 2);
    expect((await store.entries('a:')).sort()).toEqual([
      ['', 'a:'],
      ['1', 'a:1']
    ]);
  });

  it('emits writes of other pages for its own server', () => {
    const names: string[] = [];
    new BrowserStorage('http://one/').changed.connect((_, name) => names.push(name));
    dispatch(KEY);
    dispatch('tk-ai-extension http://other/ a');
    dispatch('something else');
    expect(names).toEqual(['a']);
  });

  it('removes expired entries, and the oldest above the maximum', async () => {
    const store = new BrowserStorage('http://one/');
    localStorage.setItem('of others', 'x');
    let now = Date.now();
    jest.spyOn(Date, 'now').mockImplementation(() => now);
    for (let number = 0; number < 510; number++) {
      now += 1000;
      await store.save(`n${number}`, number);
    }
    expect([await store.fetch('n0'), await store.fetch('n9')]).toEqual([undefined, undefined]);
    expect([await store.fetch('n10'), await store.fetch('n509')]).toEqual([10, 509]);
    now += 181 * 86_400_000;
    expect(await store.fetch('n509')).toBeUndefined();
    await store.save('new', 1);
    expect(Object.keys(localStorage).sort()).toEqual(['of others', KEY.replace(/a$/, 'new')]);
  });

  it('removes entries when the quota is exceeded, and works without a storage', async () => {
    const store = new BrowserStorage('http://one/');
    const most = 'x'.repeat(450_000);
    // Of five million characters.
    for (let number = 0; number < 20; number++) {
      await store.save(`n${number}`, most);
    }
    expect(await store.fetch('n19')).toBe(most);
    await store.save('n19', 'x'.repeat(500_001));
    expect(await store.fetch('n19')).toBe(most);
    jest.spyOn(window, 'localStorage', 'get').mockImplementation(() => {
      throw new DOMException('Blocked.', 'SecurityError');
    });
    const blocked = new BrowserStorage('http://one/');
    await blocked.save('a', 1);
    expect(await blocked.fetch('a')).toBeUndefined();
  });

  it('changes nothing if there is no room, and removes no more than it must', async () => {
    const store = new BrowserStorage('http://one/');
    let state = 5;
    const below = (limit: number): number => (state = (state * 48_271) % 2_147_483_647) % limit;
    let limit = Infinity;
    // eslint-disable-next-line @typescript-eslint/unbound-method
    const set = Storage.prototype.setItem;
    const stored = (): Record<string, string> => Object.fromEntries(Object.entries(localStorage));
    const size = (): number =>
      Object.entries(localStorage).reduce((sum, pair) => sum + pair.join('').length, 0);
    jest.spyOn(Storage.prototype, 'setItem').mockImplementation(function (
      this: Storage,
      key,
      text
    ) {
      const before = this.getItem(key);
      const more = key.length + text.length - (before === null ? 0 : key.length + before.length);
      if (size() + more > limit) {
        throw new DOMException('Full.', 'QuotaExceededError');
      }
      set.call(this, key, text);
    });
    let now = Date.now();
    jest.spyOn(Date, 'now').mockImplementation(() => ++now);
    let failed = 0;
    for (let round = 0; round < 60; round++) {
      limit = Infinity;
      localStorage.clear();
      localStorage.setItem('of others', 'x'.repeat(below(500)));
      const names = Array.from({ length: 1 + below(6) }, (_, number) => `n${number}`);
      for (const name of names) {
        await store.save(name, 'x'.repeat(below(300)));
      }
      limit = size() + below(50);
      const before = stored();
      const name = `n${below(8)}`;
      const key = `tk-ai-extension http://one/ ${name}`;
      await store.save(name, 'y'.repeat(below(1500)));
      const after = stored();
      if (after[key]?.includes('y') === true) {
        const left = Object.keys(before).filter(each => each !== key);
        const gone = left.filter(each => !(each in after));
        const own = left.filter(each => each !== 'of others');
        expect(gone.sort()).toEqual(own.sort().slice(0, gone.length));
        const last = gone.at(-1);
        // Without the last removal, it would not have fitted.
        expect(
          last === undefined || size() + last.length + (before[last] ?? '').length > limit
        ).toBe(true);
      } else {
        failed++;
        expect(after).toEqual(before);
      }
    }
    expect(failed).toBeGreaterThan(5);
    expect(failed).toBeLessThan(55);
  });

  it('ignores entries that are not valid', async () => {
    localStorage.setItem(KEY, '{');
    expect(await new BrowserStorage('http://one/').fetch('a')).toBeUndefined();
    localStorage.setItem(KEY, '1');
    expect(await new BrowserStorage('http://one/').fetch('a')).toBeUndefined();
  });
});
