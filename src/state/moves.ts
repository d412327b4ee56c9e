/** The files and folders that were renamed or deleted, as far as this page knows. */

/** Them all in order, with the new path of each; null for a deletion. */
export const moves: (readonly [from: string, to: string | null])[] = [];

/**
 * Return the path of a file after some of the moves; null if it was deleted.
 *
 * @param since - The number of moves before; negative for the last ones.
 * @param until - The number of moves then. Default: all.
 */
export function pathAfter(path: string, since: number, until?: number): string | null {
  return moves
    .slice(since, until)
    .reduce<string | null>(
      (now, [from, to]) =>
        now !== null && `${now}/`.startsWith(`${from}/`) ? to && to + now.slice(from.length) : now,
      path
    );
}
