import { UUID } from '@lumino/coreutils';

import type { IMessage } from '../api/client';
import type { Attachment, Mode } from '../api/events';
import type { ITurn } from './chat';

/** A cell as it is shown to a person. */
export interface ICellName {
  /** Its key on the server. */
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
  /** Keys of the selected cells, if more than one is selected. */
  selected: readonly string[];
}

/** An attachment of the next message, with the label of its chip. */
export interface IAttached {
  label: string;
  attachment: Attachment;
  /** The notebook of an attached cell, of its results, or of a variable. */
  notebook?: string | undefined;
}

/** Something that was not attached. */
export interface IRefused {
  name: string;
  why: 'folder' | 'gone' | 'lost' | 'many' | 'no image' | 'no text' | 'large';
}

export type Found = IAttached | IRefused;

export function isRefused(found: Found): found is IRefused {
  return 'why' in found;
}

/** A message to be sent. The same one has the same key, be the cursor elsewhere; default: all of it. */
export type Sendable = IMessage & { key?: string };

/** Files that are being read. */
export type Reading = Promise<readonly Found[]>;

/** A message that is being written. */
export interface IDraft {
  text: string;
  attached: readonly IAttached[];
  /** What will be attached once it is read. */
  attaching: readonly Reading[];
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
  /** The cells' keys, the main one first. */
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
  attaching: [],
  withoutNotebook: false,
  withoutCell: false
};

export const NOTHING: Compose = { kind: 'new', draft: BLANK, kept: null };

/** The ids of messages, and of drafts. A draft that is changed is another one, and so is its message. */
const messageIds = new WeakMap<IDraft | IMessage, string>();

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
export function isBlank({ draft: { text, attached, attaching }, kept }: Compose): boolean {
  return text.trim() === '' && attached.length + attaching.length === 0 && kept === null;
}

/** Attach what was found to a draft. Return what was not attached, too. */
export function attach(
  draft: IDraft,
  found: readonly Found[]
): { draft: IDraft; refused: readonly IRefused[] } {
  const some = found.filter((each): each is IAttached => !isRefused(each));
  const attached = [...draft.attached, ...some];
  const many = attached
    .slice(MAX_ATTACHED)
    .map(({ label }) => ({ name: label, why: 'many' }) as const);
  return {
    draft: {
      ...draft,
      attached: attached.slice(0, MAX_ATTACHED),
      // A cell needs its notebook.
      withoutNotebook: draft.withoutNotebook && !some.some(needsNotebook)
    },
    refused: [...found.filter(isRefused), ...many]
  };
}

/** Change the draft for which something is being read, be it a former one. */
export function whereRead(
  compose: Compose,
  reading: Reading,
  change: (draft: IDraft) => IDraft
): Compose {
  const { draft, kept } = compose;
  const attaching = draft.attaching.filter(each => each !== reading);
  if (attaching.length < draft.attaching.length) {
    const whole = change({ ...draft, attaching });
    messageIds.set(whole, messageId(draft));
    return { ...compose, draft: whole };
  }
  const before = kept && whereRead(kept, reading, change);
  return before === kept ? compose : { ...compose, kept: before };
}

/** Return the id of a draft's message: the same one when it is sent again without a change. */
export function messageId(draft: IDraft | IMessage): string {
  const id = messageIds.get(draft) ?? UUID.uuid4();
  messageIds.set(draft, id);
  return id;
}

/** Return the message of a draft once its attachments are read; null if one could not be attached. */
export async function sendable(
  compose: Compose,
  toMessage: (draft: IDraft) => IMessage
): Promise<Sendable | null> {
  const { draft } = compose;
  const id = messageId(draft);
  const { draft: whole, refused } = attach(draft, (await Promise.all(draft.attaching)).flat());
  return refused.length > 0
    ? null
    : unbound({
        ...toMessage(whole),
        id,
        replaces: compose.kind === 'edit' ? compose.turn : undefined
      });
}

/** Return a message that is the same one when it is sent again with the cursor in another cell. */
export function unbound(message: IMessage): Sendable {
  const all = { ...message, id: '', active_cell: '', selected_cells: [] };
  return { ...message, key: JSON.stringify(all) };
}

