import { ServerConnection } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';

import type { PromptInfo } from '../api/setupModels';
import type { IOption } from './prefix';
import { SetupApi } from './setupApi';

/** Milliseconds after which the prompts are requested again. */
const FRESH = 5000;

let known: { at: number; prompts: Promise<readonly PromptInfo[]> } | null = null;

/** Return the prompts that begin with a word; none if the server does not answer. */
export async function promptOptions(
  word: string,
  trans: TranslationBundle,
  api?: Pick<SetupApi, 'prompts'>
): Promise<IOption[]> {
  try {
    if (known === null || Date.now() - known.at > FRESH) {
      const from = api ?? new SetupApi(ServerConnection.makeSettings());
      known = { at: Date.now(), prompts: from.prompts() };
    }
    const prompts = await known.prompts;
    return prompts
      .filter(({ name }) => name.toLowerCase().startsWith(word.toLowerCase()))
      .map(prompt => ({
        label: `/${prompt.name}`,
        note: noteOf(prompt, trans),
        text: `/${prompt.name} `
      }));
  } catch {
    known = null;
    return [];
  }
}

/** Return the arguments, the description and the origin of a prompt. */
function noteOf({ hint, description, origin }: PromptInfo, trans: TranslationBundle): string {
  const from = origin === 'user' ? trans.__('Your prompt') : trans.__('Project’s prompt');
  return [hint, description, from].filter(text => text !== '').join(' · ');
}
