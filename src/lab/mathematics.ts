import type { IRenderMime } from '@jupyterlab/rendermime';

import { report } from './features';
import { replaceMethod } from './replacing';

/** MathJax's Safe extension, which filters the attributes in the tree of a formula. */
interface ISafe {
  sanitize(formula: IFormula, document: unknown): void;
}

interface IFormula {
  root: { walkTree(visit: (node: INode) => void): void };
}

interface INode {
  attributes: { getAllAttributes(): Record<string, unknown> };
}

/** The method of JupyterLab's typesetter that loads MathJax and returns its document. */
interface IMathJax {
  mathDocument(): Promise<{ safe?: ISafe }>;
}

/**
 * Remove attributes of formulas before MathJax makes elements of them, which nobody sanitizes.
 *
 * If the typesetter is not JupyterLab's, the feature is switched off.
 *
 * @param typesetter - The typesetter that all renderers of the page share.
 * @param isRemoved - Returns whether an attribute is removed.
 */
export function filterMathematics(
  typesetter: IRenderMime.ILatexTypesetter | null,
  isRemoved: (name: string, value: string) => boolean
): void {
  const own = typesetter?.typeset.bind(typesetter);
  if (typesetter === null || own === undefined) {
    return;
  }
  const prepare = async (): Promise<void> => {
    const { safe } = (await (typesetter as Partial<IMathJax>).mathDocument?.()) ?? {};
    const sanitize = safe?.sanitize.bind(safe);
    const by: ISafe['sanitize'] = (formula, document) => {
      sanitize?.(formula, document);
      formula.root.walkTree(node => {
        const attributes = node.attributes.getAllAttributes();
        Object.keys(attributes)
          .filter(name => isRemoved(name, String(attributes[name])))
          .forEach(name => Reflect.deleteProperty(attributes, name));
      });
    };
    report('images', safe !== undefined && replaceMethod(safe, 'sanitize', by));
  };
  let ready: Promise<void> | undefined;
  const typeset = async (node: HTMLElement): Promise<void> => {
    await (ready ??= prepare());
    await own(node);
  };
  report('images', replaceMethod(typesetter, 'typeset', typeset));
}
