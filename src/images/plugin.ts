import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ISanitizer } from '@jupyterlab/apputils';
import { PageConfig } from '@jupyterlab/coreutils';
import type { DocumentRegistry } from '@jupyterlab/docregistry';
import { IMermaidManager } from '@jupyterlab/mermaid';
import type { INotebookModel, NotebookPanel } from '@jupyterlab/notebook';
import { ILatexTypesetter, type IRenderMime } from '@jupyterlab/rendermime';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { IReviews } from '../changes/reviews';
import { checkCommandLinks } from '../lab/commandLinks';
import { filterMathematics } from '../lab/mathematics';
import { IActivities } from '../notebook/activities';
import { loadsInMathematics } from './addresses';
import { DiagramBlocker } from './diagrams';
import type { BlockingRule } from './notebookBlocker';
import { defineMarker } from './marker';
import { ImageBlocker } from './imageBlocker';
import { followDistrust } from './trust';
import { AgentCellsApi } from './agentCells';

const FACTORY = 'Notebook';
const SETTINGS = 'tk-ai-extension:notebook';

/** Blocks external resources in what agents wrote into notebooks. */
const pictures: JupyterFrontEndPlugin<void> = {
  id: 'tk-ai-extension:pictures',
  description: 'Blocks external images in notebooks until it is known that no agent added them.',
  autoStart: true,
  // The token is not deprecated, the type of the same name is.
  // eslint-disable-next-line @typescript-eslint/no-deprecated
  requires: [IActivities, IReviews, ISanitizer],
  optional: [IMermaidManager, ISettingRegistry, ITranslator, ILatexTypesetter],
  activate: (
    app: JupyterFrontEnd,
    activities: IActivities,
    reviews: IReviews,
    sanitizer: IRenderMime.ISanitizer,
    mermaid: IMermaidManager | null,
    registry: ISettingRegistry | null,
    translator: ITranslator | null,
    typesetter: ILatexTypesetter | null
  ): void => {
    checkCommandLinks(app.commandLinker);
    const { contents, serverSettings } = app.serviceManager;
    const diagrams = mermaid && new DiagramBlocker(mermaid);
    const blocker = new ImageBlocker(sanitizer, new URL(PageConfig.getBaseUrl(), location.href), {
      agentCells: new AgentCellsApi(serverSettings),
      reviews,
      contents,
      trans: (translator ?? nullTranslator).load('tk-ai-extension'),
      draw: code => diagrams?.draw(code)
    });
    filterMathematics(typesetter, loadsInMathematics);
    defineMarker(blocker);
    void registry?.load(SETTINGS).then(settings => {
      const take = (): void => blocker.setRule(settings.get('pictures').composite as BlockingRule);
      settings.changed.connect(take);
      take();
    });
    // Called for each notebook before its cells are rendered.
    const extension: DocumentRegistry.IWidgetExtension<NotebookPanel, INotebookModel> = {
      createNew: panel => {
        followDistrust(panel);
        return blocker.watch(panel, activities.of(panel).changed);
      }
    };
    app.docRegistry.addWidgetExtension(FACTORY, extension);
    reviews.decided.connect(() => blocker.update());
  }
};

const plugins: JupyterFrontEndPlugin<unknown>[] = [pictures];

export default plugins;
