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
  why: 'gone' | 'lost' | 'many' | 'no image' | 'large';
}

export type Found = IAttached | IRefused;

export function isRefused(found: Found): found is IRefused {
  return 'why' in found;
}

/** A message that is being written. */
export interface IDraft {
  text: string;
  attached: readonly IAttached[];
  /** Whether the person has removed the chip of the current notebook or cell. */
  withoutNotebook: boolean;
  withoutCell: boolean;
  /** The turn of the message that it replaces, or of the plan that it changes; null for a new message. */
  instead: { kind: 'edit' | 'revise'; turn: string } | null;
  /**
   * The id of its message, from the first time it was sent until it is changed; null if it was not sent.
   * Sent again under the same id, it begins no second turn.
   */
  id: string | null;
}

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
  /** Values of the agent's settings, by id. */
  options?: IMessage['options'];
}

export const BLANK: IDraft = {
  text: '',
  attached: [],
  withoutNotebook: false,
  withoutCell: false,
  instead: null,
  id: null
};

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
export function isBlank({ text, attached }: IDraft): boolean {
  return text.trim() === '' && attached.length === 0;
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
      id: null,
      // A cell needs its notebook.
      withoutNotebook: draft.withoutNotebook && !some.some(needsNotebook)
    },
    refused: [...found.filter(isRefused), ...many]
  };
}

/** Return the draft, as a new message if its turn was replaced or its plan was answered. */
export function settled(draft: IDraft, turns: readonly ITurn[]): IDraft {
  const { instead } = draft;
  if (instead === null) {
    return draft;
  }
  const turn = turns.find(each => each.id === instead.turn);
  const isOpen = instead.kind === 'edit' ? turn?.replaced === false : turn?.plans === true;
  return isOpen ? draft : { ...draft, instead: null };
}

/** Join two drafts, the first one first. */
export function joined(first: IDraft, second: IDraft | null): IDraft {
  if (second === null || isBlank(second)) {
    return first;
  }
  return {
    ...second,
    text: [first.text, second.text].filter(text => text.trim() !== '').join('\n\n'),
    attached: [...new Set([...first.attached, ...second.attached])].slice(0, MAX_ATTACHED),
    instead: second.instead ?? first.instead,
    id: null
  };
}

/** Return the draft of a sent message, with its attachments. */
export function draftOfTurn(
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
export function messageAbout(
  text: string,
  about: IAbout,
  { mode, model, options }: IOptions
): IMessage {
  const { cells, notebook } = about;
  return {
    message: text,
    mode,
    model: model || undefined,
    options,
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
    options: options.options,
    notebook,
    active_cell: options.activeCell ? here?.cell?.id : undefined,
    selected_cells: here?.selected.length ? here.selected.slice(0, MAX_SELECTED) : undefined,
    attachments: attached.length > 0 ? attachments : undefined
  };
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
  { model, options }: Omit<IOptions, 'mode'>
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
    options,
    replaces: again && turn.id,
    undo_replaced: again === 'undo' || undefined
  };
}
