/** Random numbers that can be repeated. */

/**
 * Begin with the numbers of Jest's seed.
 *
 * What a search draws in a file is repeated by `jlpm jest --seed NUMBER FILE`.
 */
export function seedRandom(): void {
  // Mulberry32.
  let state = jest.getSeed();
  Math.random = () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
