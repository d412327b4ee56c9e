import { Notification } from '@jupyterlab/apputils';

import { ApiError, problemText } from './client';

/** Await an action of the person, and notify them of an error. Return whether it succeeded. */
export async function notifyOnError(work: Promise<unknown>): Promise<boolean> {
  try {
    await work;
    return true;
  } catch (error) {
    if (!(error instanceof ApiError)) {
      throw error;
    }
    Notification.error(problemText(error.problem), { autoClose: 10_000 });
    return false;
  }
}
