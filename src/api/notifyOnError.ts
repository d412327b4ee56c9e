import { Notification } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';

import { ApiError } from './client';
import { sayProblem } from './sentences';

/** Await an action of the person, and notify them of an error. Return whether it succeeded. */
export async function notifyOnError(
  work: Promise<unknown>,
  trans: TranslationBundle
): Promise<boolean> {
  try {
    await work;
    return true;
  } catch (error) {
    if (!(error instanceof ApiError)) {
      throw error;
    }
    Notification.error(sayProblem(error.problem, trans).join(' ').trim(), { autoClose: 10_000 });
    return false;
  }
}
