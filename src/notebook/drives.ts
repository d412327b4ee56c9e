import type { Contents } from '@jupyterlab/services';

import { isOnServer } from '../lab/drives';

/**
 * The path of a file as the server knows it.
 *
 * Null where the file is of another drive: the server may have one of the same path, which is not it.
 */
export function serverPath(
  contents: Pick<Contents.IManager, 'driveName' | 'localPath'>,
  path: string
): string | null {
  return isOnServer(contents, path) ? contents.localPath(path) : null;
}
