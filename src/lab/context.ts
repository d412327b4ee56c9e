import type { DocumentRegistry } from '@jupyterlab/docregistry';

type Context = DocumentRegistry.Context;
type Content = ReturnType<Context['model']['toJSON']>;

/** The methods of a context that an extension can replace. */
export interface IContextMethods {
  save: () => Promise<void>;
  revert: () => Promise<void>;
  /** Loads the content of the file into the model. */
  load: (content: Content) => void;
  /** Shows the error of a failed read or write. */
  showError: (error: unknown, title: string) => Promise<void>;
  /** Asks what to keep if the file has changed. Resolves with what was saved. */
  askConflict: (...args: unknown[]) => Promise<unknown>;
}

/** Private members, since JupyterLab has no public API for these dialogs. */
const SHOW_ERROR = '_handleError';
const ASK_CONFLICT = '_raiseConflict';

type Dialogs = Record<typeof SHOW_ERROR, IContextMethods['showError']> &
  Record<typeof ASK_CONFLICT, IContextMethods['askConflict']>;

/** Return whether a context has all methods that `replaceMethods` and `noteWritten` replace. */
export function hasMethods(context: Context): boolean {
  const has = (of: object, name: string): boolean =>
    typeof (of as Record<string, unknown>)[name] === 'function';
  return (
    ['save', 'revert', SHOW_ERROR, ASK_CONFLICT].every(name => has(context, name)) &&
    ['fromJSON', 'toJSON'].every(name => has(context.model, name))
  );
}

/**
 * Replace the methods of a context, which must have all of them.
 *
 * @param replace - Returns the replacements, given the context's own methods.
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
 * Observe the content that a model returns for a save.
 *
 * @returns Ends the observation.
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
