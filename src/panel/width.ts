import { SplitPanel, type Widget } from '@lumino/widgets';

/** Pixels up to which a sidebar is as narrow as JupyterLab lets it be. */
const NARROW = 280;
/** Pixels in which lines of a diff can be read. */
const WIDE = 400;
/** The share of the width that the panel takes at most: the notebook is where work is seen. */
const SHARE = 0.35;

/**
 * The sizes of what stands side by side, once the panel has the width that a diff needs.
 *
 * @param sizes - The share of each.
 * @param panel - The place of the panel; what it gains, the widest of the others loses.
 * @param total - Pixels of all.
 */
export function widened(sizes: readonly number[], panel: number, total: number): number[] {
  const share = Math.min(WIDE / total, SHARE);
  const gain = share - (sizes[panel] ?? share);
  const widest = sizes.indexOf(Math.max(...sizes));
  return gain <= 0 || widest === panel
    ? [...sizes]
    : sizes.map((size, place) => (place === panel ? share : place === widest ? size - gain : size));
}

/** Gives a panel in a sidebar the width that a diff needs, where it is as narrow as it can be. */
export function widen(panel: Widget): void {
  let sidebar = panel;
  while (sidebar.parent !== null && !(sidebar.parent instanceof SplitPanel)) {
    sidebar = sidebar.parent;
  }
  const split = sidebar.parent;
  const { offsetWidth: width } = panel.node;
  if (split !== null && width > 0 && width <= NARROW) {
    const sizes = split.relativeSizes();
    split.setRelativeSizes(widened(sizes, split.widgets.indexOf(sidebar), split.node.offsetWidth));
  }
}
