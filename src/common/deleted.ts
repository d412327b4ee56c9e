import type { TranslationBundle } from '@jupyterlab/translation';

/** Return a notebook's path as it is shown, with the server's mark of a deleted one translated. */
export function nameOfPath(path: string, trans: TranslationBundle): string {
  return path.replace(/(.*) \(deleted\)$/, (_, name: string) => trans.__('%1 (deleted)', name));
}
