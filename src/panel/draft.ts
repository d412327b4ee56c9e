import type { Attachment, IMessage } from '../api/client';
import type { Mode } from '../api/events';
import type { ISeen } from './surroundings';

/** Something that goes with the next message, with its name on the chip. */
export interface IAttached {
  label: string;
  attachment: Attachment;
  /** The notebook that an attached cell is of. */
  notebook?: string;
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

/** Whether something goes with a message about this notebook: a cell has to be one of its own. */
export function goesWith({ attachment, notebook }: IAttached, about: string | undefined): boolean {
  return attachment.kind !== 'cell' || (about !== undefined && (notebook ?? about) === about);
}

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
      .filter(each => goesWith(each, message.notebook))
      .map(each => each.attachment);
  }
  return message;
}
