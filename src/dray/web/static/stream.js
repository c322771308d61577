// Live data of a view: a snapshot and then changes, as server-sent events over fetch. EventSource cannot send the
// header that proves where a request comes from, and cannot tell why it was refused.
import { Failure, openStream } from "./api.js";
import { useEffect, useState } from "./html.js";
import { own } from "./parts/own.js";

const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 15_000;
// The server sends something at least every 15 seconds. A network that is gone says nothing.
const LONGEST_SILENCE = 40_000;

// RFC 7396. Parts that did not change stay the same objects, so that components can compare them.
function mergePatch(target, patch) {
  if (patch === null || typeof patch !== "object" || Array.isArray(patch)) return patch;
  const known = target !== null && typeof target === "object" && !Array.isArray(target);
  const merged = known ? { ...target } : {};
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete merged[name];
    // An assignment would take __proto__, a name like others here, for the prototype.
    else Object.defineProperty(merged, name, { value: mergePatch(own(merged, name), value), configurable: true, enumerable: true, writable: true });
  }
  return merged;
}

async function readSoon(reader) {
  let timer = 0;
  const silence = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Failure(0, "Nothing comes from the server.")), LONGEST_SILENCE);
  });
  try { return await Promise.race([reader.read(), silence]); } finally { clearTimeout(timer); }
}

async function* events(reader) {
  let pieces = [];
  for (;;) {
    const { done, value } = await readSoon(reader);
    if (done) return;
    pieces.push(value);
    if (!value.includes("\n\n") && !value.startsWith("\n")) continue;
    const parts = pieces.join("").split("\n\n");
    pieces = [parts.pop()];
    for (const part of parts) {
      const lines = part.split("\n");
      const field = (name) => lines.find((line) => line.startsWith(name))?.slice(name.length);
      const data = field("data: ");
      if (data !== undefined) yield { event: field("event: "), data: JSON.parse(data) };
    }
  }
}

// Follows a stream until `signal` aborts. `take(event, data)` gets snapshot and change; `tell(state, text)` gets
// live, stale (the page cannot read the cluster), waiting (it will be tried again) or over (the viewer has to sign in).
export async function follow(view, query, { signal, take, tell }) {
  let pause = FIRST_PAUSE;
  let trouble = "";
  while (!signal.aborted) {
    let reader = null;
    try {
      const response = await openStream(view, query, signal);
      if (response.status === 401) return tell("over", "Your session has ended.");
      if (!response.ok) {
        const answer = await response.json().catch(() => ({}));
        throw new Failure(response.status, answer.error || `The server answered ${response.status}.`);
      }
      reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for await (const { event, data } of events(reader)) {
        if (event === "over") return tell("over", "Your session has ended.");
        pause = FIRST_PAUSE;
        if (event === "trouble") trouble = data.text;
        else take(event, data);
        tell(trouble ? "stale" : "live", trouble);
      }
      throw new Failure(0, "The connection ended.");
    } catch (error) {
      reader?.cancel().catch(() => {});
      if (signal.aborted) return;
      tell("waiting", error instanceof Failure ? error.message : "The connection was lost.");
      await new Promise((resolve) => {
        const timer = setTimeout(resolve, pause);
        signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
      });
      pause = Math.min(2 * pause, LONGEST_PAUSE);
    }
  }
}

// Follows while the page can be seen: a hidden tab holds no connection.
export function followVisible(view, query, { take, tell }) {
  let controller = null;
  const start = () => {
    controller = new AbortController();
    follow(view, query, { signal: controller.signal, take, tell });
  };
  const look = () => {
    if (document.hidden) controller?.abort();
    else if (!controller || controller.signal.aborted) start();
  };
  document.addEventListener("visibilitychange", look);
  look();
  return () => {
    document.removeEventListener("visibilitychange", look);
    controller?.abort();
  };
}

let sessionEnded = () => {};
export const onSessionEnd = (handler) => { sessionEnded = handler; };
export const endSession = (text) => sessionEnded(text);

// The document of a view, live: const { data, state, problem } = useView("waiting", { namespace }).
// data is null until the first snapshot; state is opening, live, stale or waiting.
export function useView(name, params = {}) {
  const query = new URLSearchParams(Object.entries(params).filter(([, value]) => value)).toString();
  const [shown, setShown] = useState({ data: null, state: "opening", problem: "" });
  useEffect(() => {
    setShown({ data: null, state: "opening", problem: "" });
    return followVisible(name, query, {
      take: (event, data) => setShown((now) => ({
        ...now, data: event === "snapshot" ? data : mergePatch(now.data, data),
      })),
      tell: (state, problem) => {
        if (state === "over") sessionEnded(problem);
        else setShown((now) => (now.state === state && now.problem === problem ? now : { ...now, state, problem }));
      },
    });
  }, [name, query]);
  return shown;
}
