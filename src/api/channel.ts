import { Token } from '@lumino/coreutils';
import type { IDisposable } from '@lumino/disposable';
import { type ISignal, Signal } from '@lumino/signaling';

import { ApiError } from './client';
import type { ErrorInfo } from './events';
import { delay } from './retry';

/** What a page subscribes to: a chat by its id, the user's permission requests, a notebook's changes. */
export type Topic = { chat: string } | { permissions: true } | { changes: string };

/** Number of an event of a chat, after which the server resumes. Other topics begin again. */
export type EventId = number | string;

/** Callbacks of a subscription. Calls do not overlap. */
export interface IFollower<T> {
  /** Called before each subscription. If it rejects, it is retried with backoff. */
  prepare?: () => Promise<void>;
  /** Returns the id of the last known event. Default: that of the last event that `take` has handled. */
  last?: () => EventId;
  /**
   * Called when the subscription is active.
   *
   * @param isReset - Whether earlier events may have been missed. The state follows, if the topic has
   *   one.
   */
  live?: (isReset: boolean) => void | Promise<void>;
  take: (event: T) => void | Promise<void>;
  /** Called when the connection is lost. The channel subscribes again by itself. */
  lost?: () => void;
  /** Called when the server refuses the subscription for good. */
  failed?: (error: ApiError) => void;
}

/** The channel on which a page receives all events. */
export interface IChannel {
  /** Emitted when the connection opens, for the first time or again. */
  readonly opens: ISignal<IChannel, void>;
  /** Subscribe to a topic until the result is disposed. */
  subscribe<T>(topic: Topic, follower: IFollower<T>): IDisposable;
  /** Reconnect now. */
  retry(): void;
}

export const IChannel = new Token<IChannel>(
  'tk-ai-extension:IChannel',
  'The WebSocket on which a page receives the events of chats, approvals and notebooks.'
);

/** The connection under a channel, which reconnects when it is lost. */
export interface IConnection {
  /** Send a message, if the connection is open. */
  send: (message: object) => boolean;
  retry: () => void;
}

/** A message of the server for a subscription. */
interface IMessage {
  subscription: number;
  live?: true;
  reset?: true;
  id?: EventId;
  event?: unknown;
  error?: ErrorInfo;
  /** The HTTP status of the error. */
  status?: number;
  over?: true;
}

/** Multiplexes the subscriptions of a page over one connection, and resumes them after a reconnect. */
export class Channel implements IChannel {
  constructor(private readonly _connection: IConnection) {}

  readonly opens = new Signal<this, void>(this);

  subscribe<T>(topic: Topic, follower: IFollower<T>): IDisposable {
    const subscription = new Subscription(topic, follower as IFollower<unknown>, this);
    subscription.begin();
    return subscription;
  }

  retry(): void {
    this._connection.retry();
  }

  /** Whether the connection was lost and is not open again. */
  get isLost(): boolean {
    return this._isLost;
  }

  send(message: object): void {
    this._connection.send(message);
  }

  /** Give a subscription a new number, so that messages for the former one are ignored. */
  renumber(subscription: Subscription): number {
    this._subscriptions.delete(subscription.number);
    this._subscriptions.set(++this._count, subscription);
    return this._count;
  }

  end({ number }: Subscription): void {
    this._subscriptions.delete(number);
  }

  /** Handle an open connection. */
  opened(): void {
    this._isLost = false;
    [...this._subscriptions.values()].forEach(each => each.begin());
    this.opens.emit();
  }

  /** Handle a lost connection. */
  lost(): void {
    this._isLost = true;
    [...this._subscriptions.values()].forEach(each => each.lost());
  }

  /** Handle a message of the server. Return whether it was for a subscription. */
  receive(message: object): boolean {
    if (!('subscription' in message)) {
      return false;
    }
    const received = message as IMessage;
    this._subscriptions.get(received.subscription)?.receive(received);
    return true;
  }

  private readonly _subscriptions = new Map<number, Subscription>();
  private _count = 0;
  private _isLost = false;
}

class Subscription implements IDisposable {
  constructor(
    private readonly _topic: Topic,
    private readonly _follower: IFollower<unknown>,
    private readonly _channel: Channel
  ) {}

  /** Its number since the last (re)subscription. */
  number = 0;

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  /** Subscribe, for the first time or again. */
  begin(): void {
    window.clearTimeout(this._timer);
    if (this._isDisposed) {
      return;
    }
    const number = (this.number = this._channel.renumber(this));
    if (this._channel.isLost) {
      this._follower.lost?.();
      return;
    }
    this._enqueue(number, async () => {
      await this._follower.prepare?.();
      if (number === this.number) {
        // Undefined fields are not sent.
        const after = this._follower.last?.() ?? this._last;
        this._channel.send({ subscribe: number, ...this._topic, after });
      }
    });
  }

  receive({ live, reset, id, event, error, status, over }: IMessage): void {
    const { number } = this;
    this._enqueue(number, async () => {
      if (live === true || reset === true) {
        this._tries = 0;
        this._last = reset === true ? undefined : this._last;
        await this._follower.live?.(reset === true);
      } else if (error !== undefined) {
        throw new ApiError(error, status);
      } else if (over === true) {
        this._resubscribe();
      } else {
        await this._follower.take(event);
        this._last = id;
      }
    });
  }

  lost(): void {
    window.clearTimeout(this._timer);
    this.number = this._channel.renumber(this);
    this._follower.lost?.();
  }

  dispose(): void {
    if (!this._isDisposed) {
      this._isDisposed = true;
      window.clearTimeout(this._timer);
      this._channel.send({ unsubscribe: this.number });
      this._channel.end(this);
    }
  }

  /** Run work after what is queued, unless it was subscribed again in the meantime. */
  private _enqueue(number: number, work: () => Promise<void>): void {
    const done = this._queue.then(async () => {
      if (number !== this.number || this._isDisposed) {
        return;
      }
      try {
        await work();
      } catch (error) {
        if (!(error instanceof ApiError)) {
          throw error;
        }
        if (number === this.number) {
          this._onError(error);
        }
      }
    });
    // An error in a callback does not end the subscription.
    this._queue = done.catch((error: unknown) => reportError(error));
  }

  private _onError(error: ApiError): void {
    if (error.isPermanent) {
      this.dispose();
      this._follower.failed?.(error);
    } else {
      this._follower.lost?.();
      this._resubscribe();
    }
  }

  /** Subscribe again with backoff. */
  private _resubscribe(): void {
    this._channel.send({ unsubscribe: this.number });
    this.number = this._channel.renumber(this);
    this._timer = window.setTimeout(() => this.begin(), delay(this._tries++, Math.random()));
  }

  private _queue: Promise<void> = Promise.resolve();
  /** The id of the last event that was handled. */
  private _last: EventId | undefined;
  private _tries = 0;
  private _timer = 0;
  private _isDisposed = false;
}
