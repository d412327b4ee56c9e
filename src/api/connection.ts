import { URLExt } from '@jupyterlab/coreutils';
import type { ServerConnection } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';

import { delay } from './retry';

const ROUTE = 'api/tk-ai/tabs';

/** Milliseconds between two heartbeats of the server. */
const HEARTBEAT = 15_000;

/** Milliseconds without a message, or to open, after which a connection counts as lost: two heartbeats. */
export const SILENCE = 2.5 * HEARTBEAT;

/**
 * Milliseconds on the way after which a request is late: its page was stopped, or its network was. The
 * server gives a request up after 20 seconds, and may have done the same elsewhere by then.
 */
export const LATE = 15_000;

/** The WebSocket of this page to the server. It reconnects with backoff. */
export class Connection {
  constructor(
    private readonly _settings: ServerConnection.ISettings,
    private readonly _client: string
  ) {
    window.addEventListener('online', this._onOnline);
    window.addEventListener('offline', this._onOffline);
  }

  /** Emitted when the connection is open. */
  readonly opened = new Signal<this, void>(this);

  /** Emitted when it is lost. */
  readonly lost = new Signal<this, void>(this);

  /** Emitted with each message of the server. */
  readonly received = new Signal<this, object>(this);

  get isOpen(): boolean {
    return this._socket?.readyState === WebSocket.OPEN;
  }

  open(): void {
    window.clearTimeout(this._timer);
    if (this._isDisposed || this._socket !== null) {
      return;
    }
    const { wsUrl, appendToken, token } = this._settings;
    const query = appendToken && token ? { client: this._client, token } : { client: this._client };
    const address = URLExt.join(wsUrl, ROUTE) + URLExt.objectToQueryString(query);
    const socket = (this._socket = new this._settings.WebSocket(address));
    // The difference of both clocks, and the shortest time on the way.
    let lag = Infinity;
    this._watch();
    socket.onopen = () => {
      if (this._socket === socket) {
        this._tries = 0;
        this._watch();
        this.opened.emit();
      }
    };
    socket.onmessage = event => {
      if (this._socket === socket) {
        this._watch();
        const message = JSON.parse(String(event.data)) as { sent?: number };
        const since = message.sent === undefined ? lag : Date.now() - message.sent;
        lag = Math.min(lag, since);
        if (since - lag > LATE) {
          this._drop();
        } else {
          this.received.emit(message);
        }
      }
    };
    socket.onclose = () => this._onLost(socket);
  }

  /** Reconnect now. An attempt that is not open yet is given up, since it may never be. */
  retry(): void {
    if (!this.isOpen) {
      this._drop();
    }
    this._tries = 0;
    this.open();
  }

  /** Send a message. Return whether the connection is open. */
  send(message: object): boolean {
    if (!this.isOpen) {
      return false;
    }
    this._socket?.send(JSON.stringify(message));
    return true;
  }

  dispose(): void {
    this._isDisposed = true;
    window.removeEventListener('online', this._onOnline);
    window.removeEventListener('offline', this._onOffline);
    window.clearTimeout(this._timer);
    window.clearTimeout(this._silence);
    this._socket?.close(1000);
  }

  /** Restart the timer that drops a silent connection: its peer may be gone without a close frame. */
  private _watch(): void {
    window.clearTimeout(this._silence);
    this._silence = window.setTimeout(() => this._drop(), SILENCE);
  }

  private _drop(): void {
    const socket = this._socket;
    if (socket !== null) {
      // `onclose` comes only when the peer answers, which may be never.
      socket.close(4000);
      this._onLost(socket);
    }
  }

  private _onLost(socket: WebSocket): void {
    if (this._socket !== socket) {
      return;
    }
    this._socket = null;
    window.clearTimeout(this._silence);
    this.lost.emit();
    if (!this._isDisposed) {
      const wait = delay(this._tries++, Math.random());
      this._timer = window.setTimeout(() => this.open(), wait);
    }
  }

  private readonly _onOnline = (): void => this.retry();
  /** Without a network, an open socket receives nothing and emits no error. */
  private readonly _onOffline = (): void => this._drop();

  private _socket: WebSocket | null = null;
  private _tries = 0;
  private _timer = 0;
  private _silence = 0;
  private _isDisposed = false;
}
