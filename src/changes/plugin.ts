import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import type { Contents } from '@jupyterlab/services';

import { IChats } from '../chat/service';
import { serverPath } from '../common/drives';
import type { AppStore } from '../state/app';
import { IAppStore } from '../state/plugin';
import { IReviews, Reviews } from './reviews';

/** The changes that a person keeps or undoes. */
const reviews: JupyterFrontEndPlugin<IReviews> = {
  id: 'tk-ai-extension:reviews',
  description: 'Lists, keeps and undoes the changes by agents.',
  autoStart: true,
  provides: IReviews,
  requires: [IAppStore, IChats],
  activate: ({ serviceManager }: JupyterFrontEnd, store: AppStore, chats: IChats): IReviews => {
    const { contents, serverSettings } = serviceManager;
    const reviews = new Reviews(serverSettings, store);
    const pathOf = (file: Partial<Contents.IModel> | null): string | null =>
      file?.path === undefined ? null : serverPath(contents, file.path);
    contents.fileChanged.connect((_, { oldValue, newValue }) => {
      const old = pathOf(oldValue);
      const path = pathOf(newValue);
      // Only files that were renamed or deleted have an old value.
      if (old !== null && old !== path) {
        reviews.moved(old, path);
        void chats.moved(old);
      }
    });
    return reviews;
  }
};

const plugins: JupyterFrontEndPlugin<unknown>[] = [reviews];

export default plugins;
