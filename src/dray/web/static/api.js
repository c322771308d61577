// Requests to the server of the page. One header proves that a page of this origin sends them, and the key that it is
// this session: servers at other ports of the machine get its cookie too, but not what is stored here.
const KEY = "dray-key";
let own = "";

// Another tab may have signed in since.
function sessionKey() {
  try { return localStorage.getItem(KEY) ?? own; } catch { return own; }
}

function keep(key) {
  own = key;
  try { localStorage.setItem(KEY, key); } catch { /* it lasts until the page is closed */ }
}

const headers = () => ({ "X-Dray-Page": "1", "X-Dray-Key": sessionKey() });

export class Failure extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

async function send(method, path, body) {
  let response;
  try {
    response = await fetch(`/ui/${path}`, {
      method,
      headers: body === undefined ? headers() : { ...headers(), "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "same-origin",
    });
  } catch {
    throw new Failure(0, "The server does not answer. It may have stopped.");
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Failure(response.status, answer.error || `The server answered ${response.status}.`);
  return answer;
}

export const session = {
  read: () => send("GET", "session"),
  begin: async (credential) => {
    const begun = await send("POST", "session", credential);
    keep(begun.key);
    return begun;
  },
  end: () => send("DELETE", "session").finally(() => keep("")),
};

// Asks the server side of a view: call("try", "plan", { manifest }).
export const call = (view, name, body = {}) => send("POST", `call/${view}/${name}`, body);

export const openStream = (view, query, signal) =>
  fetch(`/ui/stream/${view}${query ? `?${query}` : ""}`, { headers: headers(), credentials: "same-origin", signal });
