// Preact and htm in one place, so that views import one module.
import { h, render } from "./vendor/preact.mjs";
import htm from "./vendor/htm.mjs";

export { h, render };
export { useCallback, useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "./vendor/hooks.mjs";

// Values become text nodes or properties, never markup.
export const html = htm.bind(h);
