/** Attachments of a message, and why a file cannot be attached. */

import type { TranslationBundle } from '@jupyterlab/translation';
import type { Contents } from '@jupyterlab/services';

import { type Found, type IRefused, MAX_ATTACHED } from '../state/compose';

type Loaded = typeof import('./attachFile');

/** Milliseconds within which a file is read. */
const READ_WITHIN = 60_000;

/** Read a file for a message. It ends and never rejects: a message may wait for it. */
async function read(name: string, how: (loaded: Loaded) => Promise<Found>): Promise<Found> {
  const refused = { name, why: 'gone' } as const;
  try {
    return await Promise.race([
      import(/* webpackChunkName: "notebook" */ './attachFile').then(how),
      new Promise<Found>(resolve => setTimeout(resolve, READ_WITHIN, refused))
    ]);
  } catch {
    return refused;
  }
}

/** Attach a file from outside of JupyterLab, which must be an image. */
export function attachLocalFile(file: File): Promise<Found> {
  return read(file.name, loaded => loaded.attachLocalFile(file));
}

/** Attach a file of the server, as text or image. */
export function attachServerFile(
  contents: Pick<Contents.IManager, 'get' | 'localPath'>,
  path: string
): Promise<Found> {
  const name = contents.localPath(path);
  return read(name, loaded => loaded.attachServerFile(contents, path, name));
}

/** Return the message about files that were not attached. */
export function refusal(refused: readonly IRefused[], trans: TranslationBundle): string {
  const say = ({ name, why }: IRefused): string => {
    switch (why) {
      case 'folder':
        return trans.__('%1 is a folder. Attach its files instead.', name);
      case 'gone':
        return trans.__('%1 cannot be read.', name);
      case 'lost':
        return trans.__('%1 was not saved with the message. Attach it again.', name);
      case 'many':
        return trans._n(
          '%2 was not attached: a message can have %1 attachment.',
          '%2 was not attached: a message can have %1 attachments.',
          MAX_ATTACHED,
          name
        );
      case 'no image':
        return trans.__(
          '%1 is not an image. Upload it, then attach it from the file browser.',
          name
        );
      case 'no text':
        return trans.__('%1 is binary. Claude can read it only by running code.', name);
      case 'large':
        return trans.__('%1 is too large to attach.', name);
    }
  };
  return refused.map(say).join(' ');
}
