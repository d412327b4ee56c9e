import type { Contents } from '@jupyterlab/services';

import { isOnServer } from '../lab/drives';

/**
 * Return the path of a file on the server.
 *
 * It is null for another drive, since the server may have a different file under the same path.
 */
export function serverPath(
  contents: Pick<Contents.IManager, 'driveName' | 'localPath'>,
  path: string
): string | null {
  return isOnServer(contents, path) ? contents.localPath(path) : null;
}
