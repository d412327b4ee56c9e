import { type ISignal, Signal } from '@lumino/signaling';

import type { IMessage } from '../api/client';
import type { Mode } from '../api/events';
import type { IDecision, IReviews } from '../changes/reviews';
import type { ChatModel } from '../chat/model';
import { type IPanelState, modelOf, modeOf, without } from '../state/app';
import { type ITurn, isUnsent, waits } from '../state/chat';
import {
  asNew,
  BLANK,
  type Compose,
  draftOf,
  type IAbout,
  type IAttached,
  type IDraft,
  type IOptions,
  isBlank,
  joinDrafts,
  MAX_ATTACHED,
  messageAbout,
  messageOf,
  needsNotebook,
  NOTHING,
  settled
} from '../state/compose';
import { type Found, isRefused } from './attachments';
import type { IPanelServices } from './services';
import type { IResend } from './Turn';

/** The initial state of a panel. */
const FIRST: IPanelState = {
  chat: '',
  compose: NOTHING,
  mode: null,
  model: null,
  refused: [],
  showsHistory: false,
  opened: false,
  generation: 0
};

/** The actions of one panel: updates its state in the store, with the message that is being written. */
export class PanelController {
  /** @param key - The panel's key in the store. */
  constructor(
    private readonly _services: Pick<
      IPanelServices,
      'chats' | 'memory' | 'notebook' | 'reviews' | 'store'
    >,
    readonly key: string,
    id: string | null
  ) {
    this._chat = _services.chats.open(id);
    this._set({ ...FIRST, chat: this._chat.key });
    void _services.memory.restored.then(() => this.restore(id));
    _services.reviews.decided.connect(this._onDecided);
    this._unsubscribe = _services.store.subscribe(() => this._onState());
  }

  /** Restore the chat and draft from before a reload, unless the person has started something. */
  restore(id: string | null): void {
    if (this._begun || this._disposed) {
      return;
    }
    if (id !== null && this._chat.id === null) {
      this._show(id);
    }
    this._set({ compose: this._services.memory.draft(this._chat.id) });
  }

  get chat(): ChatModel {
    return this._chat;
  }

  /** The panel's state. */
  get state(): IPanelState {
    return this._services.store.state.panels[this.key] ?? FIRST;
  }

  /** The message that is being written; a new one if its turn cannot be edited any more. */
  get compose(): Compose {
    return settled(this.state.compose, this._chat.state.turns);
  }

  get draft(): IDraft {
    return this.state.compose.draft;
  }

  get showsHistory(): boolean {
    return this.state.showsHistory;
  }

  /** Set the mode or model of the next messages. */
  choose(choice: { mode?: Mode; model?: string }): void {
    this._set(choice);
  }

  /** Emitted with the id of the chat when the panel shows another one; null for a new chat. */
  get shown(): ISignal<this, string | null> {
    return this._shown;
  }

  /** Emitted when the message box should get the focus. */
  get wantsFocus(): ISignal<this, void> {
    return this._wantsFocus;
  }

  /** Open a chat; a new one for null. */
  open(id: string | null): void {
    this._begun = true;
    this._set({ opened: true });
    this._show(id);
    this.closeHistory();
  }

  /** Show the chat instead of the history. */
  closeHistory(): void {
    this.showHistory(false);
    this._wantsFocus.emit();
  }

  /** Remove the draft of a deleted chat. */
  removed(id: string): void {
    this._services.memory.setDraft(id, NOTHING);
  }

  /** Dispose the panel's state. */
  dispose(): void {
    this._disposed = true;
    this._services.chats.close(this._chat);
    this._services.reviews.decided.disconnect(this._onDecided);
    this._unsubscribe();
    this._services.store.update(state => ({ ...state, panels: without(state.panels, this.key) }));
    Signal.clearData(this);
  }

  showHistory(shows: boolean): void {
    this._set({ showsHistory: shows });
    if (shows) {
      void this._services.chats.refresh();
    }
  }

  /** Change the message that is being written. */
  change(some: Partial<IDraft>, focus = false): void {
    const { compose } = this.state;
    this._write({ ...compose, draft: { ...compose.draft, ...some } }, focus);
  }

  private _write(compose: Compose, focus = false): void {
    this._begun = true;
    this._set({ compose });
    this._services.memory.setDraft(this._chat.id, compose);
    if (focus) {
      this._wantsFocus.emit();
    }
  }

  /** Send the message, or the changes to a plan. */
  async submit(): Promise<void> {
    const { compose } = this;
    const { draft, kept } = compose;
    if (draft.text.trim() === '') {
      return;
    }
    if (compose.kind === 'revise') {
      const { model } = this._options;
      const rejection = { answer: 'reject', words: draft.text } as const;
      const answer = { ...rejection, ...(model === '' ? {} : { model }) };
      const left = { ...asNew(compose), draft: { ...draft, text: '' } };
      await this._sendDraft(left, chat => chat.answerPlan(compose.turn, answer));
      return;
    }
    const message = this._messageOf(draft);
    if (compose.kind === 'edit') {
      message.replaces = compose.turn;
    }
    await this._sendDraft(kept ?? NOTHING, chat => chat.send(message));
  }

