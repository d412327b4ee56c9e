import type { DocumentRegistry } from '@jupyterlab/docregistry';

type Context = DocumentRegistry.Context;
type Content = ReturnType<Context['model']['toJSON']>;

/** What a context does that an extension can do in its place. */
export interface IContextMethods {
  save: () => Promise<void>;
  revert: () => Promise<void>;
  /** Puts the content of the file into the model. */
  load: (content: Content) => void;
  /** Shows that the file could not be read or written. */
  showError: (error: unknown, title: string) => Promise<void>;
  /** Asks what to keep where the file has changed; resolves with what was saved. */
  askConflict: (...args: unknown[]) => Promise<unknown>;
}

/** Private members: nothing public is there for JupyterLab's dialogs. */
const SHOW_ERROR = '_handleError';
const ASK_CONFLICT = '_raiseConflict';

type Dialogs = Record<typeof SHOW_ERROR, IContextMethods['showError']> &
  Record<typeof ASK_CONFLICT, IContextMethods['askConflict']>;

/** Whether a context has all that `replaceMethods` and `noteWritten` replace. */
export function hasMethods(context: Context): boolean {
  const has = (of: object, name: string): boolean =>
    typeof (of as Record<string, unknown>)[name] === 'function';
  return (
    ['save', 'revert', SHOW_ERROR, ASK_CONFLICT].every(name => has(context, name)) &&
    ['fromJSON', 'toJSON'].every(name => has(context.model, name))
  );
}

/**
 * Replace what a context does, which has all of it; JupyterLab calls the replacements from then on.
 *
 * @param replace - Makes them of the context's own methods.
 * @returns The context's own methods.
 */
export function replaceMethods(
  context: Context,
  replace: (own: IContextMethods) => IContextMethods
): IContextMethods {
  const { model } = context;
  const dialogs = context as unknown as Dialogs;
  const own: IContextMethods = {
    save: context.save.bind(context),
    revert: context.revert.bind(context),
    load: model.fromJSON.bind(model),
    showError: dialogs[SHOW_ERROR].bind(context),
    askConflict: dialogs[ASK_CONFLICT].bind(context)
  };
  const by = replace(own);
  context.save = by.save;
  context.revert = by.revert;
  model.fromJSON = by.load;
  dialogs[SHOW_ERROR] = by.showError;
  dialogs[ASK_CONFLICT] = by.askConflict;
  return own;
}

/**
 * Note what a model gives to be written.
 *
 * @returns The model does what its class does again.
 */
export function noteWritten(
  model: Context['model'],
  noted: (content: Content) => void
): () => void {
  const own = model as { toJSON?: Context['model']['toJSON'] };
  const write = model.toJSON.bind(model);
  own.toJSON = () => {
    const content = write();
    noted(content);
    return content;
  };
  return () => delete own.toJSON;
}
