import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ISanitizer } from '@jupyterlab/apputils';
import { PageConfig } from '@jupyterlab/coreutils';
import type { DocumentRegistry } from '@jupyterlab/docregistry';
import { IMermaidManager } from '@jupyterlab/mermaid';
import type { INotebookModel, NotebookPanel } from '@jupyterlab/notebook';
import type { IRenderMime } from '@jupyterlab/rendermime';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { IReviews } from '../changes/reviews';
import { checkCommandLinks } from '../lab/commandLinks';
import { IActivities } from '../notebook/activities';
import { Diagrams } from './diagrams';
import type { Rule } from './held';
import { tellOfMarkers } from './marker';
import { Pictures } from './pictures';
import { followDistrust } from './trust';
import { WritersApi } from './writers';

const FACTORY = 'Notebook';
const SETTINGS = 'tk-ai-extension:notebook';

/** Nothing that an agent wrote into a notebook is fetched from elsewhere by showing it. */
const pictures: JupyterFrontEndPlugin<void> = {
  id: 'tk-ai-extension:pictures',
  description:
    'Loads pictures from elsewhere in notebooks once it is known that no agent put them there.',
  autoStart: true,
  // The token is not deprecated, the type of the same name is.
  // eslint-disable-next-line @typescript-eslint/no-deprecated
  requires: [IActivities, IReviews, ISanitizer],
  optional: [IMermaidManager, ISettingRegistry, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    activities: IActivities,
    reviews: IReviews,
    sanitizer: IRenderMime.ISanitizer,
    mermaid: IMermaidManager | null,
    registry: ISettingRegistry | null,
    translator: ITranslator | null
  ): void => {
    checkCommandLinks(app.commandLinker);
    const { contents, serverSettings } = app.serviceManager;
    const diagrams = mermaid && new Diagrams(mermaid);
    const held = new Pictures(sanitizer, new URL(PageConfig.getBaseUrl(), location.href), {
      writers: new WritersApi(serverSettings),
      reviews,
      contents,
      trans: (translator ?? nullTranslator).load('tk-ai-extension'),
      draw: code => diagrams?.draw(code)
    });
    tellOfMarkers(held);
    void registry?.load(SETTINGS).then(settings => {
      const take = (): void => held.setRule(settings.get('pictures').composite as Rule);
      settings.changed.connect(take);
      take();
    });
    // Told of each notebook as it is made, before its cells are rendered.
    const extension: DocumentRegistry.IWidgetExtension<NotebookPanel, INotebookModel> = {
      createNew: panel => {
        followDistrust(panel);
        return held.watch(panel, activities.of(panel).changed);
      }
    };
    app.docRegistry.addWidgetExtension(FACTORY, extension);
    reviews.decided.connect(() => held.look());
  }
};

const plugins: JupyterFrontEndPlugin<unknown>[] = [pictures];

export default plugins;
