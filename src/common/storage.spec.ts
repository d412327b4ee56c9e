import { BrowserStorage } from './storage';

describe('Store', () => {
  const KEY = 'tk-ai-extension http://one/ a';

  beforeEach(() => localStorage.clear());
  afterEach(() => jest.restoreAllMocks());

  it('stores entries by server', () => {
    new BrowserStorage('http://one/').save('a', { x: 1 });
    expect(new BrowserStorage('http://one/').fetch('a')).toEqual({ x: 1 });
    expect(new BrowserStorage('http://other/').fetch('a')).toBeUndefined();
    new BrowserStorage('http://one/').remove('a');
    expect(new BrowserStorage('http://one/').fetch('a')).toBeUndefined();
    expect(localStorage).toHaveLength(0);
  });

  it('lists the entries with a prefix', () => {
    const store = new BrowserStorage('http://one/');
    for (const name of ['a:1', 'a:', 'b:1']) {
      store.save(name, name);
    }
    new BrowserStorage('http://other/').save('a:2', 2);
    expect(Object.fromEntries(store.entries('a:'))).toEqual({ '': 'a:', 1: 'a:1' });
  });

  it('forgets expired entries', () => {
    localStorage.setItem('of others', 'x');
    new BrowserStorage('http://one/').save('a', 1);
    const now = Date.now();
    jest.spyOn(Date, 'now').mockImplementation(() => now + 181 * 86_400_000);
    expect(new BrowserStorage('http://one/').fetch('a')).toBeUndefined();
    expect(Object.keys(localStorage)).toEqual(['of others']);
  });

  it('keeps the former value if there is no room, and works without a storage', () => {
    const store = new BrowserStorage('http://one/');
    store.save('a', 1);
    store.save('a', 'x'.repeat(6_000_000));
    expect(store.fetch('a')).toBe(1);
    jest.spyOn(window, 'localStorage', 'get').mockImplementation(() => {
      throw new DOMException('Blocked.', 'SecurityError');
    });
    const blocked = new BrowserStorage('http://one/');
    blocked.save('a', 1);
    expect(blocked.fetch('a')).toBeUndefined();
  });

  it('ignores entries that are not valid', () => {
    localStorage.setItem(KEY, '{');
    expect(new BrowserStorage('http://one/').fetch('a')).toBeUndefined();
    localStorage.setItem(KEY, '1');
    expect(new BrowserStorage('http://one/').fetch('a')).toBeUndefined();
  });
});
