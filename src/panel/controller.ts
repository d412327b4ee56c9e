import { type ISignal, Signal } from '@lumino/signaling';

import type { IMessage } from '../api/client';
import type { Mode } from '../api/events';
import type { IDecision, IReviews } from '../changes/reviews';
import type { ChatModel } from '../chat/model';
import { type IPanelState, modelOf, modeOf, without } from '../state/app';
import { type ITurn, isUnsent, waits } from '../state/chat';
import {
  asNew,
  attach,
  BLANK,
  type Compose,
  draftOf,
  hasArrived,
  type Found,
  type IAbout,
  type IDraft,
  type IOptions,
  type IResend,
  isBlank,
  joinDrafts,
  messageAbout,
  messageAgain,
  messageOf,
  NOTHING,
  sendable,
  settled,
  unbound,
  whereRead,
  withNote
} from '../state/compose';
import type { IPanelServices } from './services';

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
  /**
   * @param key - The panel's key in the store.
   * @param place - The name of the draft of a new chat, which belongs to the panel.
   */
  constructor(
    private readonly _services: Pick<
      IPanelServices,
      'chats' | 'memory' | 'notebook' | 'reviews' | 'store'
    >,
    readonly key: string,
    id: string | null,
    readonly place = ''
  ) {
    this._chat = _services.chats.open(id);
    this._set({ ...FIRST, chat: this._chat.key });
    void _services.memory.restored.then(() => this.restore(id));
    _services.memory.changed.connect(this._onDraft);
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
    this._onDraft();
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
    const { chats, memory, reviews } = this._services;
    this._disposed = true;
    chats.close(this._chat);
    memory.changed.disconnect(this._onDraft);
    reviews.decided.disconnect(this._onDecided);
    memory.moveDraft(this.place, '');
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
    this._services.memory.setDraft(this._nameOf(this._chat), compose);
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
      const model = this._options.model || undefined;
      const answer = { answer: 'reject', words: draft.text, model } as const;
      const left = { ...asNew(compose), draft: { ...draft, text: '' } };
      await this._sendDraft(left, chat => chat.answerPlan(compose.turn, answer));
      return;
    }
    const message = sendable(compose, this._toMessage());
    await this._sendDraft(kept ?? NOTHING, chat => chat.send(message));
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
          ? unbound(this._toMessage()({ ...BLANK, text }))
          : messageAbout(text, this._services.notebook.named(about), this._options);
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
    const found = about === null ? [] : this._services.notebook.attachableOf(about);
    const { draft } = attach({ ...BLANK, text, withoutCell: found.length > 0 }, found);
    this._write({ kind: 'new', draft, kept: isBlank(compose) ? null : compose }, true);
  }

  /**
   * Keep the note of a request that ended while it was written.
   *
   * @param chat - The chat of the request.
   * @param isWriting - Whether the person goes on in the message box. Otherwise the note comes after
   *   what they write there.
   */
  keepNote(chat: Pick<ChatModel, 'id'>, text: string, isWriting: boolean): void {
    this._rewrite(chat, now => withNote(now, text, isWriting));
  }

  /**
   * Put the message of a turn into the message box. Sending it replaces the turn and all after it. A
   * queued message is withdrawn instead.
   */
  edit(turn: ITurn): void {
    const { compose } = this.state;
    // What the message of another edit said is still in the transcript.
    const edited =
      compose.kind === 'edit' && this._chat.state.turns.find(({ id }) => id === compose.turn);
    const isKnown = edited && JSON.stringify(this._said(edited)) === JSON.stringify(compose.draft);
    const kept = isKnown || isBlank(compose) ? compose.kept : compose;
    const sent = this._chat.sent(turn.id);
    const draft = this._said(turn);
    if (waits(turn)) {
      void this._chat.stop(turn.id);
    }
    const lost = sent === null ? turn.attachments : [];
    this._set({ refused: lost.map(name => ({ name, why: 'lost' })) });
    const edit: Compose = { kind: 'edit', turn: turn.id, draft, kept };
    this._write(waits(turn) || isUnsent(turn) ? asNew(edit) : edit, true);
  }

  /** Return the draft of the message of a turn. */
  private _said(turn: ITurn): IDraft {
    return draftOf(turn, this._chat.sent(turn.id));
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
    const message = messageAgain(turn, sent, change, this._options.model);
    this._wantsFocus.emit();
    await this._send(chat => chat.send(message));
  }

  /** The options of the next message. */
  private get _options(): IOptions {
    const { state } = this._services.store;
    return { mode: modeOf(state, this.state), model: modelOf(state, this.state) };
  }

  /** Return what makes messages with the present notebook and cell. */
  private _toMessage(): (draft: IDraft) => IMessage {
    const { notebook, store } = this._services;
    const { seen } = notebook;
    const { activeCell } = store.state.preferences;
    const options = { ...this._options, activeCell };
    return draft => messageOf(draft, seen, options);
  }

  private _show(id: string | null): void {
    if (this._chat.id !== id || id === null) {
      const before = this._chat;
      this._chat = this._services.chats.open(id);
      this._set({
        chat: this._chat.key,
        generation: this.state.generation + 1,
        compose: this._services.memory.draft(this._nameOf(this._chat)),
        refused: [],
        // Mode and model were chosen for the other chat.
        mode: null,
        model: null
      });
      this._services.chats.close(before);
      this._shown.emit(id);
      this._finishAttaching();
    }
  }

  /**
   * Attach things once they are read, for which sending waits, and show why others were not attached.
   */
  attach(found: readonly (Found | Promise<Found>)[]): void {
    this._set({ refused: [] });
    const reading = Promise.all(found.map(each => Promise.resolve(each)));
    this.change({ attaching: [...this.draft.attaching, reading] }, true);
    this._finishAttaching();
  }

  /** Attach what is being read for the present draft, which may be a former one by then. */
  private _finishAttaching(): void {
    const { chat } = this;
    for (const reading of this.draft.attaching) {
      void reading.then(found =>
        this._rewrite(chat, compose =>
          whereRead(compose, reading, before => {
            const { draft, refused } = attach(before, found);
            this._set({ refused: [...this.state.refused, ...refused] });
            return draft;
          })
        )
      );
    }
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
    // Meanwhile the person may have typed more, or opened another chat.
    this._rewrite(chat, now => (now === left ? compose : joinDrafts(compose, now)));
    this._finishAttaching();
  }

  /** Change the message that is being written in a chat, which the panel may not show any more. */
  private _rewrite(chat: Pick<ChatModel, 'id'>, change: (compose: Compose) => Compose): void {
    const { memory } = this._services;
    const name = this._nameOf(chat);
    const isShown = name === this._nameOf(this._chat) && !this._disposed;
    memory.setDraft(name, change(isShown ? this.state.compose : memory.draft(name)));
  }

  /** Return the name of the draft in a chat. A closed panel leaves that of a new chat to the sidebar. */
  private _nameOf({ id }: Pick<ChatModel, 'id'>): string {
    return id ?? (this._disposed ? '' : this.place);
  }

  /** Take over the draft of the new chat of another panel. */
  takeOver(other: PanelController): void {
    this._begun = true;
    this._services.memory.moveDraft(other.place, this.place);
    this._finishAttaching();
  }

  /** Send something in the current chat. Return whether the server accepted it. */
  private async _send(send: (chat: ChatModel) => Promise<boolean>): Promise<boolean> {
    const { chat } = this;
    this._begun = true;
    this.showHistory(false);
    const isNew = chat.id === null;
    const taken = await send(chat);
    if (taken && isNew && this._chat === chat && !this._disposed) {
      const { memory } = this._services;
      const { compose } = this.state;
      // The present draft belongs to the chat, which has an id now; another one may be at this place.
      if (memory.draft(this.place) === compose) {
        memory.setDraft(this.place, NOTHING);
        this._write(compose);
      }
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

  /** Show what was written in any panel with this chat. */
  private readonly _onDraft = (_?: unknown, name = this._nameOf(this._chat)): void => {
    if (name === this._nameOf(this._chat)) {
      this._set({ compose: this._services.memory.draft(name) });
    }
  };

  /** Read the journal again when changes were undone in any view. */
  private readonly _onDecided = (_: IReviews, { kind }: IDecision): void => {
    if (kind === 'undone') {
      void this._chat.readJournal();
    }
  };

  /** Drop the draft of a message that has arrived after all. Replace a chat that was deleted. */
  private _onState(): void {
    const { compose } = this.state;
    if (hasArrived(compose, this._chat.state.turns)) {
      // First: each update comes here again.
      this._write(compose.kept ?? NOTHING);
      this._chat.dismiss();
    }
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
  private _disposed = false;
  private _shown = new Signal<this, string | null>(this);
  private _wantsFocus = new Signal<this, void>(this);
}
