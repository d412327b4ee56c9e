import type { INotebookModel, NotebookPanel } from '@jupyterlab/notebook';
import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { Contents } from '@jupyterlab/services';
import { Token } from '@lumino/coreutils';
import { type Message, MessageLoop } from '@lumino/messaging';
import type { Widget } from '@lumino/widgets';

import type { IChannel } from '../api/channel';
import type { IReviews } from '../changes/reviews';
import { NotebookActivity } from './activity';
import { serverPath } from '../common/drives';

/** The activity of agents in open notebooks. */
export interface IActivities {
  /** Return the activity in a notebook. Views of one notebook share it. */
  of(panel: NotebookPanel): NotebookActivity;
}

export const IActivities = new Token<IActivities>(
  'tk-ai-extension:IActivities',
  'What agents changed in open notebooks, and what they run there.'
);

type Context = DocumentRegistry.IContext<INotebookModel>;

/** The views of one notebook, and its activity. */
interface IOpen {
  activity: NotebookActivity;
  views: Set<NotebookPanel>;
}

export class Activities implements IActivities {
  constructor(
    private readonly _reviews: IReviews,
    private readonly _channel: IChannel,
    private readonly _contents: Contents.IManager
  ) {
    document.addEventListener('visibilitychange', () => this._open.forEach(look));
  }

  of(panel: NotebookPanel): NotebookActivity {
    const open = this._open.get(panel.context) ?? this._begin(panel.context);
    if (!open.views.has(panel)) {
      open.views.add(panel);
      watch(panel, () => look(open));
      panel.disposed.connect(() => {
        open.views.delete(panel);
        look(open);
      });
      look(open);
    }
    return open.activity;
  }

  private _begin(context: Context): IOpen {
    const path = (): string | null => serverPath(this._contents, context.path);
    const activity = new NotebookActivity(this._reviews, this._channel, path());
    const open = { activity, views: new Set<NotebookPanel>() };
    this._open.set(context, open);
    context.pathChanged.connect(() => activity.rename(path()));
    context.disposed.connect(() => {
      this._open.delete(context);
      activity.dispose();
    });
    return open;
  }

  private readonly _open = new Map<Context, IOpen>();
}

/** Follow the activity only while a view is visible. */
function look({ activity, views }: IOpen): void {
  activity.look(!document.hidden && [...views].some(view => view.isVisible));
}

/** Call back when a widget may have become visible or hidden. */
function watch(widget: Widget, changed: () => void): void {
  MessageLoop.installMessageHook(widget, (_: unknown, message: Message) => {
    if (['after-show', 'after-hide', 'after-attach', 'after-detach'].includes(message.type)) {
      // After the widget has handled the message.
      queueMicrotask(changed);
    }
    return true;
  });
}
