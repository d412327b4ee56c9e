import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { Contents, Session } from '@jupyterlab/services';

import type { Connection } from '../api/connection';
import { serverPath } from '../common/drives';

/**
 * Connects open notebooks without a kernel to the kernel that an agent started for them.
 *
 * JupyterLab connects a notebook to its session only when it is opened.
 */
export class KernelJoiner {
  constructor(
    private readonly _tracker: INotebookTracker,
    private readonly _contents: Contents.IManager,
    private readonly _sessions: Session.IManager,
    connection: Connection
  ) {
    // JupyterLab polls the sessions. A request of the server shows that an agent works here now.
    _sessions.runningChanged.connect(() => this._join());
    connection.received.connect(() => {
      if (this._withoutKernel().length > 0) {
        void this._refresh();
      }
    });
  }

  private async _refresh(): Promise<void> {
    if (!this._isRefreshing) {
      this._isRefreshing = true;
      try {
        await this._sessions.refreshRunning();
        this._join();
      } catch {
        // The next poll or request tries it again.
      } finally {
        this._isRefreshing = false;
      }
    }
  }

  private _join(): void {
    const running = [...this._sessions.running()];
    for (const { context, sessionContext } of this._withoutKernel()) {
      const path = serverPath(this._contents, context.path);
      const session = running.find(each => serverPath(this._contents, each.path) === path);
      if (path !== null && session?.kernel) {
        const { id } = session.kernel;
        this._joining.add(sessionContext);
        void sessionContext
          .changeKernel({ id })
          .catch(() => undefined)
          .then(() => this._joining.delete(sessionContext));
      }
    }
  }

  /** The notebooks that have no kernel, and for which none is starting. */
  private _withoutKernel(): NotebookPanel[] {
    return this._tracker.filter(
      ({ context, sessionContext }) =>
        context.isReady &&
        sessionContext.session === null &&
        sessionContext.kernelDisplayStatus === 'unknown' &&
        !this._joining.has(sessionContext)
    );
  }

  private readonly _joining = new Set<NotebookPanel['sessionContext']>();
  private _isRefreshing = false;
}
