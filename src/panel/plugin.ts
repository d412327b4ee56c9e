import {
  ILayoutRestorer,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { Widget } from '@lumino/widgets';

/** The panel in the right sidebar. */
const panel: JupyterFrontEndPlugin<void> = {
  id: 'tk-ai-extension:panel',
  description: 'The chat with Claude, in the right sidebar.',
  autoStart: true,
  optional: [ILayoutRestorer],
  activate: (app: JupyterFrontEnd, restorer: ILayoutRestorer | null) => {
    const widget = new Widget();
    widget.id = 'tk-ai-chat';
    widget.title.label = 'Claude';
    widget.addClass('tk-Panel');
    app.shell.add(widget, 'right', { rank: 900 });
    restorer?.add(widget, widget.id);
  }
};

const plugins: JupyterFrontEndPlugin<unknown>[] = [panel];

export default plugins;
