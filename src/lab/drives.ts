import type { Contents } from '@jupyterlab/services';

/** The drives of the server's own files: the default one, and that of shared documents. */
const OWN = new Set(['', 'RTC']);

/** Return whether a path is on a drive of the server's own files. */
export function isOnServer(contents: Pick<Contents.IManager, 'driveName'>, path: string): boolean {
  return OWN.has(contents.driveName(path));
}
