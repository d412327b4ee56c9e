/** The server's ends of requests and of a channel, which a test controls. */

import type { ServerConnection } from '@jupyterlab/services';

import { Channel, type EventId, type IConnection, type Topic } from '../api/channel';
import type { ErrorInfo } from '../api/events';

/** What of a request counts. */
export class FakeRequest {
  constructor(_url: string, { body, signal }: { body: string; signal: AbortSignal }) {
    this.body = body;
    this.signal = signal;
  }
  readonly body: string;
  readonly signal: AbortSignal;
  readonly headers = new Map();
}

/** What of a response counts. */
export interface FakeResponse {
  ok: boolean;
  status: number;
  json: () => Promise<object>;
}

export function responseOf(body: object, status = 200): FakeResponse {
  return { ok: status === 200, status, json: () => Promise.resolve(body) };
}

/** Return the settings of a server that answers requests like this. */
export function serverSettings(
  fetch: (request: FakeRequest) => Promise<FakeResponse>
): ServerConnection.ISettings {
  const settings = { baseUrl: 'http://localhost/', fetch, Headers: Map, init: {} };
  return { ...settings, Request: FakeRequest } as never;
}

/** A subscription as the server receives it. */
export interface ISubscribed {
  number: number;
  topic: Topic;
  after: EventId | null;
}

export class FakeServer implements IConnection {
  readonly channel = new Channel(this);
  isOpen = true;
  /** All subscriptions, in their order. */
  readonly subscribed: ISubscribed[] = [];
  /** The active subscriptions. */
  readonly open = new Map<number, ISubscribed>();

  /** Answers a subscription. Default: that nothing was missed. */
  answer: (subscribed: ISubscribed) => void = ({ number }) => this.deliver(number, { live: true });

  private _begin: () => void = () => undefined;
  /** Settled with the first subscription. */
  readonly begun = new Promise<void>(resolve => (this._begin = resolve));

  send(message: object): boolean {
    const { subscribe, unsubscribe, after, ...topic } = message as Record<string, unknown>;
    if (this.isOpen && typeof subscribe === 'number') {
      const found = { number: subscribe, topic: topic as Topic, after: (after ?? null) as EventId };
      this.open.set(subscribe, found);
      this.subscribed.push(found);
      this.answer(found);
      this._begin();
    } else if (typeof unsubscribe === 'number') {
      this.open.delete(unsubscribe);
    }
    return this.isOpen;
  }

  retry(): void {
    this.connect();
  }

  /** Send a message for a subscription. */
  deliver(subscription: number, message: object): void {
    this.channel.receive({ subscription, ...message });
  }

  /** Send an event to all subscribers of a topic. */
  publish(topic: Topic, event: unknown, id: EventId = 0): void {
    const wanted = JSON.stringify(topic);
    for (const each of this.open.values()) {
      if (JSON.stringify(each.topic) === wanted) {
        this.deliver(each.number, { id, event });
      }
    }
  }

  fail(
    subscription: number,
    error: Partial<ErrorInfo>,
    status = error.retryable === false ? 404 : 503
  ): void {
    const all = { code: 'failed', message: '', hint: '', retryable: true, ...error };
    this.deliver(subscription, { error: all, status });
  }

  /** Lose the connection. */
  cut(): void {
    this.isOpen = false;
    this.open.clear();
    this.channel.lost();
  }

  /** Open the connection again. */
  connect(): void {
    if (!this.isOpen) {
      this.isOpen = true;
      this.channel.opened();
    }
  }
}