  /**
   * Let the agent replace its history of the chat by a summary.
   *
   * @param text - The text of this turn in the chat.
   */
  async compact(text: string): Promise<void> {
    const message = messageOf({ ...BLANK, text }, null, { ...this._options, activeCell: false });
    await this._send(chat => chat.send({ ...message, command: 'compact' }));
  }

  /**
   * Send a text without changing the draft.
   *
   * @param text - The text.
   * @param about - What it is about. Default: the current notebook and cell.
   */
  async ask(text: string, about: IAbout | null = null): Promise<void> {
    if (text.trim() !== '') {
      const message =
        about === null
          ? this._messageOf({ ...BLANK, text })
          : messageAbout(text, about, this._options);
      await this._send(chat => chat.send(message));
    }
  }

  /**
   * Put a text into the message box. The former draft comes back when it is sent.
   *
   * @param text - The text.
   * @param about - Cells to attach. Default: the current notebook and cell.
   */
  write(text: string, about: IAbout | null = null): void {
    const { compose } = this;
    const attached = about === null ? [] : this._services.notebook.attachableOf(about);
    const some = attached.slice(0, MAX_ATTACHED);
    const draft = { ...BLANK, text, attached: some, withoutCell: some.length > 0 };
    this._write({ kind: 'new', draft, kept: isBlank(compose) ? null : compose }, true);
  }

  /** Approve the plan of a turn in a mode, which later messages have, too. */
  async approve(turn: ITurn, mode: Mode): Promise<void> {
    this.choose({ mode });
    this._wantsFocus.emit();
    await this._chat.answerPlan(turn.id, { answer: 'approve', mode });
  }

  /**
   * Put the message of a turn into the message box. Sending it replaces the turn and all after it. A
   * queued message is withdrawn instead.
   */
  edit(turn: ITurn): void {
    const { compose } = this;
    // The draft of another edit is dropped, since its message is still in the transcript.
    const kept = compose.kind === 'edit' || isBlank(compose) ? compose.kept : compose;
    const sent = this._chat.sent(turn.id);
    const draft = draftOf(turn, sent);
    if (waits(turn)) {
      void this._chat.stop(turn.id);
    }
    const lost = sent === null ? turn.attachments : [];
    this._set({ refused: lost.map(name => ({ name, why: 'lost' })) });
    this._write(
      waits(turn) || isUnsent(turn)
        ? { kind: 'new', draft, kept }
        : { kind: 'edit', turn: turn.id, draft, kept },
      true
    );
  }

  /**
   * Restore the chat and its notebooks to before a turn, and put its message into the message box.
   *
   * @returns Whether it was done. While it is done, another request is ignored.
   */
  async restoreTo(turn: ITurn): Promise<boolean> {
    if (this._restoring) {
      return false;
    }
    this._restoring = true;
    const { chat } = this;
    const undone = await chat.restore(turn.id);
    this._restoring = false;
    if (undone === null) {
      return false;
    }
    undone.forEach(each => this._services.reviews.notifyUndone(each.notebook));
    if (this._chat === chat) {
      this.edit(turn);
      this.composeNew();
    }
    return true;
  }

  /** Make the draft a new message. */
  composeNew(): void {
    this._write(asNew(this.compose), true);
  }

  /** Make the draft an answer with changes to a turn's plan. */
  revise(turn: ITurn): void {
    this._write({ ...asNew(this.compose), kind: 'revise', turn: turn.id }, true);
  }

  /**
   * Send the message of a turn again with its attachments, or another text with the same context.
   *
   * Only the page that sent a message has its attachments. Others put it into the message box, and
   * show a notice.
   */
  async resend(turn: ITurn, change: IResend = {}): Promise<void> {
    const sent = this._chat.sent(turn.id);
    if (change.mode !== undefined) {
      this.choose({ mode: change.mode });
    }
    if (sent === null && change.text === undefined && turn.attachments.length > 0) {
      this.edit(turn);
      if (change.again === undefined) {
        this.composeNew();
      }
      return;
    }
    const { model } = this._options;
    const message: IMessage = {
      ...(turn.notebook === null ? {} : { notebook: turn.notebook }),
      ...(sent === null ? cellOf(turn) : boundTo(sent)),
      // A follow-up does not need the attachments again.
      ...(sent?.attachments === undefined || change.text !== undefined
        ? {}
        : { attachments: sent.attachments }),
      message: change.text ?? turn.text,
      mode: change.mode ?? turn.mode,
      ...(model === '' ? {} : { model }),
      ...(change.again === undefined ? {} : { replaces: turn.id }),
      ...(change.again === 'undo' ? { undo_replaced: true } : {})
    };
    this._wantsFocus.emit();
    await this._send(chat => chat.send(message));
  }

