import type { ServerConnection } from '@jupyterlab/services';

import { requestJson } from '../api/client';
import type { ChatSetupInfo, StandingInfo } from '../api/events';

/** The routes of what chats are set up with. */
export class SetupApi {
  constructor(private readonly _settings: ServerConnection.ISettings) {}

  async read(): Promise<ChatSetupInfo> {
    return requestJson(this._settings, 'GET', 'setup');
  }

  async approvals(): Promise<readonly StandingInfo[]> {
    return this._approvals('GET', 'approvals');
  }

  async removeApproval(id: string): Promise<readonly StandingInfo[]> {
    return this._approvals('DELETE', `approvals/${encodeURIComponent(id)}`);
  }

  private async _approvals(method: string, path: string): Promise<readonly StandingInfo[]> {
    return (await requestJson<{ approvals: readonly StandingInfo[] }>(this._settings, method, path))
      .approvals;
  }
}
