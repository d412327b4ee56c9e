/** Attachments of a message, and why a file cannot be attached. */

import type { Contents } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';

import type { ImageAttachment } from '../api/events';
import { type Found, type IAttached, type IRefused, MAX_ATTACHED } from '../state/compose';

/** Milliseconds within which a file is read. */
const READ_WITHIN = 60_000;
/** Maximum bytes of an image that the server accepts. */
const MAX_IMAGE = 5_000_000;

type ImageType = ImageAttachment['mime'];
const IMAGE_TYPES: readonly ImageType[] = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];

/** Read a file for a message. It ends and never rejects: a message may wait for it. */
async function read(name: string, reading: Promise<Found>): Promise<Found> {
  const refused = { name, why: 'gone' } as const;
  try {
    return await Promise.race([
      reading,
      new Promise<Found>(resolve => setTimeout(resolve, READ_WITHIN, refused))
    ]);
  } catch {
    return refused;
  }
}

/** Attach a file from outside of JupyterLab, which must be an image. */
export function attachLocalFile(file: File): Promise<Found> {
  return read(file.name, readLocalFile(file));
}

/** Attach a file or folder of the server. What of it is no text, the server says. */
export function attachServerFile(
  contents: Pick<Contents.IManager, 'get' | 'localPath'>,
  path: string
): Promise<Found> {
  const name = contents.localPath(path);
  return read(name, readServerFile(contents, path, name));
}

async function readLocalFile(file: File): Promise<Found> {
  const { type } = file;
  if (!isImage(type)) {
    return { name: file.name, why: 'no image' };
  }
  if (file.size > MAX_IMAGE) {
    return { name: file.name, why: 'large' };
  }
  const url = await new Promise<string>((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result as string);
    reader.onerror = () => reject(reader.error ?? new Error('unreadable'));
    reader.readAsDataURL(file);
  });
  return imageOf(file.name, type, url.slice(url.indexOf(',') + 1));
}

async function readServerFile(
  contents: Pick<Contents.IManager, 'get'>,
  path: string,
  name: string
): Promise<Found> {
  const { type, mimetype, size } = await contents.get(path, { content: false });
  if (type === 'directory') {
    return { label: name || '/', attachment: { kind: 'folder', path: name } };
  }
  // It is null if the server does not know the type.
  const mime = (mimetype as string | null) ?? '';
  if (isImage(mime)) {
    if ((size ?? 0) > MAX_IMAGE) {
      return { name, why: 'large' };
    }
    const whole = await contents.get(path, { content: true, format: 'base64', type: 'file' });
    return imageOf(name, mime, String(whole.content).replace(/\s/g, ''));
  }
  return { label: name, attachment: { kind: 'file', path: name } };
}

function isImage(mime: string): mime is ImageType {
  return (IMAGE_TYPES as readonly string[]).includes(mime);
}

function imageOf(label: string, mime: ImageType, data: string): IAttached {
  return { label, attachment: { kind: 'image', mime, data } };
}

/** Return the message about files that were not attached. */
export function refusal(refused: readonly IRefused[], trans: TranslationBundle): string {
  const say = ({ name, why }: IRefused): string => {
    switch (why) {
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
      case 'large':
        return trans.__('%1 is too large to attach.', name);
    }
  };
  return refused.map(say).join(' ');
}
