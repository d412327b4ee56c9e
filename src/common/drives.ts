import type { Contents } from '@jupyterlab/services';

/** The drives of the server's own files: the default one, and that of shared documents. */
const OWN = new Set(['', 'RTC']);

/**
 * Return the path of a file on the server.
 *
 * It is null for another drive, since the server may have a different file under the same path.
 */
export function serverPath(
  contents: Pick<Contents.IManager, 'driveName' | 'localPath'>,
  path: string
): string | null {
  return OWN.has(contents.driveName(path)) ? contents.localPath(path) : null;
}
