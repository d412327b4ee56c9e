import type { ServerConnection } from '@jupyterlab/services';

import { requestJson } from '../api/client';
import type { ConnectionInfo } from '../api/events';

/** A provider that can be connected in the panel. */
export type Provider = 'anthropic' | 'oauth' | 'compatible' | 'bedrock' | 'vertex';

/** A connection as a person enters it. */
export interface INewConnection {
  provider: Provider;
  /** Null keeps the stored key, for the same provider and address only. */
  secret: string | null;
  base_url: string;
  model: string;
  region: string;
  project: string;
}

/** The route of the connection to a model. The server never sends the key back. */
export class ConnectionApi {
  constructor(private readonly _settings: ServerConnection.ISettings) {}

  async read(): Promise<ConnectionInfo> {
    return requestJson(this._settings, 'GET', 'connection');
  }

  /** Test a connection, and store it if it works. */
  async connect(connection: INewConnection): Promise<ConnectionInfo> {
    return requestJson(this._settings, 'POST', 'connection', connection);
  }

  async disconnect(): Promise<ConnectionInfo> {
    return requestJson(this._settings, 'DELETE', 'connection');
  }
}
