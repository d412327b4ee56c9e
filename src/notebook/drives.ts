import type { Contents } from '@jupyterlab/services';

/** The names of the drives that hold the server's own files: the first one, and live rooms. */
const OWN = new Set(['', 'RTC']);

/**
 * The path of a file as the server knows it.
 *
 * Null where the file is of another drive: the server may have one of the same path, which is not it.
 */
export function serverPath(
  contents: Pick<Contents.IManager, 'driveName' | 'localPath'>,
  path: string
): string | null {
  return OWN.has(contents.driveName(path)) ? contents.localPath(path) : null;
}
