/** Milliseconds before the first retry. */
const FIRST = 250;
/** Maximum milliseconds before a retry, without jitter. */
export const LAST = 5_000;

/**
 * Return the milliseconds before a retry: exponential backoff with jitter.
 *
 * @param tries - The number of failed tries.
 * @param random - A number between 0 and 1, so that pages do not reconnect at the same time.
 */
export function delay(tries: number, random: number): number {
  return Math.min(FIRST * 2 ** Math.min(tries, 10), LAST) * (0.75 + random / 2);
}

/** Wait before a retry. */
export async function backOff(tries: number): Promise<void> {
  await new Promise(resolve => setTimeout(resolve, delay(tries, Math.random())));
}
