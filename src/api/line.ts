import { ApiError } from './client';

/** How long it waits before it asks for a lost line again, in milliseconds; the last one stays. */
const PAUSES = [500, 1000, 2000, 5000, 15000];

/**
 * Listens to the server until nobody wants it any more; a line that is cut, or whose other end has
 * gone, is asked for again.
 *
 * @param open - begins to listen; it may throw an `ApiError`, which ends all where trying again is
 *   of no use.
 * @param take - takes each event; false has the line begin anew.
 */
export async function keepLine<T>(
  open: () => AsyncIterable<T>,
  take: (event: T) => boolean | Promise<boolean>,
  signal: AbortSignal
): Promise<void> {
  let tries = 0;
  while (!signal.aborted) {
    try {
      for await (const event of open()) {
        tries = 0;
        if (!(await take(event))) {
          break;
        }
      }
    } catch (error) {
      if (!(error instanceof ApiError)) {
        throw error;
      }
      if (!error.problem.retryable) {
        return;
      }
    }
    await pause(PAUSES[Math.min(tries++, PAUSES.length - 1)] ?? 0, signal);
  }
}

/** Waits for so long; less where the browser is online again, or nobody wants it any more. */
async function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) {
    return;
  }
  const over = new AbortController();
  await new Promise<void>(resolve => {
    const timer = window.setTimeout(resolve, milliseconds);
    const wake = (): void => {
      window.clearTimeout(timer);
      resolve();
    };
    window.addEventListener('online', wake, { signal: over.signal });
    signal.addEventListener('abort', wake, { signal: over.signal });
  });
  over.abort();
}