  /** The options of the next message. */
  private get _options(): IOptions {
    const { state } = this._services.store;
    return { mode: modeOf(state, this.state), model: modelOf(state, this.state) };
  }

  /** Return a message with the current notebook and cell. */
  private _messageOf(draft: IDraft): IMessage {
    const { notebook, store } = this._services;
    const { activeCell } = store.state.preferences;
    return messageOf(draft, notebook.seen, { ...this._options, activeCell });
  }

  private _show(id: string | null): void {
    if (this._chat.id !== id || id === null) {
      const before = this._chat;
      this._chat = this._services.chats.open(id);
      this._set({
        chat: this._chat.key,
        generation: this.state.generation + 1,
        compose: this._services.memory.draft(id),
        refused: [],
        // Mode and model were chosen for the other chat.
        mode: null,
        model: null
      });
      this._services.chats.close(before);
      this._shown.emit(id);
    }
  }

  /** Attach things to the draft, and show why others were not attached. */
  attach(found: readonly Found[]): void {
    const some = found.filter((each): each is IAttached => !isRefused(each));
    const attached = [...this.draft.attached, ...some];
    const many = attached
      .slice(MAX_ATTACHED)
      .map(each => ({ name: each.label, why: 'many' }) as const);
    this._set({ refused: [...found.filter(isRefused), ...many] });
    const cells = some.some(needsNotebook);
    this.change(
      {
        attached: attached.slice(0, MAX_ATTACHED),
        // A cell needs its notebook.
        ...(cells ? { withoutNotebook: false } : {})
      },
      some.length > 0
    );
  }

  /** Dismiss the notice about files that were not attached. */
  dismissRefused(): void {
    this._set({ refused: [] });
    this._wantsFocus.emit();
  }

  /** Send the draft, and restore it if the server did not accept it. */
  private async _sendDraft(
    left: Compose,
    send: (chat: ChatModel) => Promise<boolean>
  ): Promise<void> {
    const { compose, chat } = this;
    this._set({ refused: [] });
    this._write(left);
    if (await this._send(send)) {
      return;
    }
    const { memory } = this._services;
    // Meanwhile the person may have typed more, or opened another chat.
    const now = this._chat.id === chat.id ? this.state.compose : memory.draft(chat.id);
    const back = now === left ? compose : joinDrafts(compose, now);
    if (this._chat.id === chat.id) {
      this._write(back);
    } else {
      memory.setDraft(chat.id, back);
    }
  }

  /** Send something in the current chat. Return whether the server accepted it. */
  private async _send(send: (chat: ChatModel) => Promise<boolean>): Promise<boolean> {
    const { chat } = this;
    this._begun = true;
    this.showHistory(false);
    const isNew = chat.id === null;
    const taken = await send(chat);
    if (taken && isNew && this._chat === chat) {
      // The present draft belongs to the chat, which has an id now.
      this._services.memory.setDraft(null, NOTHING);
      this._services.memory.setDraft(chat.id, this.state.compose);
      this._shown.emit(chat.id);
    }
    return taken;
  }

  private _set(some: Partial<IPanelState>): void {
    if (!this._disposed) {
      const { key } = this;
      this._services.store.update(state => ({
        ...state,
        panels: { ...state.panels, [key]: { ...(state.panels[key] ?? FIRST), ...some } }
      }));
    }
  }

  /** Read the journal again when changes were undone in any view. */
  private readonly _onDecided = (_: IReviews, { kind }: IDecision): void => {
    if (kind === 'undone') {
      void this._chat.readJournal();
    }
  };

  /** Replace a chat that was deleted in any view by a new one. */
  private _onState(): void {
    if (this._chat.isDisposed && !this._disposed && !this._replacing) {
      this._replacing = true;
      this._set({ opened: false });
      this._show(null);
      this._replacing = false;
    }
  }

  private readonly _unsubscribe: () => void;
  private _chat: ChatModel;
  private _begun = false;
  private _replacing = false;
  private _restoring = false;
  private _disposed = false;
  private _shown = new Signal<this, string | null>(this);
  private _wantsFocus = new Signal<this, void>(this);
}

/** Return the cell of a message that was sent before a reload. */
function cellOf({ notebook, activeCell }: ITurn): Partial<IMessage> {
  return notebook === null || activeCell === null ? {} : { active_cell: activeCell };
}

/** Return the notebook and cells of a message. */
function boundTo({ notebook, active_cell, selected_cells }: IMessage): Partial<IMessage> {
  return {
    ...(notebook === undefined ? {} : { notebook }),
    ...(active_cell === undefined ? {} : { active_cell }),
    ...(selected_cells === undefined ? {} : { selected_cells })
  };
}
