/** Reads files for a message. It is loaded when the first one is attached. */

import type { Contents } from '@jupyterlab/services';

import type { ImageAttachment } from '../api/contextModels';
import type { Found, IAttached } from '../state/compose';

/** Maximum bytes of an image that the server accepts. */
const MAX_IMAGE = 5_000_000;
/** Maximum bytes of a text file that the server reads. */
const MAX_FILE = 20_000_000;

type ImageType = ImageAttachment['mime'];
const IMAGE_TYPES: readonly ImageType[] = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];
const BINARY =
  /^(audio|font|image|video)\/(?!svg)|^application\/(gzip|octet-stream|pdf|vnd\.|x-(7z|bzip|hdf|python-code|rar|tar|xz)|zip)/;

/** Attach a file from outside of JupyterLab, which must be an image. */
export async function attachLocalFile(file: File): Promise<Found> {
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

/** Attach a file of the server, as text or image. */
export async function attachServerFile(
  contents: Pick<Contents.IManager, 'get'>,
  path: string,
  name: string
): Promise<Found> {
  const { type, mimetype, size } = await contents.get(path, { content: false });
  if (type === 'directory') {
    return { name, why: 'folder' };
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
  if (BINARY.test(mime)) {
    return { name, why: 'no text' };
  }
  if ((size ?? 0) > MAX_FILE) {
    return { name, why: 'large' };
  }
  return { label: name, attachment: { kind: 'file', path: name } };
}

function isImage(mime: string): mime is ImageType {
  return (IMAGE_TYPES as readonly string[]).includes(mime);
}

function imageOf(label: string, mime: ImageType, data: string): IAttached {
  return { label, attachment: { kind: 'image', mime, data } };
}
