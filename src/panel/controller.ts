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
  joined,
  MAX_ATTACHED,
  messageAbout,
  messageOf,
  NOTHING,
  settled
} from '../state/draft';
import { type Found, isRefused } from './attaching';
import type { IPanelServices } from './services';

/** A panel that shows nothing yet. */
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

/** What a person does in one panel: its state in the store, and the message that is being written. */
export class PanelController {
  /** @param key - names the panel in the store. */
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

  /** Shows the chat of before a reload with its draft, where nothing was begun since. */
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

  /** What is shown. */
  get state(): IPanelState {
    return this._services.store.state.panels[this.key] ?? FIRST;
  }

  /** What is being written, as far as its turn still takes it. */
  get compose(): Compose {
    return settled(this.state.compose, this._chat.state.turns);
  }

  get draft(): IDraft {
    return this.state.compose.draft;
  }

  get showsHistory(): boolean {
    return this.state.showsHistory;
  }

  /** Takes the person's choice for the messages to come. */
  choose(choice: { mode?: Mode; model?: string }): void {
    this._set(choice);
  }

  /** Emitted with the id of the chat that is shown, when it is another one: null for a new chat. */
  get shown(): ISignal<this, string | null> {
    return this._shown;
  }

  /** Emitted when the person is to write on. */
  get wantsFocus(): ISignal<this, void> {
    return this._wantsFocus;
  }

  /** Shows a chat; a new one for null. */
  open(id: string | null): void {
    this._begun = true;
    this._set({ opened: true });
    this._show(id);
    this.closeHistory();
  }

  /** Shows the chat in the place of the list, with what was being written. */
  closeHistory(): void {
    this.showHistory(false);
    this._wantsFocus.emit();
  }

  /** A chat was deleted, and with it what was written there. */
  removed(id: string): void {
    this._services.memory.setDraft(id, NOTHING);
  }

  /** The panel is gone. */
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

  /** Changes the message that is being written. */
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

  /** Sends what is written: a message, or what is to be different in a plan. */
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
   * Sends a text beside what is being written, which stays as it is.
   *
   * @param text - The text.
   * @param about - What it is about; without, what the person looks at now.
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
   * Puts a text into the box; what was being written there comes back when it is sent.
   *
   * @param text - The text.
   * @param about - Cells that go with it; without, what the person looks at.
   */
  write(text: string, about: IAbout | null = null): void {
    const { compose } = this;
    const attached = about === null ? [] : this._services.notebook.attachableOf(about);
    const some = attached.slice(0, MAX_ATTACHED);
    const draft = { ...BLANK, text, attached: some, withoutCell: some.length > 0 };
    this._write({ kind: 'new', draft, kept: isBlank(compose) ? null : compose }, true);
  }

  /** Has a turn's plan carried out; the messages after it are in that mode, too. */
  async approve(turn: ITurn, mode: Mode): Promise<void> {
    this.choose({ mode });
    this._wantsFocus.emit();
    await this._chat.answerPlan(turn.id, { answer: 'approve', mode });
  }

