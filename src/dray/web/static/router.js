// The address bar is the state of the page: /ui/VIEW/PART... names what is shown, query parameters are its filters.
import { useCallback, useEffect, useState } from "./html.js";

const BASE = "/ui";
const listeners = new Set();

const tell = () => listeners.forEach((listener) => listener());
window.addEventListener("popstate", tell);

// Addresses that people cut or mistype are shown as they are.
function decoded(part) {
  try { return decodeURIComponent(part); } catch { return part; }
}

function currentRoute() {
  const parts = location.pathname.slice(BASE.length).split("/").filter(Boolean).map(decoded);
  return { view: parts[0] || "", parts: parts.slice(1), params: new URLSearchParams(location.search) };
}

// The address of a view: link("waiting", ["team-a", "job-1"], { queue: "a" }).
export function link(view, parts = [], params = {}) {
  const path = [BASE, view, ...parts].map((part, place) => (place ? encodeURIComponent(part) : part)).join("/");
  const kept = Object.entries(params).filter(([, value]) => value !== "" && value !== undefined && value !== null);
  const query = new URLSearchParams(kept).toString();
  return query ? `${path}?${query}` : path;
}

export function navigate(address, { replace = false } = {}) {
  if (address !== location.pathname + location.search) history[replace ? "replaceState" : "pushState"](null, "", address);
  tell();
}

export function useRoute() {
  const [route, setRoute] = useState(currentRoute);
  useEffect(() => {
    const listener = () => setRoute(currentRoute());
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, []);
  return route;
}

// A query parameter as state: const [text, setText] = useParam("q"). Setting it replaces the entry in the history.
export function useParam(name, otherwise = "") {
  const value = useRoute().params.get(name) ?? otherwise;
  const set = useCallback((next) => {
    const params = new URLSearchParams(location.search);
    if (next === otherwise) params.delete(name);
    else params.set(name, next);
    const query = params.toString();
    navigate(location.pathname + (query ? `?${query}` : ""), { replace: true });
  }, [name, otherwise]);
  return [value, set];
}

// Links inside the page change the view without loading the document again.
export function followLinks(root) {
  root.addEventListener("click", (event) => {
    const anchor = event.target.closest?.("a[href]");
    const plain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
    if (!anchor || !plain || anchor.origin !== location.origin || anchor.target) return;
    if (anchor.pathname !== BASE && !anchor.pathname.startsWith(`${BASE}/`)) return;
    event.preventDefault();
    navigate(anchor.pathname + anchor.search);
  });
}
