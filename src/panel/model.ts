import { type ISignal, Signal } from '@lumino/signaling';

import type { IMessage } from '../api/client';
import type { Mode } from '../api/events';
import type { ChatModel } from '../chat/model';
import { type ITurn, isUnsent, waits } from '../chat/state';
import { type Found, type IRefused, isRefused } from './attaching';
import type { IDesk } from './desk';
import {
  BLANK,
  draftOf,
  type IAbout,
  type IAttached,
  type IDraft,
  type IOptions,
  isBlank,
  joined,
  MAX_ATTACHED,
  messageAbout,
  messageOf
} from './draft';

/** What one panel shows: a chat or the list of chats, and the message that is being written. */
export class PanelModel {
  constructor(
    private readonly _desk: Pick<IDesk, 'chats' | 'memory' | 'preferences' | 'surroundings'>,
    id: string | null
  ) {
    this._chat = _desk.chats.open(id);
    this._draft = BLANK;
    void _desk.memory.restored.then(() => this.restore(id));
  }

  /** Shows the chat of before a reload with its draft, where nothing was begun since. */
  restore(id: string | null): void {
    if (this._begun) {
      return;
    }
    if (id !== null && this._chat.id === null) {
      this._show(id);
    }
    this._draft = this._desk.memory.draft(this._chat.id);
    this._changed.emit();
  }

  get chat(): ChatModel {
    return this._chat;
  }

  get draft(): IDraft {
    return this._draft;
  }

  get showsHistory(): boolean {
    return this._showsHistory;
  }

  /** The permission mode of the next message: that of the last one, where the person chose no other. */
  get mode(): Mode {
    return this._mode ?? this._chat.state.turns.at(-1)?.mode ?? this._desk.preferences.now.mode;
  }

  /** The model that answers the next message; empty for the server's usual one. */
  get answerer(): string {
    const name = this._answerer ?? this._desk.preferences.now.model;
    return this._desk.chats.models?.models.includes(name) === true ? name : '';
  }

  /** Takes the person's choice for the messages to come. */
  choose({ mode, answerer }: { mode?: Mode; answerer?: string }): void {
    this._mode = mode ?? this._mode;
    this._answerer = answerer ?? this._answerer;
    this._changed.emit();
  }

  /** Whether the person opened the chat that is shown: they write on in it. */
  get opened(): boolean {
    return this._opened;
  }

  /** Rises when another chat is shown. */
  get generation(): number {
    return this._generation;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
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
    this._opened = true;
    this._show(id);
    this.closeHistory();
  }

  /** Shows the chat in the place of the list, with what was being written. */
  closeHistory(): void {
    this.showHistory(false);
    this._wantsFocus.emit();
  }

  /** A chat was deleted: where it was the one that is shown, a new one takes its place. */
  removed(id: string): void {
    this._desk.memory.setDraft(id, BLANK);
    if (this._chat.id === id) {
      this._opened = false;
      this._show(null);
      this._changed.emit();
    }
  }

  /** Says whether the panel is in sight. */
  look(seen: boolean): void {
    this._seen = seen;
    this._chat.look(this, seen);
  }

  /** The panel is gone. */
  dispose(): void {
    this.look(false);
    this._desk.chats.close(this._chat);
    Signal.clearData(this);
  }

  showHistory(shows: boolean): void {
    this._showsHistory = shows;
    if (shows) {
      void this._desk.chats.refresh();
    }
    this._changed.emit();
  }

  /** Changes the message that is being written. */
  change(some: Partial<IDraft>, focus = false): void {
    this._begun = true;
    this._draft = { ...this._draft, ...some };
    this._desk.memory.setDraft(this._chat.id, this._draft);
    this._changed.emit();
    if (focus) {
      this._wantsFocus.emit();
    }
  }

  /** Sends what is written: a message, or what is to be different in a plan. */
  async submit(): Promise<void> {
    const { revised, answerer, draft } = this;
    const { text } = draft;
    if (text.trim() === '') {
      return;
    }
    if (revised !== null) {
      const model = answerer === '' ? {} : { model: answerer };
      const answer = { answer: 'reject', words: text, ...model } as const;
      await this._sendDraft({ ...draft, text: '' }, chat => chat.answerPlan(revised, answer));
      return;
    }
    const { preferences, surroundings } = this._desk;
    const { activeCell } = preferences.now;
    const message = messageOf(draft, surroundings.seen, { ...this._options, activeCell });
    if (this.replaced !== null) {
      message.replaces = this.replaced.id;
    }
    await this._sendDraft(draft.kept ?? BLANK, chat => chat.send(message));
  }

