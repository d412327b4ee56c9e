import { insist } from './later';

describe('a part that loads later', () => {
  it.each([0, 1, 4])('is loaded again after %s failures, and then is there', async failures => {
    jest.useFakeTimers();
    let tries = 0;
    const load = (): Promise<string> =>
      tries++ < failures ? Promise.reject(new Error('cut')) : Promise.resolve('part');
    const loading = insist(load);
    await jest.advanceTimersByTimeAsync(60_000);
    expect([await loading, tries]).toEqual(['part', failures + 1]);
    jest.useRealTimers();
  });
});
