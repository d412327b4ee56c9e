/** Attachments of a message, and why a file cannot be attached. */

import type { TranslationBundle } from '@jupyterlab/translation';
import type { Contents } from '@jupyterlab/services';

import type { IRefused } from '../state/app';
import { type IAttached, MAX_ATTACHED } from '../state/compose';

export type Found = IAttached | IRefused;

export function isRefused(found: Found): found is IRefused {
  return 'why' in found;
}

const load = () => import(/* webpackChunkName: "notebook" */ './attachFile');

/** Attach a file from outside of JupyterLab, which must be an image. */
export async function attachLocalFile(file: File): Promise<Found> {
  return (await load()).attachLocalFile(file);
}

/** Attach a file of the server, as text or image. */
export async function attachServerFile(
  contents: Pick<Contents.IManager, 'get' | 'localPath'>,
  path: string
): Promise<Found> {
  return (await load()).attachServerFile(contents, path);
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
