import { type ISignal, Signal } from '@lumino/signaling';

import type { IMessage } from '../api/client';
import type { Mode } from '../api/events';
import type { ChatModel } from '../chat/model';
import { type ITurn, isUnsent, waits } from '../chat/state';
import { type Found, type IRefused, isRefused, MAX_ATTACHED } from './attaching';
import type { IDesk } from './desk';
import { BLANK, type IAttached, type IDraft, messageOf } from './draft';

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
    if (id !== null && this._chat.id === null && this._chat.state.turns.length === 0) {
      this._show(id);
    }
    if (this._draft.text === '') {
      this._draft = { ...this._draft, text: this._desk.memory.draft(this._chat.id) };
    }
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

  /** The permission mode of the next message. */
  get mode(): Mode {
    return this._mode ?? this._desk.preferences.now.mode;
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

  /** Emitted when the person is to write on. */
  get wantsFocus(): ISignal<this, void> {
    return this._wantsFocus;
  }

  /** Shows a chat; a new one for null. */
  open(id: string | null): void {
    this._opened = true;
    this._show(id);
    this.showHistory(false);
    this._wantsFocus.emit();
  }

  /** A chat was deleted: where it was the one that is shown, a new one takes its place. */
  removed(id: string): void {
    if (this._chat.id === id) {
      this._opened = false;
      this._show(null);
      this._changed.emit();
    }
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
    this._draft = { ...this._draft, ...some };
    this._desk.memory.setDraft(this._chat.id, this._draft.text);
    this._changed.emit();
    if (focus) {
      this._wantsFocus.emit();
    }
  }

  /** Sends what is written: a message, or what is to be different in a plan. */
  async submit(): Promise<void> {
    const { revised, chat, answerer } = this;
    const { text } = this._draft;
    if (revised === null) {
      await this._ask(text, this.replaced);
    } else if (text.trim() !== '') {
      const model = answerer === '' ? {} : { model: answerer };
      const answer = { answer: 'reject', words: text, ...model } as const;
      await this._send(text, { text: '' }, () => chat.answerPlan(revised, answer));
    }
  }

  /**
   * Sends a text about what the person looks at now: whatever they look at when it is answered, the
   * message stays bound to that.
   */
  async ask(text: string): Promise<void> {
    await this._ask(text, null);
  }

  private async _ask(text: string, replaced: ITurn | null): Promise<void> {
    if (text.trim() !== '') {
      const { chat } = this;
      const { preferences, surroundings } = this._desk;
      const message = messageOf({ ...this._draft, text }, surroundings.seen, {
        mode: this.mode,
        model: this.answerer,
        activeCell: preferences.now.activeCell
      });
      if (replaced !== null) {
        message.replaces = replaced.id;
      }
      await this._send(text, BLANK, () => chat.send(message));
    }
  }

  /** Has a turn's plan carried out; the messages after it are in that mode, too. */
  async approve(turn: ITurn, mode: Mode): Promise<void> {
    this.choose({ mode });
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
    this._revised = null;
    this._replaced = waits(turn) || isUnsent(turn) ? null : turn.id;
    if (waits(turn)) {
      void this._chat.stop(turn.id);
    }
    this.change({ text: turn.text }, true);
  }

  /** Lets the message that is being written be one after all others. */
  editNone(): void {
    this._replaced = null;
    this._changed.emit();
  }

  /** Lets the person say what is to be different in a turn's plan; null for an ordinary message. */
  revise(turn: ITurn | null): void {
    this._revised = turn?.id ?? null;
    this._replaced = null;
    this._changed.emit();
    this._wantsFocus.emit();
  }

  /** Sends a turn's message again, or another text about the same notebook. */
  async resend(turn: ITurn, change: { text?: string; mode?: Mode } = {}): Promise<void> {
    this._mode = change.mode ?? this._mode;
    const message: IMessage = {
      message: change.text ?? turn.text,
      mode: change.mode ?? turn.mode,
      ...(turn.notebook === null ? {} : { notebook: turn.notebook }),
      ...(this.answerer === '' ? {} : { model: this.answerer })
    };
    await this._send(message.message, BLANK, () => this._chat.send(message));
  }

  private _show(id: string | null): void {
    if (this._chat.id !== id || id === null) {
      this._chat = this._desk.chats.open(id);
      this._generation += 1;
      this._draft = { ...BLANK, text: this._desk.memory.draft(id) };
      this._desk.memory.chat = id;
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
  }

  /**
   * Sends a text; what was written is there again where the server did not take it.
   *
   * @param text - The text.
   * @param left - What is left of the draft, where that is its text.
   * @param send - Sends it; whether the server took it.
   */
  private async _send(
    text: string,
    left: Partial<IDraft>,
    send: () => Promise<boolean>
  ): Promise<void> {
    const { chat, draft } = this;
    const isDraft = text === draft.text;
    if (isDraft) {
      this._refused = [];
      this.change(left);
    }
    this.showHistory(false);
    const isNew = chat.id === null;
    const taken = await send();
    if (this._chat !== chat) {
      return;
    }
    if (!taken && isDraft && this._draft.text === '') {
      this.change(draft);
    }
    if (taken && isNew) {
      this._desk.memory.chat = chat.id;
    }
  }

  private _chat: ChatModel;
  private _draft: IDraft;
  private _refused: readonly IRefused[] = [];
  private _revised: string | null = null;
  private _replaced: string | null = null;
  private _mode: Mode | null = null;
  private _answerer: string | null = null;
  private _showsHistory = false;
  private _generation = 0;
  private _opened = false;
  private _changed = new Signal<this, void>(this);
  private _wantsFocus = new Signal<this, void>(this);
}
