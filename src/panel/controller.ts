import { UUID } from '@lumino/coreutils';
import { type ISignal, Signal } from '@lumino/signaling';

import type { IMessage } from '../api/client';
import type { Mode } from '../api/events';
import type { ChatModel } from '../chat/model';
import {
  draftOf,
  type IAppState,
  type IPanelState,
  modelOf,
  modeOf,
  withDraft,
  withMovedDraft,
  without
} from '../state/app';
import { type ITurn, isUnsent, waits } from '../state/chat';
import {
  attach,
  BLANK,
  draftOfTurn,
  type Found,
  type IAbout,
  type IDraft,
  type IOptions,
  type IResend,
  joined,
  messageAbout,
  messageAgain,
  messageOf,
  settled
} from '../state/compose';
import type { IPanelServices } from './panelServices';

/** The initial state of a panel. */
const FIRST: IPanelState = {
  chat: '',
  draft: '',
  mode: null,
  model: null,
  options: {},
  refused: [],
  showsHistory: false,
  opened: false,
  generation: 0
};

/** The key of the panel in the sidebar. Drafts of other panels go there when they are closed. */
export const SIDEBAR = 'sidebar';

/** The actions of one panel: updates its state in the store, with the message that is being written. */
export class PanelController {
  /**
   * @param key - The panel's key in the store. It is also the name of the draft of its new chat.
   * @param id - The chat's id; null for a new chat.
   */
  constructor(
    private readonly _services: Pick<IPanelServices, 'chats' | 'notebook' | 'store'>,
    readonly key: string,
    id: string | null
  ) {
    this._chat = _services.chats.open(id);
    this._set({ ...FIRST, chat: this._chat.key, draft: this._nameOf(this._chat) });
    _services.chats.decided.connect(this._onDecided);
    this._unsubscribe = _services.store.subscribe(() => this._onState());
  }

  get chat(): ChatModel {
    return this._chat;
  }

  /** The panel's state. */
  get state(): IPanelState {
    return this._services.store.state.panels[this.key] ?? FIRST;
  }

  /** The message that is being written; a new one if its turn cannot be edited any more. */
  get draft(): IDraft {
    return settled(draftOf(this._services.store.state, this.state), this._chat.state.turns);
  }

  get showsHistory(): boolean {
    return this.state.showsHistory;
  }

  /** Set the mode, the model, or the agent's settings for the next messages. */
  choose(choice: { mode?: Mode; model?: string; options?: Record<string, string> }): void {
    this._set({ ...choice, options: { ...this.state.options, ...choice.options } });
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
    this._rewrite({ id }, () => BLANK);
  }

  /** Dispose the panel's state. */
  dispose(): void {
    const { chats } = this._services;
    this._disposed = true;
    chats.close(this._chat);
    chats.decided.disconnect(this._onDecided);
    this._unsubscribe();
    this._update(state => ({
      ...withMovedDraft(state, this.key, SIDEBAR),
      panels: without(state.panels, this.key)
    }));
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
    this._write({ ...this.draft, id: null, ...some }, focus);
  }

  private _write(draft: IDraft, focus = false): void {
    this._rewrite(this._chat, () => draft);
    if (focus) {
      this._wantsFocus.emit();
    }
  }

