import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { INotebookModel, NotebookPanel } from '@jupyterlab/notebook';
import type { Contents } from '@jupyterlab/services';
import { Token } from '@lumino/coreutils';

import type { IChannel } from '../api/channel';
import type { IChats } from '../chat/service';
import { serverPath } from '../common/drives';
import { NotebookActivity } from './activity';

type Context = DocumentRegistry.IContext<INotebookModel>;

/** The activity of agents in open notebooks. */
export class Activities {
  constructor(
    private readonly _chats: IChats,
    private readonly _channel: IChannel,
    private readonly _contents: Contents.IManager
  ) {}

  /** Return the activity in a notebook. Views of one notebook share it. */
  of({ context }: NotebookPanel): NotebookActivity {
    return this._open.get(context) ?? this._begin(context);
  }

  private _begin(context: Context): NotebookActivity {
    const path = (): string | null => serverPath(this._contents, context.path);
    const activity = new NotebookActivity(this._chats, this._channel, path());
    this._open.set(context, activity);
    context.pathChanged.connect(() => activity.rename(path()));
    context.disposed.connect(() => {
      this._open.delete(context);
      activity.dispose();
    });
    return activity;
  }

  private readonly _open = new Map<Context, NotebookActivity>();
}

export type IActivities = Activities;

export const IActivities = new Token<IActivities>(
  'tk-ai-extension:IActivities',
  'What agents changed in open notebooks, and what they run there.'
);
