/** Reads in the background, which may overlap and fail. */

import { ApiError } from './client';

/** Await a read that the person did not ask for. Null on an error of the server. */
export async function quietly<T>(read: Promise<T>): Promise<T | null> {
  try {
    return await read;
  } catch (error) {
    if (!(error instanceof ApiError)) {
      throw error;
    }
    return null;
  }
}

/**
 * Return a function that numbers a read when it begins, and returns whether its answer counts.
 *
 * It does not once the answer of a later read has counted: the newest one wins.
 */
export function inOrder(): () => () => boolean {
  let begun = 0;
  let taken = 0;
  return () => {
    const number = ++begun;
    return () => {
      taken = Math.max(taken, number);
      return taken === number;
    };
  };
}
