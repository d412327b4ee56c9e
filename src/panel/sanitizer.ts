import type { IRenderMime, IRenderMimeRegistry } from '@jupyterlab/rendermime';

/** Attributes from which an element loads a resource. */
const LOADING = new Set([
  'src',
  'srcset',
  'imagesrcset',
  'poster',
  'background',
  'data',
  'lowsrc',
  'dynsrc',
  'xlink:href'
]);
/** What loads in a style. Escapes with a backslash count, since they can hide it. */
const LOADS_IN_STYLE = /(?:url|src|image|image-set)\(|@import|\\/i;
/** Fences of diagrams, and what may load something in one: Mermaid lays it out in the page. */
const DIAGRAM = /([`~]{3,}[ \t]*)mermaid/gi;
const LOADS_IN_DIAGRAM =
  /url|src|image|img|@import|\/\/|\\|(?:https?|ftp):|\S[ \t]*%%\{|<(?!\/?(?:br|b|i|u|em|strong|sub|sup|small|code)\s*\/?>)[a-z!]/i;
/** Commands with which a formula sets styles and creates elements. */
const LOADS_IN_FORMULA = /\\(?:style|mmlToken|unicode|bbox|class|cssId|data|csname|require)/i;

/**
 * Return renderers with which text loads nothing, since a model can leak data in an address.
 *
 * Diagrams and formulas that may load something are shown as text.
 *
 * @param note - Returns the text in place of an image, by its address.
 */
export function localRenderers(
  rendermime: IRenderMimeRegistry,
  note: (address: string) => string
): IRenderMimeRegistry {
  const { latexTypesetter: typesetter, markdownParser: parser } = rendermime;
  return rendermime.clone({
    sanitizer: new LocalSanitizer(rendermime.sanitizer, note),
    ...(parser && {
      markdownParser: {
        render: source =>
          parser.render(LOADS_IN_DIAGRAM.test(source) ? source.replace(DIAGRAM, '$1text') : source)
      }
    }),
    ...(typesetter && {
      latexTypesetter: {
        typeset: node =>
          LOADS_IN_FORMULA.test(node.textContent) ? undefined : typesetter.typeset(node)
      }
    })
  });
}

/**
 * A sanitizer after which HTML loads nothing.
 *
 * Images with `data:` addresses are kept, such as Mermaid diagrams. Others are replaced by a note.
 */
export class LocalSanitizer implements IRenderMime.ISanitizer {
  /** @param within - The sanitizer that removes scripts and event handlers. */
  constructor(
    private readonly _within: IRenderMime.ISanitizer,
    private readonly _note: (address: string) => string
  ) {}

  readonly allowNamedProperties = false;
  readonly allowCommandLinker = false;

  getAutolink(): boolean {
    return this._within.getAutolink?.() ?? true;
  }

  sanitize(dirty: string, options?: IRenderMime.ISanitizerOptions): string {
    const clean = this._within.sanitize(dirty, options);
    // A document without a window loads and runs nothing.
    const inert = new DOMParser().parseFromString(clean, 'text/html');
    for (const element of inert.body.querySelectorAll('*')) {
      this._localise(element, inert);
    }
    // Submitting a form without an action would reload the page.
    for (const form of inert.body.querySelectorAll('form')) {
      form.replaceWith(...form.childNodes);
    }
    return inert.body.innerHTML;
  }

  private _localise(element: Element, inert: Document): void {
    const isImage = element.localName === 'img';
    for (const { name, value } of [...element.attributes]) {
      if (name === 'style' ? LOADS_IN_STYLE.test(value) : name.startsWith('data-commandlinker')) {
        element.removeAttribute(name);
      } else if (LOADING.has(name) || (name === 'href' && !/^a(rea)?$/.test(element.localName))) {
        // An SVG in an `img` runs no scripts and loads nothing.
        const isDiagram = isImage && name === 'src' && /^data:image\/svg\+xml[;,]/i.test(value);
        const isData = /^data:image\/(png|jpeg|gif|webp);base64,/i.test(value);
        if (isDiagram || isData || value.startsWith('#')) {
          continue;
        }
        if (isImage) {
          const note = inert.createElement('em');
          note.textContent = this._note(value);
          element.replaceWith(note);
          return;
        }
        element.removeAttribute(name);
      }
    }
  }
}
