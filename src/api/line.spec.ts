import { ApiError } from './client';
import { keepLine } from './line';
import { Lines } from './lines';

function refused(status: number): ApiError {
  const code = `http_${status}`;
  return new ApiError({ code, message: '', hint: '', retryable: false }, status);
}

/** Listens to a server that plays these lines, and says what was heard and what ended it. */
async function listen(...lines: (string | null | Error)[][]): Promise<[string, ApiError | null]> {
  const over = new AbortController();
  let heard = '';
  const ended = keepLine(
    new Lines(),
    {
      need: () => 'first',
      async *open() {
        await Promise.resolve();
        for (const each of lines.shift() ?? []) {
          if (each instanceof Error) {
            throw each;
          }
          yield each;
        }
      },
      take: event => {
        heard += event ?? '';
        if (event === 'end') {
          over.abort();
        }
        return event !== 'anew';
      },
      // What is waited for is over at once.
      lost: () => queueMicrotask(() => window.dispatchEvent(new Event('online')))
    },
    over.signal
  );
  const error = await ended;
  return [heard, error];
}

describe('a line that is kept', () => {
  it.each([401, 403, 424, 429, 500, 502, 503, 504])(
    'is asked for again after a %d',
    async status => {
      expect(await listen([null, 'a', refused(status)], [refused(status)], ['b', 'end'])).toEqual([
        'abend',
        null
      ]);
    }
  );

  it.each([400, 404, 410])('is over with a %d, which says so', async status => {
    const error = refused(status);
    expect(await listen([null, 'a'], [error], ['b', 'end'])).toEqual(['a', error]);
  });

  it('begins anew where something was missed, and tells nothing more once it is not wanted', async () => {
    expect(await listen(['a', 'anew', 'b'], ['c', 'end', 'd'])).toEqual(['aanewcend', null]);
  });

  it('goes on where it stopped after somebody else had its place', async () => {
    const lines = new Lines(() => size);
    let size = 1;
    const over = new AbortController();
    const opened: number[] = [];
    let heard = 0;
    const told = keepLine(
      lines,
      {
        need: () => 'next',
        async *open(line) {
          opened.push(heard);
          yield ++heard;
          await new Promise<void>(resolve => line.addEventListener('abort', () => resolve()));
        },
        take: event => {
          if (event === 1) {
            // No line is left, and then one again.
            size = 0;
            lines.deal();
            size = 1;
            lines.deal();
          } else {
            over.abort();
          }
          return true;
        },
        lost: () => fail('It is not cut.')
      },
      over.signal
    );
    expect(await told).toBeNull();
    expect(opened).toEqual([0, 1]);
  });
});