/** Return whether a draft was sent, and its message is in the chat. */
export function hasArrived({ draft }: Compose, turns: readonly ITurn[]): boolean {
  return turns.some(({ message }) => message != null && message === messageIds.get(draft));
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
    attached: joined(first.draft.attached, draft.attached).slice(0, MAX_ATTACHED),
    attaching: joined(first.draft.attaching, draft.attaching)
  };
  return { ...(second.kind === 'new' ? first : second), draft: both, kept: second.kept };
}

function joined<T>(first: readonly T[], second: readonly T[]): T[] {
  return [...new Set([...first, ...second])];
}

/** Return the text of the draft and of the former ones. */
export function writtenIn({ draft, kept }: Compose): string {
  const before = kept === null ? '' : writtenIn(kept);
  return before.trim() === '' ? draft.text : `${draft.text}\n\n${before}`;
}

/** Return the draft of a sent message, with its attachments. */
export function draftOf(
  turn: Pick<ITurn, 'text' | 'notebook' | 'attachments'>,
  sent: IMessage | null
): IDraft {
  const found = (sent?.attachments ?? []).map((attachment, place) => ({
    label: turn.attachments[place] ?? '',
    attachment,
    notebook: turn.notebook ?? undefined
  }));
  return attach({ ...BLANK, text: turn.text }, found).draft;
}

/** Return a message about these cells only. */
export function messageAbout(text: string, about: IAbout, { mode, model }: IOptions): IMessage {
  const { cells, notebook } = about;
  return {
    message: text,
    mode,
    model: model || undefined,
    notebook,
    active_cell: cells[0],
    selected_cells: cells.length > 1 ? cells.slice(0, MAX_SELECTED) : undefined
  };
}

/** Return the message of a draft, with the current notebook and cells. */
export function messageOf(
  draft: IDraft,
  seen: ISeen | null,
  options: IOptions & { activeCell: boolean }
): IMessage {
  const { attached, withoutNotebook, withoutCell } = draft;
  const notebook = withoutNotebook ? undefined : seen?.notebook;
  const here = withoutNotebook || withoutCell ? null : seen;
  const attachments = attached
    .filter(each => goesWith(each, notebook))
    .map(({ attachment, label: title }) => ({ ...attachment, title: title.slice(0, MAX_TITLE) }));
  return {
    message: draft.text,
    mode: options.mode,
    model: options.model || undefined,
    notebook,
    active_cell: options.activeCell ? here?.cell?.id : undefined,
    selected_cells: here?.selected.length ? here.selected.slice(0, MAX_SELECTED) : undefined,
    attachments: attached.length > 0 ? attachments : undefined
  };
}

/** Return what is being written with the note of a request before it, or after it. */
export function withNote(now: Compose, text: string, isFirst: boolean): Compose {
  const note: Compose = { ...NOTHING, draft: { ...BLANK, text } };
  return isFirst || isBlank(now)
    ? { ...note, kept: isBlank(now) ? null : now }
    : { ...now, kept: { ...note, kept: now.kept } };
}

/** How a message is sent again. */
export interface IResend {
  text?: string;
  mode?: Mode;
  /** Set to replace the turn: whether its changes are undone. */
  again?: 'keep' | 'undo';
}

/**
 * Return the message of a turn again, or another text about the same.
 *
 * @param sent - The message, if this page has sent it. Only then its attachments are known.
 */
export function messageAgain(
  turn: ITurn,
  sent: IMessage | null,
  { text, mode, again }: IResend,
  model: string
): IMessage {
  return {
    notebook: turn.notebook ?? undefined,
    notebook_of: turn.id,
    active_cell: (sent === null ? turn.activeCell : sent.active_cell) ?? undefined,
    selected_cells: sent?.selected_cells,
    // A follow-up does not need the attachments again.
    attachments: text === undefined ? sent?.attachments : undefined,
    message: text ?? turn.text,
    mode: mode ?? turn.mode,
    model: model || undefined,
    replaces: again && turn.id,
    undo_replaced: again === 'undo' || undefined
  };
}
