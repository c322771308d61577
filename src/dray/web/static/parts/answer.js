// An answer of the server that takes a while: asked when what it is about changes, and again on request.
import { call } from "../api.js";
import { html, useCallback, useEffect, useRef, useState } from "../html.js";

const NOTHING = { answer: null, about: null, problem: "", busy: false };
const PAUSE = 3000;

// const found = useAnswer("waiting", "explain", { name }); found has answer, problem, busy and again().
// With a body of null nothing is asked. With `keep` the last answer is shown until there is another, and is stale if it
// is about something else.
export function useAnswer(view, name, body, { keep = false } = {}) {
  const text = body === null ? null : JSON.stringify(body);
  const [found, setFound] = useState({ ...NOTHING, busy: text !== null });
  const [round, setRound] = useState(0);
  const newest = useRef(null);
  const asked = useRef({ text: null, again: false });
  newest.current = text;
  useEffect(() => {
    if (text === null) {
      setFound(NOTHING);
      return;
    }
    // The answer is on its way: where things change all the time, one that takes long would never be shown.
    if (asked.current.text === text) {
      asked.current.again = true;
      return;
    }
    const question = asked.current = { text, again: false };
    setFound((before) => ({ ...before, problem: "", busy: true }));
    const take = (make) => {
      if (asked.current === question) asked.current = { text: null, again: false };
      // What was answered about something else is not shown.
      if (newest.current !== text) return;
      setFound(make);
      if (question.again) setRound((before) => before + 1);
    };
    call(view, name, JSON.parse(text)).then(
      (answer) => take(() => ({ answer, about: text, problem: "", busy: false })),
      (error) => take((before) => ({ ...(keep ? before : NOTHING), problem: error.message, busy: false })),
    );
  }, [view, name, text, round]);
  useEffect(() => () => { newest.current = undefined; }, []);
  useEffect(() => { if (!keep) setFound((before) => ({ ...before, answer: null })); }, [view, name, text]);
  const again = useCallback(() => setRound((before) => before + 1), []);
  return { ...found, stale: found.about !== text, again };
}

// Asks again when one of the marks has changed, but not all the time.
export function useFresh(again, ...marks) {
  const last = useRef({ known: false, at: 0 });
  useEffect(() => {
    if (marks.includes(undefined)) return undefined;
    if (!last.current.known) {
      last.current.known = true;
      return undefined;
    }
    const ask = () => { last.current.at = Date.now(); again(); };
    const timer = setTimeout(ask, Math.max(0, last.current.at + PAUSE - Date.now()));
    return () => clearTimeout(timer);
  }, marks);
}

// Shows that it is being worked out, or why not, or the children.
export function Answer({ found, busy, children }) {
  if (found.problem) return html`<p role="alert" class="failure">${found.problem}</p>`;
  if (!found.answer) return html`<p class="soft working" role="status">${found.busy ? busy : ""}</p>`;
  return children(found.answer);
}
