/**
 * Replace a method of an object of JupyterLab's.
 *
 * @returns Whether the object has the method, and it could be replaced.
 */
export function replaceMethod<T extends object, K extends keyof T>(
  of: T,
  name: K,
  by: T[K]
): boolean {
  const had = typeof of[name] === 'function';
  try {
    of[name] = by;
  } catch {
    // It is frozen, or has no setter.
  }
  return had && of[name] === by;
}