  /** Send the message, or the changes to a plan, once its attachments are read. */
  async submit(): Promise<void> {
    const chat = this._chat;
    const isRead =
      this._readings.size === 0 || !(await Promise.all(this._readings)).includes(false);
    const { draft } = this;
    if (!isRead || chat !== this._chat || draft.text.trim() === '') {
      return;
    }
    const { instead } = draft;
    if (instead?.kind === 'revise') {
      const model = this._options.model || undefined;
      const answer = { answer: 'reject', words: draft.text, model } as const;
      const left = { ...draft, text: '', instead: null };
      await this._sendDraft(draft, left, () => chat.answerPlan(instead.turn, answer));
    } else {
      const sent = { ...draft, id: draft.id ?? UUID.uuid4() };
      const message = { ...this._messageOf(sent), id: sent.id, replaces: instead?.turn };
      await this._sendDraft(sent, BLANK, () => chat.send(message));
    }
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
          : messageAbout(text, this._services.notebook.named(about), this._options);
      await this._send(() => this._chat.send(message));
    }
  }

  /**
   * Put a text into the message box, above what is there.
   *
   * @param text - The text.
   * @param about - Cells to attach. Default: the current notebook and cell.
   */
  write(text: string, about: IAbout | null = null): void {
    const found = about === null ? [] : this._services.notebook.attachableOf(about);
    const { draft } = attach({ ...BLANK, text, withoutCell: found.length > 0 }, found);
    this._write(joined(draft, this.draft), true);
  }

  /** Keep the note of a request that ended while it was written: it comes below the draft. */
  keepNote(text: string): void {
    if (text.trim() !== '') {
      this._rewrite(this._chat, now => joined(now, { ...BLANK, text }));
    }
  }

  /**
   * Put the message of a turn into the message box, above what is there. Sending it replaces the turn
   * and all after it. A queued message is withdrawn instead.
   */
  edit(turn: ITurn): void {
    const { draft } = this;
    // What the message of another edit said is still in the transcript.
    const edited = this._chat.state.turns.find(({ id }) => id === draft.instead?.turn);
    const left = draft.text === edited?.text ? null : draft;
    const sent = this._chat.sent(turn.id);
    const isNew = waits(turn) || isUnsent(turn);
    if (waits(turn)) {
      void this._chat.stop(turn.id);
    }
    const lost = sent === null ? turn.attachments : [];
    this._set({ refused: lost.map(name => ({ name, why: 'lost' })) });
    const about = isNew ? null : ({ kind: 'edit', turn: turn.id } as const);
    this._write({ ...joined(draftOfTurn(turn, sent), left), instead: about }, true);
  }

  /** Make the draft a new message. */
  composeNew(): void {
    this.change({ instead: null }, true);
  }

  /** Make the draft an answer with changes to a turn's plan. */
  revise(turn: ITurn): void {
    this.change({ instead: { kind: 'revise', turn: turn.id } }, true);
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
    const message = messageAgain(turn, sent, change, this._options);
    this._wantsFocus.emit();
    await this._send(() => this._chat.send(message));
  }

  /** The options of the next message. */
  private get _options(): IOptions {
    const { state } = this._services.store;
    const { options } = this.state;
    return {
      mode: modeOf(state, this.state),
      model: modelOf(state, this.state),
      options: Object.keys(options).length > 0 ? options : undefined
    };
  }

  /** Return the message of a draft with the present notebook and cell. */
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
        draft: this._nameOf(this._chat),
        refused: [],
        // Mode and model were chosen for the other chat.
        mode: null,
        model: null,
        options: {}
      });
      this._services.chats.close(before);
      this._shown.emit(id);
    }
  }

  /**
   * Attach things once they are read, for which sending waits, and show why others were not attached.
   */
  attach(found: readonly (Found | Promise<Found>)[]): void {
    const chat = this._chat;
    this._set({ refused: [] });
    this._wantsFocus.emit();
    const reading = Promise.all(found.map(each => Promise.resolve(each))).then(all => {
      this._readings.delete(reading);
      let refused: IPanelState['refused'] = [];
      this._rewrite(chat, before => {
        const { draft, ...rest } = attach(before, all);
        ({ refused } = rest);
        return draft;
      });
      this._set({ refused: [...this.state.refused, ...refused] });
      return refused.length === 0;
    });
    this._readings.add(reading);
  }

  /** Dismiss the notice about files that were not attached. */
  dismissRefused(): void {
    this._set({ refused: [] });
    this._wantsFocus.emit();
  }

  /** Send a draft, and restore it if the server did not accept it. */
  private async _sendDraft(
    sent: IDraft,
    left: IDraft,
    send: () => Promise<boolean>
  ): Promise<void> {
    const chat = this._chat;
    this._set({ refused: [] });
    this._write(left);
    if (!(await this._send(send))) {
      // The person may have typed more, or opened another chat.
      this._rewrite(chat, now => (now === left ? sent : joined(sent, now)));
    }
  }

  /** Change the message that is being written in a chat, which the panel may not show any more. */
  private _rewrite(chat: Pick<ChatModel, 'id'>, change: (draft: IDraft) => IDraft): void {
    const draft = this._nameOf(chat);
    this._update(state => withDraft(state, draft, change(draftOf(state, { draft }))));
  }

  /** Return the name of the draft in a chat. A closed panel leaves that of a new chat to the sidebar. */
  private _nameOf({ id }: Pick<ChatModel, 'id'>): string {
    return id ?? (this._disposed ? SIDEBAR : this.key);
  }

  /** Take over the draft of the new chat of another panel. */
  takeOver(other: PanelController): void {
    this._update(state => withMovedDraft(state, other.key, this.key));
  }

  /** Send something in the current chat. Return whether the server accepted it. */
  private async _send(send: () => Promise<boolean>): Promise<boolean> {
    const { chat } = this;
    this.showHistory(false);
    const taken = await send();
    const { id } = chat;
    if (taken && id !== null && this._chat === chat && this.state.draft === this.key) {
      // The present draft belongs to the chat, which has an id now.
      this._update(state => ({
        ...withMovedDraft(state, this.key, id),
        panels: { ...state.panels, [this.key]: { ...this.state, draft: id } }
      }));
      this._shown.emit(id);
    }
    return taken;
  }

  private _update(change: (state: IAppState) => IAppState): void {
    this._services.store.update(change);
  }

  private _set(some: Partial<IPanelState>): void {
    if (!this._disposed) {
      const { key } = this;
      this._update(state => ({
        ...state,
        panels: { ...state.panels, [key]: { ...(state.panels[key] ?? FIRST), ...some } }
      }));
    }
  }

  /** Handle changes that were kept or undone in any view. */
  private readonly _onDecided = (): void => this._chat.recheck();

  /** Drop the draft of a message that has arrived after all. Replace a chat that was deleted. */
  private _onState(): void {
    const { id } = draftOf(this._services.store.state, this.state);
    if (id !== null && this._chat.state.turns.some(({ message }) => message === id)) {
      // First: each update comes here again.
      this._write(BLANK);
      this._chat.dismiss();
    }
    if (this._chat.isDisposed && !this._disposed && !this._replacing) {
      this._replacing = true;
      this._set({ opened: false });
      this._show(null);
      this._replacing = false;
    }
  }

  /** Files that are being read: whether all could be attached. */
  private readonly _readings = new Set<Promise<boolean>>();
  private readonly _unsubscribe: () => void;
  private _chat: ChatModel;
  private _replacing = false;
  private _disposed = false;
  private _shown = new Signal<this, string | null>(this);
  private _wantsFocus = new Signal<this, void>(this);
}
