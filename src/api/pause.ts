/** Milliseconds to the first try after a line was cut. */
const FIRST = 250;
/** Milliseconds to wait at most, about. */
export const LAST = 5_000;

/**
 * Milliseconds to wait before a try, of which there were so many in vain.
 *
 * @param random - between 0 and 1: not all pages come back in one moment.
 */
export function pause(tries: number, random: number): number {
  return Math.min(FIRST * 2 ** Math.min(tries, 10), LAST) * (0.75 + random / 2);
}
