/** Reads in the background, which may fail. */

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
