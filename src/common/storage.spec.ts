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

  it('stores entries of one window', async () => {
    await new BrowserStorage('http://one/', 'sessionStorage').save('a', 1);
    expect(await new BrowserStorage('http://one/').fetch('a')).toBeUndefined();
    expect(await new BrowserStorage('http://one/', 'sessionStorage').fetch('a')).toBe(1);
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

  it('ignores entries that are not valid', async () => {
    localStorage.setItem(KEY, '{');
    expect(await new BrowserStorage('http://one/').fetch('a')).toBeUndefined();
    localStorage.setItem(KEY, '1');
    expect(await new BrowserStorage('http://one/').fetch('a')).toBeUndefined();
  });
});
