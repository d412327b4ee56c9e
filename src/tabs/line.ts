import { URLExt } from '@jupyterlab/coreutils';
import type { ServerConnection } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';

import { pause } from '../api/pause';

const ROUTE = 'api/tk-ai/tabs';

/** The line of this page to the server: opened again, by and by, whenever it is cut. */
export class Line {
  constructor(
    private readonly _settings: ServerConnection.ISettings,
    private readonly _client: string
  ) {
    window.addEventListener('online', this._onOnline);
  }

  /** Emitted when the line is open. */
  readonly opened = new Signal<this, void>(this);

  /** Emitted with what the server says. */
  readonly heard = new Signal<this, object>(this);

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
    socket.onopen = () => {
      this._tries = 0;
      this.opened.emit();
    };
    socket.onmessage = event => this.heard.emit(JSON.parse(String(event.data)) as object);
    socket.onclose = () => {
      if (this._socket === socket) {
        this._socket = null;
        this._again();
      }
    };
  }

  /** Says something; whether the line was there for it. */
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
    window.clearTimeout(this._timer);
    this._socket?.close(1000);
  }

  private _again(): void {
    if (!this._isDisposed) {
      const wait = pause(this._tries++, Math.random());
      this._timer = window.setTimeout(() => this.open(), wait);
    }
  }

  private readonly _onOnline = (): void => {
    this._tries = 0;
    this.open();
  };

  private _socket: WebSocket | null = null;
  private _tries = 0;
  private _timer = 0;
  private _isDisposed = false;
}
