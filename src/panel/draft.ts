import type { Attachment, IMessage } from '../api/client';
import type { Mode } from '../api/events';
import type { ISeen } from './surroundings';

/** Something that goes with the next message, with its name on the chip. */
export interface IAttached {
  label: string;
  attachment: Attachment;
}

/** A message that is being written. */
export interface IDraft {
  text: string;
  attached: readonly IAttached[];
  /** What the person looks at does not go with it, where they took its chip away. */
  withoutNotebook: boolean;
  withoutCell: boolean;
}

export const BLANK: IDraft = {
  text: '',
  attached: [],
  withoutNotebook: false,
  withoutCell: false
};

/** How many selected cells the server takes. */
const MAX_SELECTED = 100;

/** The draft bound to what the person looks at in this moment: a message. */
export function messageOf(
  draft: IDraft,
  seen: ISeen | null,
  options: { mode: Mode; model: string; activeCell: boolean }
): IMessage {
  const message: IMessage = { message: draft.text, mode: options.mode };
  if (options.model !== '') {
    message.model = options.model;
  }
  if (seen !== null && !draft.withoutNotebook) {
    message.notebook = seen.notebook;
    if (seen.cell !== null && options.activeCell && !draft.withoutCell) {
      message.active_cell = seen.cell.id;
    }
    if (seen.selected.length > 0 && !draft.withoutCell) {
      message.selected_cells = seen.selected.slice(0, MAX_SELECTED);
    }
  }
  if (draft.attached.length > 0) {
    message.attachments = draft.attached
      .map(each => each.attachment)
      // A cell is one of the notebook's that goes with it.
      .filter(each => each.kind !== 'cell' || message.notebook !== undefined);
  }
  return message;
}

const PICTURES = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp']);
/** Bytes of a picture that the server takes. */
const MAX_PICTURE = 5_000_000;

/** A picture as an attachment; null for a file that is none, or too large. */
export async function pictureOf(file: File): Promise<IAttached | null> {
  if (!PICTURES.has(file.type) || file.size > MAX_PICTURE) {
    return null;
  }
  const url = await new Promise<string>((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result as string);
    reader.onerror = () => reject(reader.error ?? new Error('unreadable'));
    reader.readAsDataURL(file);
  });
  return {
    label: file.name,
    attachment: { kind: 'image', mime: file.type, data: url.slice(url.indexOf(',') + 1) }
  };
}
