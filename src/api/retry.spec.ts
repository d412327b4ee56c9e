import { delay } from './retry';

describe('the delay', () => {
  it('grows with each try, up to a bound', () => {
    const waits = [0, 1, 2, 3, 20, 1_000].map(tries => delay(tries, 0.5));
    expect(waits).toEqual([250, 500, 1_000, 2_000, 5_000, 5_000]);
  });

  it('differs between pages', () => {
    expect(delay(0, 0)).toBeLessThan(delay(0, 1));
  });
});
