/** Milliseconds to the first try after a connection was lost. */
const FIRST = 250;
/** Milliseconds to wait at most, about. */
export const LAST = 5_000;

/**
 * Milliseconds to wait before a try: exponential backoff with jitter.
 *
 * @param tries - how many there were in vain.
 * @param random - between 0 and 1: not all pages come back in one moment.
 */
export function delay(tries: number, random: number): number {
  return Math.min(FIRST * 2 ** Math.min(tries, 10), LAST) * (0.75 + random / 2);
}