  /**
   * Puts a turn's message back into the box: what is sent then takes its place, and Claude goes on
   * from before it. One that waits is only taken back.
   */
  edit(turn: ITurn): void {
    const { compose } = this;
    // What another message was to become stands in that one still.
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

  /** Lets what is written be a message after all others. */
  composeNew(): void {
    this._write(asNew(this.compose), true);
  }

  /** Lets the person say what is to be different in a turn's plan. */
  revise(turn: ITurn): void {
    this._write({ ...asNew(this.compose), kind: 'revise', turn: turn.id }, true);
  }

  /**
   * Sends a turn's message again with all that went with it, or another text about the same.
   *
   * What was attached is known to the page alone that it was sent from: elsewhere the message goes back
   * into the box, and it is rejection.
   */
  async resend(turn: ITurn, change: { text?: string; mode?: Mode } = {}): Promise<void> {
    const sent = this._chat.sent(turn.id);
    if (change.mode !== undefined) {
      this.choose({ mode: change.mode });
    }
    if (sent === null && change.text === undefined && turn.attachments.length > 0) {
      this.edit(turn);
      this.composeNew();
      return;
    }
    const { model } = this._options;
    const message: IMessage = {
      ...(turn.notebook === null ? {} : { notebook: turn.notebook }),
      ...(sent === null ? cellOf(turn) : boundTo(sent)),
      // Who goes on knows what was attached.
      ...(sent?.attachments === undefined || change.text !== undefined
        ? {}
        : { attachments: sent.attachments }),
      message: change.text ?? turn.text,
      mode: change.mode ?? turn.mode,
      ...(model === '' ? {} : { model })
    };
    this._wantsFocus.emit();
    await this._send(chat => chat.send(message));
  }

  /** What holds for the next message whatever it says. */
  private get _options(): IOptions {
    const { state } = this._services.store;
    return { mode: modeOf(state, this.state), model: modelOf(state, this.state) };
  }

  /** A message about what the person looks at in this moment. */
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
        // They were chosen for the other chat.
        mode: null,
        model: null
      });
      this._services.chats.close(before);
      this._shown.emit(id);
    }
  }

  /** Puts things to the message that is being written; says of the others why they are not. */
  attach(found: readonly Found[]): void {
    const some = found.filter((each): each is IAttached => !isRefused(each));
    const attached = [...this.draft.attached, ...some];
    const many = attached
      .slice(MAX_ATTACHED)
      .map(each => ({ name: each.label, why: 'many' }) as const);
    this._set({ refused: [...found.filter(isRefused), ...many] });
    const cells = some.some(each => each.attachment.kind === 'cell');
    this.change(
      {
        attached: attached.slice(0, MAX_ATTACHED),
        // A cell goes with its notebook.
        ...(cells ? { withoutNotebook: false } : {})
      },
      some.length > 0
    );
  }

  /** The person has read what does not go with the message. */
  dismissRefused(): void {
    this._set({ refused: [] });
    this._wantsFocus.emit();
  }

  /** Sends what is written; it is there again where the server did not take it. */
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
    // Meanwhile they may have written on, or have gone to another chat.
    const now = this._chat.id === chat.id ? this.state.compose : memory.draft(chat.id);
    const back = now === left ? compose : joined(compose, now);
    if (this._chat.id === chat.id) {
      this._write(back);
    } else {
      memory.setDraft(chat.id, back);
    }
  }

  /** Sends something in the chat that is shown; whether the server took it. */
  private async _send(send: (chat: ChatModel) => Promise<boolean>): Promise<boolean> {
    const { chat } = this;
    this._begun = true;
    this.showHistory(false);
    const isNew = chat.id === null;
    const taken = await send(chat);
    if (taken && isNew && this._chat === chat) {
      // What was written since belongs to the chat that there is now.
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

  /** Something was taken back, wherever in the page: what of this chat's changes stands now? */
  private readonly _onDecided = (_: IReviews, { kind }: IDecision): void => {
    if (kind === 'taken back') {
      void this._chat.readJournal();
    }
  };

  /** Where the chat that is shown was deleted, wherever in the page, a new one takes its place. */
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
  private _disposed = false;
  private _shown = new Signal<this, string | null>(this);
  private _wantsFocus = new Signal<this, void>(this);
}

/** The cell that a message of before a reload was bound to. */
function cellOf({ notebook, activeCell }: ITurn): Partial<IMessage> {
  return notebook === null || activeCell === null ? {} : { active_cell: activeCell };
}

/** What a message was bound to. */
function boundTo({ notebook, active_cell, selected_cells }: IMessage): Partial<IMessage> {
  return {
    ...(notebook === undefined ? {} : { notebook }),
    ...(active_cell === undefined ? {} : { active_cell }),
    ...(selected_cells === undefined ? {} : { selected_cells })
  };
}
