/** What the server says in words: in the person's language where the sentence's code is known here. */

import type { TranslationBundle } from '@jupyterlab/translation';

import type { ErrorInfo, SentenceInfo } from './events';
import type { Make } from './sentenceTable';

let table: ReadonlyMap<string, Make> = new Map();

/** Loads the table that sentences are translated by; for English, in which they come, there is none. */
export async function loadSentences(languageCode: string): Promise<void> {
  if (!languageCode.startsWith('en')) {
    // Without it, what the server says stays in English.
    const loaded = await import(/* webpackChunkName: "sentences" */ './sentenceTable').catch(
      () => null
    );
    table = new Map(Object.entries(loaded?.SENTENCES ?? {}));
  }
}

/**
 * A sentence of the server.
 *
 * @param text - It in English.
 * @param sentence - Its code and what stands in it, where it has one.
 */
export function say(
  text: string,
  sentence: SentenceInfo | null | undefined,
  trans: TranslationBundle
): string {
  return (sentence && translated(sentence, trans)) ?? text;
}

/** An error of the server: what went wrong, and what to do next. */
export function sayProblem(problem: ErrorInfo, trans: TranslationBundle): [string, string] {
  const { message, sentence, hint, hint_sentence } = problem;
  return [say(message, sentence, trans), say(hint, hint_sentence, trans)];
}

/** A sentence in the person's language; null where it, or a part of it, is not known here. */
function translated({ code, parameters }: SentenceInfo, trans: TranslationBundle): string | null {
  let missing = 0;
  const part = (name: string): string => {
    const value = parameters[name];
    // What is an object is a sentence; the rest is a text or a number.
    const text =
      typeof value === 'object'
        ? translated(value as SentenceInfo, trans)
        : value === undefined
          ? null
          : String(value as string | number);
    missing += text === null ? 1 : 0;
    return text ?? '';
  };
  const made = table.get(code)?.(trans, part, Number(parameters['count'])) ?? null;
  return missing > 0 ? null : made;
}
