import type { Attachment, IMessage } from '../api/client';
import type { Mode } from '../api/events';
import type { ITurn } from './chat';

/** A cell as a person knows it. */
export interface ICellName {
  id: string;
  index: number;
  /** The first line of its source. */
  line: string;
}

/** What the person looks at. */
export interface ISeen {
  /** The notebook's path. */
  notebook: string;
  cell: ICellName | null;
  /** Ids of the selected cells, where more than one is. */
  selected: readonly string[];
}

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

/**
 * What a person writes: a new message, one that takes the place of the message of a turn (`edit`),
 * or what is to be different in the plan of a turn (`revise`).
 */
export type Compose = {
  draft: IDraft;
  /** What was being written before: it is there again once this is sent. */
  kept: Compose | null;
} & ({ kind: 'new' } | { kind: 'edit' | 'revise'; turn: string });

/** Cells of a notebook that a message is about, whatever the person looks at. */
export interface IAbout {
  /** The notebook's path. */
  notebook: string;
  /** The cells' ids; the first is the one in question. */
  cells: readonly string[];
}

/** What holds for a message whatever it says. */
export interface IOptions {
  mode: Mode;
  /** The model that answers; empty for the server's usual one. */
  model: string;
}

export const BLANK: IDraft = {
  text: '',
  attached: [],
  withoutNotebook: false,
  withoutCell: false
};

export const NOTHING: Compose = { kind: 'new', draft: BLANK, kept: null };

/** How many attachments the server takes with one message. */
export const MAX_ATTACHED = 20;
/** How many selected cells the server takes. */
const MAX_SELECTED = 100;

/** Whether something goes with a message about this notebook: a cell has to be one of its own. */
export function goesWith({ attachment, notebook }: IAttached, about: string | undefined): boolean {
  return attachment.kind !== 'cell' || (about !== undefined && (notebook ?? about) === about);
}

/** Whether nothing was written or attached. */
export function isBlank({ draft: { text, attached }, kept }: Compose): boolean {
  return text.trim() === '' && attached.length === 0 && kept === null;
}

/** A new message with the same draft. */
export function asNew({ draft, kept }: Compose): Compose {
  return { kind: 'new', draft, kept };
}

/** What is written as far as its turn still takes it: it may be replaced or settled by now. */
export function settled(compose: Compose, turns: readonly ITurn[]): Compose {
  if (compose.kind === 'new') {
    return compose;
  }
  const turn = turns.find(each => each.id === compose.turn);
  const isOpen = compose.kind === 'edit' ? turn?.replaced === false : turn?.plans === true;
  return isOpen ? compose : asNew(compose);
}

/** Both as one: what was written first, and what was written after it. */
export function joined(first: Compose, second: Compose): Compose {
  if (isBlank(second)) {
    return first;
  }
  const { draft } = second;
  const both = {
    ...draft,
    text: [first.draft.text, draft.text].filter(text => text.trim() !== '').join('\n\n'),
    attached: [...first.draft.attached, ...draft.attached].slice(0, MAX_ATTACHED)
  };
  return { ...(second.kind === 'new' ? first : second), draft: both, kept: second.kept };
}

/** All that was written, also before what is written now. */
export function writtenIn({ draft, kept }: Compose): string {
  const before = kept === null ? '' : writtenIn(kept);
  return before.trim() === '' ? draft.text : `${draft.text}\n\n${before}`;
}

/** The draft of a message that was sent, with what went with it. */
export function draftOf(
  turn: { text: string; attachments: readonly string[] },
  sent: IMessage | null
): IDraft {
  const attached = (sent?.attachments ?? []).map((attachment, place) => ({
    label: turn.attachments[place] ?? '',
    attachment,
    ...(sent?.notebook === undefined ? {} : { notebook: sent.notebook })
  }));
  return { ...BLANK, text: turn.text, attached };
}

/** A message about cells that are named, bound to nothing else. */
export function messageAbout(text: string, about: IAbout, { mode, model }: IOptions): IMessage {
  const [first] = about.cells;
  return {
    message: text,
    mode,
    ...(model === '' ? {} : { model }),
    notebook: about.notebook,
    ...(first === undefined ? {} : { active_cell: first }),
    ...(about.cells.length > 1 ? { selected_cells: about.cells.slice(0, MAX_SELECTED) } : {})
  };
}

/** The draft bound to what the person looks at in this moment: a message. */
export function messageOf(
  draft: IDraft,
  seen: ISeen | null,
  options: IOptions & { activeCell: boolean }
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
