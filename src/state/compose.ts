import type { IMessage } from '../api/client';
import type { Attachment } from '../api/contextModels';
import type { Mode } from '../api/events';
import type { ITurn } from './chat';

/** A cell as it is shown to a person. */
export interface ICellName {
  id: string;
  index: number;
  /** The first line of its source. */
  line: string;
}

/** The current notebook and cells. */
export interface ISeen {
  /** The notebook's path. */
  notebook: string;
  cell: ICellName | null;
  /** Ids of the selected cells, if more than one is selected. */
  selected: readonly string[];
}

/** An attachment of the next message, with the label of its chip. */
export interface IAttached {
  label: string;
  attachment: Attachment;
  /** The notebook of an attached cell, of its results, or of a variable. */
  notebook?: string;
}

/** A message that is being written. */
export interface IDraft {
  text: string;
  attached: readonly IAttached[];
  /** Whether the person has removed the chip of the current notebook or cell. */
  withoutNotebook: boolean;
  withoutCell: boolean;
}

/**
 * What a person writes: a new message, one that replaces the message of a turn (`edit`), or changes to
 * the plan of a turn (`revise`).
 */
export type Compose = {
  draft: IDraft;
  /** The former draft, which comes back when this one is sent. */
  kept: Compose | null;
} & ({ kind: 'new' } | { kind: 'edit' | 'revise'; turn: string });

/** Cells of a notebook that a message is about. */
export interface IAbout {
  /** The notebook's path. */
  notebook: string;
  /** The cells' ids, the main one first. */
  cells: readonly string[];
}

/** Options of a message. */
export interface IOptions {
  mode: Mode;
  /** The model; empty for the server's default. */
  model: string;
}

export const BLANK: IDraft = {
  text: '',
  attached: [],
  withoutNotebook: false,
  withoutCell: false
};

export const NOTHING: Compose = { kind: 'new', draft: BLANK, kept: null };

/** Maximum length of an attachment's title, which the server checks. */
const MAX_TITLE = 200;

/** Maximum number of attachments of a message. */
export const MAX_ATTACHED = 20;
/** Maximum number of selected cells of a message. */
const MAX_SELECTED = 100;

/** Return whether an attachment belongs to the notebook of the message. */
export function needsNotebook({ attachment }: IAttached): boolean {
  return ('cell' in attachment && attachment.cell != null) || attachment.kind === 'variable';
}

/** Return whether an attachment fits a message about this notebook: a cell must be of the notebook. */
export function goesWith(attached: IAttached, about: string | undefined): boolean {
  return (
    !needsNotebook(attached) || (about !== undefined && (attached.notebook ?? about) === about)
  );
}

/** Return whether nothing was written or attached. */
export function isBlank({ draft: { text, attached }, kept }: Compose): boolean {
  return text.trim() === '' && attached.length === 0 && kept === null;
}

/** Return a new message with the same draft. */
export function asNew({ draft, kept }: Compose): Compose {
  return { kind: 'new', draft, kept };
}

/** Return the message, as a new one if its turn was replaced or its plan was answered. */
export function settled(compose: Compose, turns: readonly ITurn[]): Compose {
  if (compose.kind === 'new') {
    return compose;
  }
  const turn = turns.find(each => each.id === compose.turn);
  const isOpen = compose.kind === 'edit' ? turn?.replaced === false : turn?.plans === true;
  return isOpen ? compose : asNew(compose);
}

/** Join two messages, the first one first. */
export function joinDrafts(first: Compose, second: Compose): Compose {
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

/** Return the text of the draft and of the former ones. */
export function writtenIn({ draft, kept }: Compose): string {
  const before = kept === null ? '' : writtenIn(kept);
  return before.trim() === '' ? draft.text : `${draft.text}\n\n${before}`;
}

/** Return the draft of a sent message, with its attachments. */
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

/** Return a message about these cells only. */
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

/** Return the message of a draft, with the current notebook and cells. */
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
      .map(({ attachment, label: title }) => ({ ...attachment, title: title.slice(0, MAX_TITLE) }));
  }
  return message;
}
