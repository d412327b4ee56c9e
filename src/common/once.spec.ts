import { untilItSucceeds } from './once';

it('keeps a success only, and begins once for all who wait', async () => {
  for (let run = 0; run < 100; run++) {
    const fails = Math.floor(Math.random() * 4);
    let tries = 0;
    const get = untilItSucceeds(() =>
      tries++ < fails ? Promise.reject(new Error('offline')) : Promise.resolve(run)
    );
    for (let asked = 0; asked < fails + 2; asked++) {
      const both = await Promise.allSettled([get(), get()]);
      const expected = asked < fails ? 'rejected' : 'fulfilled';
      expect(both.map(({ status }) => status)).toEqual([expected, expected]);
    }
    expect(tries).toBe(fails + 1);
  }
});