  /**
   * Sends a text beside what is being written, which stays as it is.
   *
   * @param text - The text.
   * @param about - What it is about; without, what the person looks at now.
   */
  async ask(text: string, about: IAbout | null = null): Promise<void> {
    if (text.trim() !== '') {
      const { preferences, surroundings } = this._desk;
      const { activeCell } = preferences.now;
      const message =
        about === null
          ? messageOf({ ...BLANK, text }, surroundings.seen, { ...this._options, activeCell })
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
    const { surroundings } = this._desk;
    const kept = isBlank(this._draft) ? null : this._draft;
    const attached = about === null ? [] : surroundings.attachableOf(about);
    this._replaced = null;
    this._revised = null;
    const some = attached.slice(0, MAX_ATTACHED);
    this.change({ ...BLANK, text, attached: some, withoutCell: some.length > 0, kept }, true);
  }

  /** Has a turn's plan carried out; the messages after it are in that mode, too. */
  async approve(turn: ITurn, mode: Mode): Promise<void> {
    this.choose({ mode });
    this._wantsFocus.emit();
    await this._chat.answerPlan(turn.id, { answer: 'approve', mode });
  }

  /** The turn whose plan the message that is being written is about; null for an ordinary one. */
  get revised(): string | null {
    const turn = this._chat.state.turns.find(each => each.id === this._revised);
    // Another message, or another tab, may have settled it.
    return turn?.plans === true ? turn.id : null;
  }

  /** The turn whose place the message that is being written takes; null for none. */
  get replaced(): ITurn | null {
    const turn = this._chat.state.turns.find(each => each.id === this._replaced);
    return turn?.replaced === false ? turn : null;
  }

  /**
   * Puts a turn's message back into the box: what is sent then takes its place, and Claude goes on
   * from before it. One that waits is only taken back.
   */
  edit(turn: ITurn): void {
    // What another message was to become stands in that one still.
    const kept = this.replaced !== null || isBlank(this._draft) ? this._draft.kept : this._draft;
    const sent = this._chat.sent(turn.id);
    this._revised = null;
    this._replaced = waits(turn) || isUnsent(turn) ? null : turn.id;
    if (waits(turn)) {
      void this._chat.stop(turn.id);
    }
    const lost = sent === null ? turn.attachments : [];
    this._refused = lost.map(name => ({ name, why: 'lost' }));
    this.change({ ...draftOf(turn, sent), kept }, true);
  }

  /** Lets the message that is being written be one after all others. */
  editNone(): void {
    this._replaced = null;
    this._changed.emit();
    this._wantsFocus.emit();
  }

  /** Lets the person say what is to be different in a turn's plan; null for an ordinary message. */
  revise(turn: ITurn | null): void {
    this._revised = turn?.id ?? null;
    this._replaced = null;
    this._changed.emit();
    this._wantsFocus.emit();
  }

  /**
   * Sends a turn's message again with all that went with it, or another text about the same.
   *
   * What was attached is known to the page alone that it was sent from: elsewhere the message goes back
   * into the box, and it is said.
   */
  async resend(turn: ITurn, change: { text?: string; mode?: Mode } = {}): Promise<void> {
    const sent = this._chat.sent(turn.id);
    this._mode = change.mode ?? this._mode;
    if (sent === null && change.text === undefined && turn.attachments.length > 0) {
      this.edit(turn);
      this.editNone();
      return;
    }
    const message: IMessage = {
      ...(turn.notebook === null ? {} : { notebook: turn.notebook }),
      ...(sent === null ? cellOf(turn) : boundTo(sent)),
      // Who goes on knows what was attached.
      ...(sent?.attachments === undefined || change.text !== undefined
        ? {}
        : { attachments: sent.attachments }),
      message: change.text ?? turn.text,
      mode: change.mode ?? turn.mode,
      ...(this.answerer === '' ? {} : { model: this.answerer })
    };
    this._wantsFocus.emit();
    await this._send(chat => chat.send(message));
  }

  private get _options(): IOptions {
    return { mode: this.mode, model: this.answerer };
  }

  private _show(id: string | null): void {
    if (this._chat.id !== id || id === null) {
      const before = this._chat;
      this._chat = this._desk.chats.open(id);
      this._chat.look(this, this._seen);
      before.look(this, false);
      this._desk.chats.close(before);
      this._generation += 1;
      this._draft = this._desk.memory.draft(id);
      this._refused = [];
      // They were chosen for the other chat.
      this._mode = null;
      this._answerer = null;
      this._shown.emit(id);
    }
  }

  /** Puts things to the message that is being written; says of the others why they are not. */
  attach(found: readonly Found[]): void {
    const some = found.filter((each): each is IAttached => !isRefused(each));
    const attached = [...this._draft.attached, ...some];
    const many = attached
      .slice(MAX_ATTACHED)
      .map(each => ({ name: each.label, why: 'many' }) as const);
    this._refused = [...found.filter(isRefused), ...many];
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

  /** What was last to go with the message and does not. */
  get refused(): readonly IRefused[] {
    return this._refused;
  }

  /** The person has read what does not go with the message. */
  dismissRefused(): void {
    this._refused = [];
    this._changed.emit();
    this._wantsFocus.emit();
  }

  /** Sends what is written; it is there again where the server did not take it. */
  private async _sendDraft(
    left: IDraft,
    send: (chat: ChatModel) => Promise<boolean>
  ): Promise<void> {
    const { draft, chat } = this;
    const replaced = this._replaced;
    this._refused = [];
    this._replaced = null;
    this.change(left);
    const begun = this._draft;
    if (await this._send(send)) {
      return;
    }
    const { memory } = this._desk;
    // Meanwhile they may have written on, or have gone to another chat.
    const now = this._chat.id === chat.id ? this._draft : memory.draft(chat.id);
    const back = isBlank(now) || now === begun ? draft : joined(draft, now);
    if (this._chat.id === chat.id) {
      this._replaced ??= replaced;
      this.change(back);
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
      this._desk.memory.setDraft(null, BLANK);
      this._desk.memory.setDraft(chat.id, this._draft);
      this._shown.emit(chat.id);
    }
    return taken;
  }

  private _chat: ChatModel;
  private _draft: IDraft;
  private _refused: readonly IRefused[] = [];
  private _revised: string | null = null;
  private _replaced: string | null = null;
  private _mode: Mode | null = null;
  private _answerer: string | null = null;
  private _showsHistory = false;
  private _begun = false;
  private _generation = 0;
  private _opened = false;
  private _seen = false;
  private _changed = new Signal<this, void>(this);
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
