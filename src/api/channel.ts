import { Token } from '@lumino/coreutils';
import type { IDisposable } from '@lumino/disposable';

import { ApiError } from './client';
import type { ErrorInfo } from './events';
import { delay } from './retry';

/** What a page follows: a chat by its id, the user's requests for permission, a notebook's changes. */
export type Topic = { chat: string } | { permissions: true } | { changes: string };

/** Names an event of a topic: what the server goes on after. */
export type EventId = number | string;

/** Who follows a topic. Each call is made once the one before it is over. */
export interface IFollower<T> {
  /** Called before each subscription. What it rejects with has it tried again in a while. */
  prepare?: () => Promise<void>;
  /** The id of the last event that is known, where not that of the last one that was taken. */
  last?: () => EventId;
  /**
   * From now on nothing is missed.
   *
   * @param isReset - Whether the events before may have been missed: what follows begins with the
   *   state, where the topic has one.
   */
  live?: (isReset: boolean) => void | Promise<void>;
  take: (event: T) => void | Promise<void>;
  /** The connection is lost; it is subscribed again by itself. */
  lost?: () => void;
  /** The server does not tell, and will not. */
  failed?: (error: ApiError) => void;
}

/** The one channel on which a page hears what happens. */
export interface IChannel {
  /** Follows a topic until that is disposed of. */
  subscribe<T>(topic: Topic, follower: IFollower<T>): IDisposable;
  /** Asks for a lost connection at once. */
  retry(): void;
}

export const IChannel = new Token<IChannel>(
  'tk-ai-extension:IChannel',
  'The WebSocket on which a page receives the events of chats, approvals and notebooks.'
);

/** What carries the channel: a connection, which is lost and comes back. */
export interface IConnection {
  readonly isOpen: boolean;
  send: (message: object) => boolean;
  retry: () => void;
}

/** What the server sends of a subscription. */
interface IMessage {
  subscription: number;
  live?: true;
  reset?: true;
  id?: EventId;
  event?: unknown;
  error?: ErrorInfo;
  over?: true;
}

/** Multiplexes the topics of a page over its connection, and goes on where each was. */
export class Channel implements IChannel {
  constructor(private readonly _connection: IConnection) {}

  subscribe<T>(topic: Topic, follower: IFollower<T>): IDisposable {
    const subscription = new Subscription(topic, follower as IFollower<unknown>, {
      isOpen: () => this._connection.isOpen,
      isLost: () => this._isLost,
      send: message => void this._connection.send(message),
      number: from => {
        this._subscriptions.delete(from.number);
        this._subscriptions.set(++this._count, from);
        return this._count;
      },
      end: from => void this._subscriptions.delete(from.number)
    });
    subscription.begin();
    return subscription;
  }

  retry(): void {
    this._connection.retry();
  }

  /** The connection is open. */
  opened(): void {
    this._isLost = false;
    [...this._subscriptions.values()].forEach(each => each.begin());
  }

  /** It is lost. */
  lost(): void {
    this._isLost = true;
    [...this._subscriptions.values()].forEach(each => each.lost());
  }

  /** Takes a message of the server; whether it was of a subscription. */
  receive(message: object): boolean {
    if (!('subscription' in message)) {
      return false;
    }
    const told = message as IMessage;
    this._subscriptions.get(told.subscription)?.receive(told);
    return true;
  }

  private readonly _subscriptions = new Map<number, Subscription>();
  private _count = 0;
  private _isLost = false;
}

interface IWire {
  isOpen: () => boolean;
  /** Whether it was open, or tried to be, and is not. */
  isLost: () => boolean;
  send: (message: object) => void;
  /** A new number for a subscription: what is under way of the former one is nothing to it. */
  number: (from: Subscription) => number;
  end: (from: Subscription) => void;
}

class Subscription implements IDisposable {
  constructor(
    private readonly _topic: Topic,
    private readonly _follower: IFollower<unknown>,
    private readonly _wire: IWire
  ) {}

  /** Its number in this round. */
  number = 0;

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  /** Subscribes, for the first time or again. */
  begin(): void {
    window.clearTimeout(this._timer);
    if (this._isDisposed) {
      return;
    }
    const number = (this.number = this._wire.number(this));
    if (this._wire.isLost()) {
      this._follower.lost?.();
      return;
    }
    this._then(number, async () => {
      await this._follower.prepare?.();
      if (number === this.number && this._wire.isOpen()) {
        const after = this._follower.last?.() ?? this._last;
        this._wire.send({
          subscribe: number,
          ...this._topic,
          ...(after === null ? {} : { after })
        });
      }
    });
  }

  receive({ live, reset, id, event, error, over }: IMessage): void {
    const { number } = this;
    this._then(number, async () => {
      if (live === true || reset === true) {
        this._tries = 0;
        this._last = reset === true ? null : this._last;
        await this._follower.live?.(reset === true);
      } else if (error !== undefined) {
        throw new ApiError(error, error.retryable ? 503 : 400);
      } else if (over === true) {
        this._again();
      } else {
        await this._follower.take(event);
        this._last = id ?? null;
      }
    });
  }

  lost(): void {
    window.clearTimeout(this._timer);
    this.number = this._wire.number(this);
    this._follower.lost?.();
  }

  dispose(): void {
    if (!this._isDisposed) {
      this._isDisposed = true;
      window.clearTimeout(this._timer);
      this._wire.send({ unsubscribe: this.number });
      this._wire.end(this);
    }
  }

  /** Does something after all before it, unless a new round has begun by then. */
  private _then(number: number, work: () => Promise<void>): void {
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
    // A mistake in what follows is no reason to follow no more.
    this._queue = done.catch((error: unknown) => reportError(error));
  }

  private _onError(error: ApiError): void {
    if (error.isPermanent) {
      this.dispose();
      this._follower.failed?.(error);
    } else {
      this._follower.lost?.();
      this._again();
    }
  }

  /** Subscribes again in a while. */
  private _again(): void {
    this._wire.send({ unsubscribe: this.number });
    this.number = this._wire.number(this);
    this._timer = window.setTimeout(() => this.begin(), delay(this._tries++, Math.random()));
  }

  private _queue: Promise<void> = Promise.resolve();
  /** The id of the last event that was taken. */
  private _last: EventId | null = null;
  private _tries = 0;
  private _timer = 0;
  private _isDisposed = false;
}
