/** Messages of the server, translated by their codes. */

import type { TranslationBundle } from '@jupyterlab/translation';

import type { ErrorInfo, SentenceInfo } from './events';
import type { Make } from './sentenceTable';

let table: ReadonlyMap<string, Make> = new Map();

/** Load the table of translatable messages, unless the language is English. */
export async function loadSentences(languageCode: string): Promise<void> {
  if (!languageCode.startsWith('en')) {
    // If it does not load, messages stay in English.
    const loaded = await import(/* webpackChunkName: "sentences" */ './sentenceTable').catch(
      () => null
    );
    table = new Map(Object.entries(loaded?.SENTENCES ?? {}));
  }
}

/**
 * Return a message of the server in the person's language.
 *
 * @param text - The message in English.
 * @param sentence - Its code and parameters, if it has a code.
 */
export function say(
  text: string,
  sentence: SentenceInfo | null | undefined,
  trans: TranslationBundle
): string {
  return (sentence && translated(sentence, trans)) ?? text;
}

/** Return the message and the hint of an error in the person's language. */
export function sayProblem(problem: ErrorInfo, trans: TranslationBundle): [string, string] {
  const { message, sentence, hint, hint_sentence } = problem;
  return [say(message, sentence, trans), say(hint, hint_sentence, trans)];
}

/** Translate a message; null if its code or that of a parameter is unknown. */
function translated({ code, parameters }: SentenceInfo, trans: TranslationBundle): string | null {
  let missing = 0;
  const part = (name: string): string => {
    const value = parameters[name] as SentenceInfo | string | number | undefined;
    // An object is a nested message; others are texts or numbers.
    const text =
      typeof value === 'object'
        ? translated(value, trans)
        : value === undefined
          ? null
          : String(value);
    missing += text === null ? 1 : 0;
    return text ?? '';
  };
  const made = table.get(code)?.(trans, part, Number(parameters['count'])) ?? null;
  return missing > 0 ? null : made;
}
