import type { Contents } from '@jupyterlab/services';

/** The names of the drives that hold the server's own files: the first one, and live rooms. */
const OWN = new Set(['', 'RTC']);

/** Whether a path is of a drive that holds the server's own files. */
export function isOnServer(contents: Pick<Contents.IManager, 'driveName'>, path: string): boolean {
  return OWN.has(contents.driveName(path));
}
