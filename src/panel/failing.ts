import { Notification } from '@jupyterlab/apputils';

import { ApiError } from '../api/client';

/** Waits for what a person has asked for; says why where the server did not do it, and gives whether it did. */
export async function orSay(work: Promise<unknown>): Promise<boolean> {
  try {
    await work;
    return true;
  } catch (error) {
    if (!(error instanceof ApiError)) {
      throw error;
    }
    const { message, hint } = error.problem;
    Notification.error([message, hint].filter(part => part !== '').join(' '), {
      autoClose: 10_000
    });
    return false;
  }
}
