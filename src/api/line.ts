import { ApiError } from './client';
import type { ILines, Need } from './lines';
import { LAST, pause } from './pause';

/** Who listens to the server. */
export interface IListener<T> {
  /** How much it needs a line now. */
  need: () => Need;
  /**
   * Begins to listen where it stopped.
   *
   * @returns Null once the server tells, where the route says so, then the events.
   * @throws ApiError - the server does not tell.
   */
  open: (signal: AbortSignal) => AsyncIterable<T>;
  /** Takes each event; false has the line begin anew. */
  take: (event: T) => boolean | Promise<boolean>;
  /** Hears that the line is cut, and is asked for again in a while. */
  lost?: () => void;
}

/**
 * Listens to the server until nobody wants it any more.
 *
 * A line that is cut, or whose other end has gone, is asked for again, and so is one that a proxy or
 * a login stands before: all that may become better. One that others need more is waited for.
 *
 * @returns What ended it, where asking again is of no use; else null.
 */
export async function keepLine<T>(
  lines: ILines,
  { need, open, take, lost }: IListener<T>,
  signal: AbortSignal
): Promise<ApiError | null> {
  let tries = 0;
  while (!signal.aborted) {
    const held = await lines.take(need, signal);
    if (held === null) {
      break;
    }
    const begun = Date.now();
    const isOver = (): boolean => held.signal.aborted;
    try {
      for await (const event of open(held.signal)) {
        if (isOver()) {
          break;
        }
        // Who says nothing but that it listens may hang up at once each time.
        tries = event === null ? tries : 0;
        if (!(await take(event)) || isOver()) {
          break;
        }
      }
    } catch (error) {
      if (!(error instanceof ApiError)) {
        throw error;
      }
      if (error.lasts) {
        return error;
      }
    } finally {
      held.giveBack();
    }
    if (!isOver()) {
      tries = Date.now() - begun > LAST ? 0 : tries;
      lost?.();
      await rest(pause(tries++, Math.random()), signal);
    }
  }
  return null;
}

/** Waits for so long; less where the browser is online again, or nobody wants it any more. */
async function rest(milliseconds: number, signal: AbortSignal): Promise<void> {
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
